package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// server is what serves connections until it is told to stop.
type server interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error // waits for what is served
	Close() error                       // does not
}

// run serves until a signal ends it, for as long as grace after that.
func (p *proxy) run(ctx context.Context, grace time.Duration) error {
	defer p.close()
	drop := ballast()
	defer drop()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	changed := p.watch(ctx)
	defer changed.close()
	failed := make(chan error, 2)
	warm(p.store, p.state.Load().limits)
	main, err := p.start(ctx, failed)
	if err != nil {
		return err
	}
	defer func() { _ = main.Close() }()
	admin, err := p.startAdmin(ctx, failed)
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close() }()
	for {
		select {
		case err := <-failed:
			return err
		case <-changed.settled:
			p.reload(false) //nolint:contextcheck // the limits outlive it
		case s := <-signals:
			if s == syscall.SIGHUP {
				p.reload(true) //nolint:contextcheck // the limits outlive it
				continue
			}
			return p.drain(main, grace, signals) //nolint:contextcheck // it goes on when ctx has ended
		}
	}
}

// drain takes no more connections, and waits for what is served.
func (p *proxy) drain(s server, grace time.Duration, signals <-chan os.Signal) error {
	p.draining.Store(true)
	p.say("ending; what is under way may take %v", grace)
	ctx, cancel := context.WithTimeout(context.Background(), grace) //nolint:forbidigo // the end is nobody's call
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(ctx) }()
	for {
		select {
		case err := <-done:
			if err != nil {
				p.say("connections were cut: %v is over", grace)
			}
			return nil
		case s := <-signals:
			if s != syscall.SIGHUP {
				return cli.Exit(128+int(s.(syscall.Signal)), errors.New("connections were cut")) //nolint:forcetypeassert // it is one of three
			}
		}
	}
}

// start listens for clients.
func (p *proxy) start(ctx context.Context, failed chan<- error) (server, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", p.state.Load().config.Listen)
	if err != nil {
		return nil, err
	}
	var s server
	if p.tcp {
		s = newRaw(p)
	} else {
		w := newWeb(p)
		l, s = stalling{l, time.Now()}, w
		if p.state.Load().cert != nil {
			s = secure{w}
		}
	}
	p.say("listening on %s", l.Addr())
	if p.tcp && p.state.Load().cert != nil {
		p.say("tls is for HTTP: connections pass as they come")
	}
	go serve(s, l, failed)
	return s, nil
}

func serve(s server, l net.Listener, failed chan<- error) {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		failed <- err
	}
}

// startAdmin listens for those who look after the proxy.
func (p *proxy) startAdmin(ctx context.Context, failed chan<- error) (io.Closer, error) {
	address := p.state.Load().config.Admin
	if address == "" {
		return io.NopCloser(nil), nil
	}
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &http.Server{Handler: p.admin(), ReadHeaderTimeout: headerTimeout, ReadTimeout: stall, ErrorLog: log.New(io.Discard, "", 0)}
	p.say("admin on %s", l.Addr())
	go serve(s, l, failed)
	return s, nil
}

const (
	headerTimeout = 10 * time.Second // for a request's header to come
	idleTimeout   = 2 * time.Minute  // until the next request of a connection
	headerBytes   = 64 << 10
)

// web is a server of HTTP.
type web struct {
	http.Server

	active active
}

func newWeb(p *proxy) *web {
	w := new(web)
	w.Server = http.Server{
		Handler:           w.active.handler(prompt(p)),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{SendPingTimeout: stall, PingTimeout: headerTimeout, WriteByteTimeout: stall},
		ErrorLog:          log.New(io.Discard, "", 0), // what clients do wrong
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				return p.state.Load().cert, nil
			},
		},
	}
	w.Protocols.SetHTTP1(true)
	w.Protocols.SetHTTP2(true)
	w.Protocols.SetUnencryptedHTTP2(true)
	return w
}

// Shutdown also waits for upgraded connections.
func (w *web) Shutdown(ctx context.Context) error {
	if err := w.Server.Shutdown(ctx); err != nil {
		return err
	}
	w.active.wait(ctx)
	return ctx.Err()
}

// secure is a server of HTTPS.
type secure struct{ *web }

func (s secure) Serve(l net.Listener) error { return s.ServeTLS(l, "", "") }
