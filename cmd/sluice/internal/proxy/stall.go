package proxy

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

const (
	stall = time.Minute // how long a client may send no byte of a body, or take none of an answer
	fresh = 12          // a deadline is set anew when the 12th part of its time is over
)

// stalling is a listener whose connections do not wait for ever for a client to take its answer.
type stalling struct {
	net.Listener

	begun time.Time // what instants are told from: a distance is read in half the time
}

func (l stalling) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &stallingConn{Conn: c, begun: l.begun, stall: stall}, nil
}

// stallingConn cuts off another side that takes nothing for stall, or for up to a 12th less: to set a deadline costs ten
// times what it costs to look whether the last one is recent.
type stallingConn struct {
	net.Conn

	begun time.Time
	stall time.Duration
	set   atomic.Int64 // when the deadline was set, since begun; 0: never
	ended atomic.Bool  // nothing more is read
}

func (c *stallingConn) Read(p []byte) (int, error) {
	if c.ended.Load() {
		return 0, io.EOF
	}
	return c.Conn.Read(p)
}

func (c *stallingConn) Write(p []byte) (int, error) {
	now := time.Since(c.begun)
	if set := time.Duration(c.set.Load()); set == 0 || now-set >= c.stall/fresh {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
			return 0, err
		}
		c.set.Store(int64(now))
	}
	return c.Conn.Write(p)
}

// CloseWrite ends one way of an upgraded connection alone.
func (c *stallingConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SetDeadline also forgets the deadline that was set here: net/http takes off all of them before an upgrade.
func (c *stallingConn) SetDeadline(t time.Time) error {
	c.set.Store(0)
	return c.Conn.SetDeadline(t)
}

// SetWriteDeadline does so too.
func (c *stallingConn) SetWriteDeadline(t time.Time) error {
	c.set.Store(0)
	return c.Conn.SetWriteDeadline(t)
}
