package proxy

import (
	"net"
	"sync/atomic"
	"time"
)

const (
	stall = time.Minute     // how long a client may send no byte of a body, or take none of an answer
	renew = 5 * time.Second // a deadline is set anew when it is this old
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
	return &stallingConn{Conn: c, begun: l.begun}, nil
}

// stallingConn cuts off a client that takes nothing for stall, or for up to renew less: to set a deadline costs ten times
// what it costs to look whether the last one is recent.
type stallingConn struct {
	net.Conn

	begun time.Time
	set   atomic.Int64 // when the deadline was set, since begun; 0: never
}

func (c *stallingConn) Write(p []byte) (int, error) {
	now := time.Since(c.begun)
	if set := time.Duration(c.set.Load()); set == 0 || now-set >= renew {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(stall)); err != nil {
			return 0, err
		}
		c.set.Store(int64(now))
	}
	return c.Conn.Write(p)
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
