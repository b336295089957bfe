package server

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// stallTime is how long a client may send no byte of a body, or take none of an answer.
const stallTime = time.Minute

// stallListener is a listener of connections that do not wait for ever for a client to take its answer.
type stallListener struct{ net.Listener }

// Accept returns the next connection.
func (l stallListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &clientConn{Conn: c}, nil
}

// clientConn is a connection to a client, which is cut off if it takes nothing for some time.
type clientConn struct {
	net.Conn

	ended  atomic.Bool // nothing more is read
	length atomic.Bool // the name of Content-Length has come
	tail   []byte      // the latest bytes read, which may be its beginning
}

func (c *clientConn) Read(p []byte) (int, error) {
	if c.ended.Load() {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	c.noteLength(p[:n])
	return n, err
}

func (c *clientConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(stallTime)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// CloseWrite ends one way of an upgraded connection alone.
func (c *clientConn) CloseWrite() error { return closeWrite(c.Conn) }

// closeWrite ends the writes to a connection, where that is possible alone.
func closeWrite(c any) error {
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return http.ErrNotSupported
}
