package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/sluice-go/sluice/cmd/sluice/internal/ballast"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/cmd/sluice/internal/watch"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/rlslimit"
	"github.com/sluice-go/sluice/spec"
)

// server is a server with its present rules.
type server struct {
	options

	say      func(format string, args ...any)
	service  *rlslimit.Service
	store    *shared.Store // nil: none
	metrics  *metrics
	health   *health.Server
	draining atomic.Bool
}

// names are those by which clients ask for the server's health.
var names = []string{"", "ratelimit", ratelimit.RateLimitService_ServiceDesc.ServiceName}

// budget is how long Redis may take for a decision, so that an answer takes 10 ms.
const budget = 8 * time.Millisecond

// newServer reads the files. It asks nobody.
func newServer(o options, say func(string, ...any)) (*server, error) {
	s := &server{options: o, say: say, health: health.NewServer()}
	c, err := s.load()
	if err != nil {
		return nil, err
	}
	options := rlslimit.Options{Config: c, Headers: o.headers, Logger: cli.NewLogger(s.say)}
	if o.redis != "" {
		if s.store, err = shared.Open(o.redis, budget); err != nil {
			return nil, fmt.Errorf("--redis: %w", err)
		}
		options.Shared = redislimit.Shared{Store: s.store.Limits(), Budget: budget}
	}
	if s.service, err = rlslimit.New(options); err != nil {
		s.close()
		return nil, err
	}
	s.metrics = newMetrics(s.service)
	return s, nil
}

// load reads the files, and prints what in them has no effect.
func (s *server) load() (rlslimit.Config, error) {
	read := rlslimit.Load
	if s.merge {
		read = rlslimit.LoadMerged
	}
	c, err := read(s.files...)
	for _, w := range c.Warnings() {
		s.say("%v", w)
	}
	return c, err
}

func (s *server) close() {
	if s.service != nil {
		_ = s.service.Close()
	}
	if s.store != nil {
		_ = s.store.Close()
	}
}

// run serves until a signal comes, and for as long as grace after that.
func (s *server) run(ctx context.Context) error {
	drop := ballast.Hold()
	defer drop()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	changed := watch.Files(ctx, s.say, s.files...)
	defer changed.Close()
	s.warm()
	failed := make(chan error, 2)
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", s.listen)
	if err != nil {
		return err
	}
	open := &connections{Listener: l}
	main := s.grpc()
	s.say("listening on %s", l.Addr())
	go func() { failed <- main.Serve(open) }()
	defer open.cut(main)
	admin, err := s.startAdmin(ctx, failed)
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close() }()
	s.notify(daemon.SdNotifyReady)
	for {
		select {
		case err := <-failed:
			return err
		case <-changed.Settled:
			s.reload() //nolint:contextcheck // the rules outlive it
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				s.reload() //nolint:contextcheck // as above
				continue
			}
			return s.drain(main, open, signals)
		}
	}
}

// warm prepares the Redis server, so that the first calls do not wait for connections and scripts.
func (s *server) warm() {
	if s.store != nil {
		s.store.Warm([]spec.Limit{
			{Kind: spec.TokenBucket, Permits: 1, Per: time.Second},
			{Kind: spec.FixedWindow, Permits: 1, Per: time.Second},
			{Kind: spec.SlidingWindow, Permits: 1, Per: time.Second},
		})
	}
}

// grpc returns the server of gRPC.
func (s *server) grpc() *grpc.Server {
	g := grpc.NewServer(
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: time.Duration(s.age), MaxConnectionAgeGrace: time.Duration(s.grace)}),
		// Gateways make sure that connections live.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(10*time.Second),
		// Goroutines that stay have grown their stacks already (bench/rls).
		grpc.NumStreamWorkers(uint32(4*runtime.GOMAXPROCS(0))), //nolint:gosec // a small number
		grpc.UnaryInterceptor(s.metrics.observe),
	)
	ratelimit.RegisterRateLimitServiceServer(g, s.service)
	healthpb.RegisterHealthServer(g, s.health)
	reflection.Register(g)
	for _, name := range names {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	return g
}

// reload reads the files again. If anything is wrong, it prints what, and nothing changes.
func (s *server) reload() {
	s.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	defer s.notify(daemon.SdNotifyReady)
	c, err := s.load()
	if err == nil {
		err = s.service.Update(c)
	}
	s.metrics.reloaded(err)
	if err != nil {
		cli.SayAll(s.say, err)
		s.say("nothing has changed: the rules are those of before")
		return
	}
	s.say("the rules are those of the files now")
}

// notify tells systemd of a state of the server, if the service has Type=notify.
func (s *server) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.say("systemd is not notified: %v", err)
	}
}

// drain takes no more connections, and waits for calls under way.
func (s *server) drain(g *grpc.Server, open *connections, signals <-chan os.Signal) error {
	s.draining.Store(true)
	s.notify(daemon.SdNotifyStopping)
	s.health.Shutdown() // NOT_SERVING
	grace := time.Duration(s.grace)
	s.say("ending; calls under way may take %v", grace)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.GracefulStop()
	}()
	over := time.NewTimer(grace)
	defer over.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	idle := 0
	for {
		select {
		case <-done:
			return nil
		case <-look.C:
			// Clients have been told to go. Those that say nothing are not waited for.
			idle++
			if s.metrics.underWay.Load() > 0 {
				idle = 0
			}
			if idle < looks {
				continue
			}
			open.cut(g)
			<-done
			return nil
		case <-over.C:
			s.say("calls were cut: %v is over", grace)
			open.cut(g)
			<-done
			return nil
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				open.cut(g)
				<-done
				return cli.Exit(cli.StatusOf(sig), errors.New("calls were cut"))
			}
		}
	}
}

// A server is idle if no call was under way at a number of looks in a row.
const (
	lookEvery = 20 * time.Millisecond
	looks     = 25
)

// startAdmin listens for the people and programs that look after the server.
func (s *server) startAdmin(ctx context.Context, failed chan<- error) (io.Closer, error) {
	if s.options.admin == "" {
		return io.NopCloser(nil), nil
	}
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", s.options.admin)
	if err != nil {
		return nil, err
	}
	h := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	s.say("admin on %s", l.Addr())
	go func() {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	}()
	return h, nil
}
