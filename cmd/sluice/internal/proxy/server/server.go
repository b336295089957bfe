// Package server is a reverse proxy that limits: package httplimit in front of net/http/httputil's ReverseProxy, with the
// limits of package limits and the backends of package upstream.
//
// A request passes through these files on its way to the backend, and its response comes back the same way:
//
//  1. conn.go: the connection takes permits or is closed. It is closed too if the client stops reading the response.
//  2. web.go: the request is counted, for graceful shutdown, and wrapped in an exchange (exchange.go), which records the
//     response for metrics (metrics.go) and the access log (package accesslog). The response may be sent before the body has arrived.
//  3. routes.go: the request gets the current configuration (load.go) and its route. If it has no route, or if a backend might
//     route it or read its key differently, the proxy responds itself, under the global policy.
//  4. Package httplimit applies the policies of the route; grpc.go writes rejections of gRPC calls. The exchange holds the cost
//     that the backend reports (cost.go).
//  5. forward.go: a ReverseProxy forwards the request; answers.go turns failures of backends into responses. WebSocket
//     connections stay limited (upgrade.go).
//  6. Package upstream picks the backend, and gives the request up if the backend times out.
package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/limits"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/upstream"
	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/core"
)

// Proxy is a proxy with its present configuration.
type Proxy struct {
	file      string
	id        string                           // tells it from other proxies
	say       func(format string, args ...any) // prints a line for the user
	log       *slog.Logger                     // prints with say, for httplimit
	keys      *limits.Keys                     // nil means that no file was applied yet
	backends  *upstream.Backends
	metrics   *metrics
	forward   http.Handler // to the backends
	store     *shared.Store
	redisDown atomic.Bool    // Redis does not decide
	access    *accesslog.Log // nil means none
	active    sync.WaitGroup // requests in flight, with upgraded connections
	server    *http.Server   // nil means that it does not listen yet
	draining  atomic.Bool
	others    service.Seldom // messages of net/http
	refusals  service.Seldom // messages about rejected connections
	failures  service.Seldom // messages about failures of backends

	mu    sync.Mutex // one change at a time
	state atomic.Pointer[state]
}

// state is a configuration and what was built from it.
type state struct {
	config  *config.Config // nil means that no configuration was applied yet
	limits  *limits.Set
	handler http.Handler     // handler of HTTP
	cert    *tls.Certificate // nil means no TLS
}

// New returns a proxy with the configuration of the file, or an error that joins the faults of the file. say prints a line for
// the user.
func New(file string, say func(format string, args ...any)) (*Proxy, error) {
	p := &Proxy{file: file, id: rand.Text(), say: say, metrics: newMetrics()}
	p.log = newPolicyLog(p)
	p.backends = upstream.NewBackends(say, sentTo)
	p.forward = newForwarder(p)
	p.state.Store(&state{limits: new(limits.Set)})
	p.metrics.watch(p)
	err := p.load()
	return p, err
}

// Close closes what a proxy has besides its listeners.
func (p *Proxy) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backends.Close()
	p.state.Load().limits.Close()
	if p.store != nil {
		_ = p.store.Close()
	}
	if p.access != nil {
		p.access.Close()
	}
}

// Run serves until a signal comes, and for as long as grace after that.
func (p *Proxy) Run(ctx context.Context, grace time.Duration) error {
	defer p.Close()
	log.SetFlags(0)
	log.SetOutput(logWriter(func(m string) { p.saySeldom(&p.others, everySecond, "%s", m) })) // such as a response of a backend that was not asked for
	s := service.Service{Say: p.say, Files: []string{p.file}, Start: p.start, Reload: p.reload}
	s.Drain = func(signals <-chan os.Signal) error { return p.drain(grace, signals) }
	return s.Run(ctx)
}

// start listens and serves, when the state of Redis is known.
func (p *Proxy) start(ctx context.Context, failed chan<- error) (stop func(), err error) {
	c := p.state.Load().config
	listening := make(chan struct{})
	p.prepareRedis(ctx, listening)
	l, err := cli.Listen(ctx, "listen", c.Listen)
	if err != nil {
		return nil, err
	}
	p.say("listening on %s", l.Addr())
	admin, err := service.ListenAdmin(ctx, "admin", c.Admin, p.admin(), p.say, failed)
	if err == nil && c.AccessLog != "" {
		p.access, err = accesslog.Open(c.AccessLog, c.LogFormat, p.say)
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	close(listening)
	p.WarnUnlimited()
	p.server = p.newServer()
	serve := p.server.Serve
	if c.Cert != "" {
		serve = func(l net.Listener) error { return p.server.ServeTLS(l, "", "") }
	}
	go func() {
		if err := serve(listener{l, p}); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	}()
	return func() {
		_ = admin.Close()
		_ = p.server.Close()
	}, nil
}

// drain takes no more connections, and waits for requests in flight, also for upgraded connections, for which http.Server does not
// wait.
func (p *Proxy) drain(grace time.Duration, signals <-chan os.Signal) error {
	p.draining.Store(true)
	p.say("shutting down; waiting up to %v for in-flight requests", grace)
	ctx, cancel := context.WithTimeout(context.Background(), grace) //nolint:forbidigo // no call has a context for the end
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if p.server.Shutdown(ctx) == nil {
			p.active.Wait()
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
	case s := <-signals:
		return cli.Exit(cli.StatusOf(s), errors.New("second signal; closed the remaining connections"))
	}
	if ctx.Err() != nil {
		p.say("grace period of %v expired; closing the remaining connections", grace)
	} else {
		p.say("all in-flight requests were served")
	}
	return nil
}

// The rates at which messages are printed that may come with each request.
var (
	everySecond = core.Every(time.Second, 1)
	everyMinute = core.Every(time.Minute, 1)
	hundred     = core.PerSecond(100, 100)
)

// saySeldom prints a message, with how many were suppressed before it, or suppresses it.
func (p *Proxy) saySeldom(s *service.Seldom, rate core.TokenBucketOptions, format string, args ...any) {
	if n, ok := s.Allow(rate); ok {
		p.say("%s%s", fmt.Sprintf(format, args...), service.Suppressed(n))
	}
}
