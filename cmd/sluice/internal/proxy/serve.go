package proxy

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/sluice-go/sluice/cmd/sluice/internal/ballast"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/stall"
	"github.com/sluice-go/sluice/cmd/sluice/internal/watch"
)

// server serves connections.
type server interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error // waits for the requests under way
	Close() error                       // does not
}

// run serves until a signal comes, and for as long as grace after that.
func (p *proxy) run(ctx context.Context, grace time.Duration) error {
	defer p.close()
	drop := ballast.Hold()
	defer drop()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	changed := watch.Files(ctx, p.say, p.file)
	defer changed.Close()
	failed := make(chan error, 2)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	following := p.followResets(ctx)
	warm(p.store, p.state.Load().known)
	<-following
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
	p.ready()
	p.notify(daemon.SdNotifyReady)
	for {
		select {
		case err := <-failed:
			return err
		case <-changed.Settled:
			p.reload(false) //nolint:contextcheck // the limits outlive it
		case s := <-signals:
			if s == syscall.SIGHUP {
				p.reopenLog()
				p.reload(true) //nolint:contextcheck // the limits outlive it
				continue
			}
			return p.drain(main, grace, signals) //nolint:contextcheck // it goes on when ctx has ended
		}
	}
}

// reopenLog opens the access log anew, after logrotate has renamed the file.
func (p *proxy) reopenLog() {
	if p.access == nil {
		return
	}
	if err := p.access.reopen(); err != nil {
		p.say("the access log goes on in the old file: %v", err)
	}
}

// drain takes no more connections, and waits for requests under way.
func (p *proxy) drain(s server, grace time.Duration, signals <-chan os.Signal) error {
	p.draining.Store(true)
	p.notify(daemon.SdNotifyStopping)
	p.say("ending; requests under way may take %v", grace)
	ctx, cancel := context.WithTimeout(context.Background(), grace) //nolint:forbidigo // no call has a context for the end
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
	if name := p.state.Load().config.AccessLog; name != "" && !p.tcp {
		if p.access, err = openLog(name, p.state.Load().config.LogFormat); err != nil {
			_ = l.Close()
			return nil, err
		}
	}
	l = doors{l, p}
	var s server
	if p.tcp {
		s = newTCP(p)
	} else {
		w := newWeb(p)
		l, s = stall.Listener{Listener: l, Begun: time.Now()}, w
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

// startAdmin listens for the people and programs that look after the proxy.
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
	s := &http.Server{Handler: p.admin(), ReadHeaderTimeout: headerTimeout, ReadTimeout: stall.Time, ErrorLog: log.New(io.Discard, "", 0)}
	p.say("admin on %s", l.Addr())
	go serve(s, l, failed)
	return s, nil
}
