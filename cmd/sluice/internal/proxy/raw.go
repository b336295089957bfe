package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
)

// raw serves connections as they are, whatever is spoken on them, under the global policy.
type raw struct {
	p      *proxy
	active active
	ctx    context.Context //nolint:containedctx // ends the connections that are served
	cancel context.CancelFunc

	mu       sync.Mutex
	listener net.Listener
	closed   bool
}

func newRaw(p *proxy) *raw {
	r := &raw{p: p}
	r.ctx, r.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // the server is nobody's call
	return r
}

// tcpFaults finds what a configuration cannot say of connections.
func tcpFaults(c *config.Config) error {
	if g := c.Global; g != nil && g.Key != config.KeyNone && g.Key != config.KeyIP {
		return c.Fault(g.At, "global: a connection has no %s, want key ip, or none", keyText(*g))
	}
	return nil
}

// Serve serves the connections of l until that is closed.
func (s *raw) Serve(under net.Listener) error {
	s.mu.Lock()
	s.listener = under
	closed := s.closed
	s.mu.Unlock()
	if closed {
		_ = under.Close()
	}
	l, err := ioreader.NewListener(under, ioreader.ListenerOptions{PerConn: s.bandwidth})
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return http.ErrServerClosed
		}
		if err != nil { // such as too many open files: it passes
			s.p.say("%v", err)
			if !pause(s.ctx, 50*time.Millisecond) {
				return http.ErrServerClosed
			}
			continue
		}
		s.active.Go(func() { s.serve(c) })
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// request is what the limits know a connection by.
func request(c net.Conn) *http.Request { return &http.Request{RemoteAddr: c.RemoteAddr().String()} }

// bandwidth returns the limits on the bytes of a connection.
func (s *raw) bandwidth(c net.Conn) (o ioreader.ConnOptions, _ error) {
	g := s.p.state.Load().global
	if g == nil {
		return o, nil
	}
	if g.upload != nil {
		o.Read = bytesOf(g.upload, c)
	}
	if g.download != nil {
		o.Write = bytesOf(g.download, c)
	}
	return o, nil
}

func bytesOf(l *limit, c net.Conn) core.Limiter {
	if l.one != nil {
		return l.one // the listener's conns share it, and its bandwidth in equal parts
	}
	return partition.For(l.asked, request(c))
}

// serve copies both ways until both have ended.
func (s *raw) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	release, err := s.admit(c)
	if err != nil {
		return
	}
	defer release()
	to, err := s.p.backends.dial(s.ctx)
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

// admit asks the global policy for a connection, and returns what gives it back.
func (s *raw) admit(c net.Conn) (release func(), err error) {
	g := s.p.state.Load().global
	if g == nil || len(g.requests) == 0 {
		return func() {}, nil
	}
	from, err := g.limiter()
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.ctx, context.CancelFunc(func() {})
	if g.MaxWait > 0 {
		ctx, cancel = context.WithTimeout(ctx, g.MaxWait)
	}
	defer cancel()
	begun := time.Now()
	lease, err := from.Acquire(ctx, request(c), 1)
	result, m := httplimit.Acquired, s.p.metrics
	release = func() {}
	switch {
	case err == nil:
		held := time.Now()
		m.Active(ctx, g.Name, +1)
		release = func() {
			lease.Release()
			m.Active(s.ctx, g.Name, -1)
			m.Released(s.ctx, g.Name, time.Since(held))
		}
	case errors.Is(err, core.ErrRejected), errors.Is(err, core.ErrPermitsExceedLimit), ctx.Err() != nil:
		result = httplimit.GlobalLimiter
	default:
		result = httplimit.Failed
		if g.FailOpen {
			err = nil
		}
	}
	m.Decided(ctx, g.Name, result, time.Since(begun))
	return release, err
}

// copy copies one way, and then ends that way alone: the other may go on.
func (s *raw) copy(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if w, ok := to.(interface{ CloseWrite() error }); ok && err == nil && w.CloseWrite() == nil {
		return
	}
	_ = to.Close()
	_ = from.Close()
}

// Shutdown takes no more connections, and waits for those that there are.
func (s *raw) Shutdown(ctx context.Context) error {
	s.stop()
	s.active.wait(ctx)
	return ctx.Err()
}

// Close takes no more connections, and ends those that there are.
func (s *raw) Close() error {
	s.stop()
	s.cancel()
	s.active.Wait()
	return nil
}

func (s *raw) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.listener != nil {
		_ = s.listener.Close()
	}
}
