package proxy

import (
	"net"
	"net/http"
	"sync"
	"time"

	admit "github.com/sluice-go/sluice/internal/policy"
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
		s, r := l.p.state.Load(), request(c)
		adm := &admission{Snapshot: s.connections.Load()}
		rejection := adm.Admit(r.Context(), r, admit.Try)
		switch {
		case rejection != nil:
			l.p.refused(rejection.Policy.Own.(*limit), c.RemoteAddr())
			_ = c.Close()
			continue
		case len(adm.Decisions) == 0:
			return c, nil
		}
		return &admitted{Conn: c, leave: sync.OnceFunc(func() { adm.End(nil) })}, nil
	}
}

// admission is a connection on its way through policies.
type admission = admit.Admission[*http.Request]

// openDoors returns the policies of connections.
func openDoors(limits []*limit) (*admit.Set[*http.Request], error) {
	var o admit.Options[*http.Request]
	for _, l := range limits {
		o.Policies = append(o.Policies, admit.Policy[*http.Request]{
			Name: l.id.policy, Limiter: l.asked, Rejected: admit.EndpointLimiter, Own: l,
		})
	}
	s := &admit.Set[*http.Request]{Package: "proxy"}
	err := s.Update(o, nil)
	return s, err
}

// refused counts a connection that is closed for want of a permit, and prints a line about it, once a second at most.
func (p *proxy) refused(by *limit, client net.Addr) {
	by.refused.Add(1)
	if others, ok := p.refusals.passes(time.Second); ok {
		host, _, _ := net.SplitHostPort(client.String())
		p.say("a connection of %s was refused by %s; since the line before: %d", host, by.id.policy, others)
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
