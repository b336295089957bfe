// Package stall has connections that do not wait for ever for the other side to take what is written.
package stall

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// The times.
const (
	Time  = time.Minute // how long a client may send no byte of a body, or take none of an answer
	Fresh = 12          // a deadline is set anew when the 12th part of its time is over
)

// Listener is a listener whose connections do not wait for ever for a client to take its answer.
type Listener struct {
	net.Listener

	Begun time.Time // what instants are told from: a distance is read in half the time
}

// Accept returns the next connection.
func (l Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return New(c, l.Begun, Time), nil
}

// Conn cuts off another side that takes nothing for some time, or for up to a 12th less: to set a deadline costs ten
// times what it costs to look whether the last one is recent.
type Conn struct {
	net.Conn

	begun  time.Time
	within time.Duration
	set    atomic.Int64 // when the deadline was set, since begun; 0: never
	ended  atomic.Bool  // nothing more is read
}

// New returns a connection whose other side may take nothing for so long. begun is some instant before.
func New(c net.Conn, begun time.Time, within time.Duration) *Conn {
	return &Conn{Conn: c, begun: begun, within: within}
}

// End has nothing more be read from the connection.
func (c *Conn) End() { c.ended.Store(true) }

// Ended reports whether End was called.
func (c *Conn) Ended() bool { return c.ended.Load() }

func (c *Conn) Read(p []byte) (int, error) {
	if c.ended.Load() {
		return 0, io.EOF
	}
	return c.Conn.Read(p)
}

func (c *Conn) Write(p []byte) (int, error) {
	now := time.Since(c.begun)
	if set := time.Duration(c.set.Load()); set == 0 || now-set >= c.within/Fresh {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.within)); err != nil {
			return 0, err
		}
		c.set.Store(int64(now))
	}
	return c.Conn.Write(p)
}

// CloseWrite ends one way of an upgraded connection alone.
func (c *Conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SetDeadline also forgets the deadline that was set here: net/http takes off all of them before an upgrade.
func (c *Conn) SetDeadline(t time.Time) error {
	c.set.Store(0)
	return c.Conn.SetDeadline(t)
}

// SetWriteDeadline does so too.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.set.Store(0)
	return c.Conn.SetWriteDeadline(t)
}
