package proxy

import (
	"net"
	"net/http"
	"sync"

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
		leases, ok := admit(l.p.state.Load().doors, request(c))
		if ok {
			return &admitted{Conn: c, leave: sync.OnceFunc(func() { release(leases) })}, nil
		}
		_ = c.Close()
	}
}

// admit takes a permit of each limit, or none.
func admit(limits []*limit, r *http.Request) (leases []core.Lease, ok bool) {
	for _, l := range limits {
		lease := l.asked.TryAcquire(r, 1)
		if !lease.Acquired() {
			release(leases)
			return nil, false
		}
		leases = append(leases, lease)
	}
	return leases, true
}

func release(leases []core.Lease) {
	for _, l := range leases {
		l.Release()
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
