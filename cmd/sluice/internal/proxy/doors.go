package proxy

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
)

// doors is a listener that closes the connections for which connections and connections-per-ip of the file have no
// permit.
type doors struct {
	net.Listener

	p *proxy
}

// Accept returns the next connection that may stay.
func (l doors) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		s := l.p.state.Load()
		if s.admission == nil {
			return c, nil
		}
		lease := s.admission.TryAcquire(request(c), 1)
		if lease.Acquired() {
			return &admitted{Conn: c, leave: sync.OnceFunc(lease.Release)}, nil
		}
		l.p.refused(s.doors, c.RemoteAddr(), lease.Err())
		_ = c.Close()
	}
}

// refused counts a connection that is closed for want of a permit, and prints a line about it, once a second at most.
func (p *proxy) refused(doors []*limit, client net.Addr, err error) {
	by := "connections"
	if rejected, ok := errors.AsType[*core.RejectedError](err); ok {
		by = rejected.Limiter
	}
	for _, d := range doors {
		if d.id.policy == by {
			d.refused.Add(1)
		}
	}
	if others, ok := p.refusals.passes(time.Second); ok {
		host, _, _ := net.SplitHostPort(client.String())
		p.say("a connection of %s was refused by %s; since the line before: %d", host, by, others)
	}
}

// request is what limits know a connection by.
func request(c net.Conn) *http.Request { return &http.Request{RemoteAddr: c.RemoteAddr().String()} }

// admitted is a connection that holds its permits until it is closed.
type admitted struct {
	net.Conn

	leave func()
}

func (c *admitted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// CloseWrite ends one direction alone.
func (c *admitted) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return http.ErrNotSupported
}
