package server

import (
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/upstream"
)

// stallTime is how long a client may send no byte of a body, or take no byte of a response.
const stallTime = time.Minute

// listener accepts the connections for which connections and connections-per-ip of the config file have a permit, and closes
// the others.
type listener struct {
	net.Listener

	p *Proxy
}

// Accept returns the next connection that is admitted.
func (l listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave, rejectedBy := l.p.state.Load().limits.Admit(c)
		if rejectedBy != "" {
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			l.p.saySeldom(&l.p.refusals, everySecond, "connection from %s rejected by %s", host, rejectedBy)
			_ = c.Close()
			continue
		}
		return &clientConn{Conn: c, leave: leave}, nil
	}
}

// clientConn is a connection to a client. It is cut off if the client takes no byte for some time.
type clientConn struct {
	net.Conn

	leave func()      // gives the permits of the connection back; nil if it took none
	ended atomic.Bool // nothing more is read
}

func (c *clientConn) Read(p []byte) (int, error) {
	if c.ended.Load() {
		return 0, io.EOF
	}
	return c.Conn.Read(p)
}

func (c *clientConn) Write(p []byte) (int, error) { return upstream.Write(c.Conn, p, stallTime) }

func (c *clientConn) Close() error {
	if c.leave != nil {
		defer c.leave()
	}
	return c.Conn.Close()
}

// CloseWrite ends one direction of an upgraded connection alone.
func (c *clientConn) CloseWrite() error { return upstream.CloseWrite(c.Conn) }
