package server

import (
	"net"
	"sync"
	"time"
)

// admittingListener is a listener that closes the connections for which connections and connections-per-ip of the file have
// no permit.
type admittingListener struct {
	net.Listener

	p *Proxy
}

// Accept returns the next connection that may stay.
func (l admittingListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave, refusedBy := l.p.state.Load().limits.Admit(c)
		switch {
		case refusedBy != "":
			l.p.refused(refusedBy, c.RemoteAddr())
			_ = c.Close()
		case leave != nil:
			return &admittedConn{Conn: c, leave: sync.OnceFunc(leave)}, nil
		default:
			return c, nil
		}
	}
}

// refused prints a line about a connection that is closed for want of a permit, once a second at most.
func (p *Proxy) refused(by string, client net.Addr) {
	if others, ok := p.refusals.Lets(time.Second); ok {
		host, _, _ := net.SplitHostPort(client.String())
		p.say("a connection of %s was refused by %s; since the line before: %d", host, by, others)
	}
}

// admittedConn is a connection that holds its permits until it is closed.
type admittedConn struct {
	net.Conn

	leave func()
}

func (c *admittedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// CloseWrite ends one direction alone.
func (c *admittedConn) CloseWrite() error { return closeWrite(c.Conn) }
