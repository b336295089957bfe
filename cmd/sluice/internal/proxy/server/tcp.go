package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/limits"
	"github.com/sluice-go/sluice/httplimit"
	admit "github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/ioreader"
)

// tcp serves connections as they are, whatever is spoken on them. To the global policy each is a request.
type tcp struct {
	p      *Proxy
	active active
	ctx    context.Context //nolint:containedctx // ends the connections that are served
	cancel context.CancelFunc

	mu       sync.Mutex
	listener net.Listener
	closed   bool
}

func newTCP(p *Proxy) *tcp {
	s := &tcp{p: p}
	s.ctx, s.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // the server is nobody's call
	return s
}

// tcpFaults finds what a configuration cannot say of connections.
func tcpFaults(c *config.Config) error {
	g := c.Global
	if g == nil {
		return nil
	}
	for _, part := range g.Key {
		if part.Kind != config.KeyIP {
			return c.Fault(g.At, "global: a connection has no %s, want key ip, or none", part)
		}
	}
	for _, part := range g.Flow {
		if part.Kind != config.KeyIP {
			return c.Fault(g.At, "global: a connection has no %s, want flow ip, or none", part)
		}
	}
	if g.Settle != "" {
		return c.Fault(g.At, "global: a connection has no answer for settle, want cost alone")
	}
	return nil
}

// Serve serves the connections of l until that is closed.
func (s *tcp) Serve(under net.Listener) error {
	l, err := ioreader.NewListener(under, ioreader.ListenerOptions{PerConn: s.bandwidth})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.listener = l
	closed := s.closed
	s.mu.Unlock()
	if closed {
		_ = l.Close()
	}
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			if !s.begin() {
				_ = c.Close()
				continue
			}
			go func() {
				defer s.active.Done()
				s.serve(c)
			}()
		case errors.Is(err, net.ErrClosed):
			return http.ErrServerClosed
		default: // such as too many open files, which passes
			s.p.sayOften("%v", err)
			select {
			case <-time.After(acceptPause): //nolint:forbidigo // it is short, and seldom
			case <-s.ctx.Done():
			}
		}
	}
}

// begin counts a connection, for which the end waits, and reports false if that has begun.
func (s *tcp) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.active.Add(1)
	}
	return !s.closed
}

const acceptPause = 50 * time.Millisecond // after a connection that could not be accepted

// bandwidth returns the limits on the bytes of a connection.
func (s *tcp) bandwidth(c net.Conn) (o ioreader.ConnOptions, _ error) {
	g := s.p.state.Load().limits.Global
	if g == nil || g.Shadow {
		return o, nil
	}
	upload, download := g.Bytes()
	if upload != nil {
		o.Read = upload.For(limits.Request(c))
	}
	if download != nil {
		o.Write = download.For(limits.Request(c))
	}
	return o, nil
}

// serve copies in both directions, under the global policy, until both have ended. A connection that is rejected is closed
// without a word.
func (s *tcp) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	state := s.p.state.Load()
	adm := &limits.Admission{Snapshot: state.tcp.Load()}
	if adm.Admit(s.ctx, limits.Request(c), admit.Wait) != nil {
		return
	}
	defer adm.End(func(d *admit.Decision[*http.Request]) {
		if state.limits.Global.Failures { // no connection is one
			d.Refund()
		}
	})
	s.forward(c)
}

// forTCP returns the global policy for connections.
func forTCP(o httplimit.Options) (*admit.Set[*http.Request], error) {
	of := admit.Options[*http.Request]{Logger: o.Logger, Observer: o.Observer}
	if g := o.Global; g != nil {
		of.Policies = []admit.Policy[*http.Request]{{
			Name: g.Name, Limiter: g.Limiter, Permits: g.Permits, MaxWait: g.MaxWait, Flow: g.Flow,
			Rejected: admit.GlobalLimiter, FailOpen: g.FailOpen, Shadow: g.Shadow,
		}}
	}
	s := &admit.Set[*http.Request]{Package: "proxy"}
	err := s.Update(of, nil)
	return s, err
}

func (s *tcp) forward(c net.Conn) {
	to, err := s.p.backends.Dial(s.ctx)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	stop := context.AfterFunc(s.ctx, func() {
		_ = c.Close()
		_ = to.Close()
	})
	defer stop()
	var back sync.WaitGroup
	back.Go(func() { s.copy(c, to) })
	s.copy(to, c)
	back.Wait()
}

// copy copies in one direction, and then ends that direction alone: the other may go on.
func (s *tcp) copy(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if err == nil && closeWrite(to) == nil {
		return
	}
	_ = to.Close()
	_ = from.Close()
}

// Shutdown takes no more connections, and waits for the open ones to end.
func (s *tcp) Shutdown(ctx context.Context) error {
	s.stop()
	s.active.wait(ctx)
	return ctx.Err()
}

// Close takes no more connections, and ends the open ones.
func (s *tcp) Close() error {
	s.stop()
	s.cancel()
	s.active.Wait()
	return nil
}

func (s *tcp) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.listener != nil {
		_ = s.listener.Close()
	}
}
