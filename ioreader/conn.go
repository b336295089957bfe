package ioreader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/sluice-go/sluice/core"
)

// ConnOptions are the limits of a connection, seen from the end that is given to
// [NewConn]: Read for what it receives, Write for what it sends. A nil limiter is
// unlimited, and costs nothing.
type ConnOptions struct {
	Read, Write core.Limiter
}

// NewConn returns a connection over c whose bytes need permits. A nil c is an error.
//
// A deadline ends a call that waits for permits with [os.ErrDeadlineExceeded], whatever
// the limiter says, at its time and not before; it may be moved meanwhile. Close ends it
// at once with an error that is both [net.ErrClosed] and [io.ErrClosedPipe]. The bytes of
// one Write stay together. Bytes that came, and that a Read could not pay for before its
// deadline, are there for the next.
//
// The connection is an [io.ReaderFrom] and an [io.WriterTo] that keep sendfile and splice
// in use where c does; it has CloseWrite and CloseRead if c has, and a method NetConn that
// returns c.
func NewConn(c net.Conn, o ConnOptions) (net.Conn, error) {
	if c == nil {
		return nil, errors.New("ioreader: NewConn of a nil net.Conn")
	}
	return newConn(c, o, core.Lease{}), nil
}

// newConn returns a connection that releases the lease when it is closed.
func newConn(under net.Conn, o ConnOptions, lease core.Lease) net.Conn {
	c := &conn{Conn: under, lease: lease}
	c.in.start(background, o.Read, nil)
	c.out.start(background, o.Write, under)
	w, ok := under.(writeCloser)
	if !ok {
		return c
	}
	if r, ok := under.(readCloser); ok {
		return &twoWayConn{c, w, r}
	}
	return &halfConn{c, w}
}

// background is the parent of the calls of connections and listeners.
//
//nolint:forbidigo // there is no caller's context
var background = context.Background()

// errConnClosed ends the calls of a connection that is closed.
var errConnClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string { return "ioreader: use of a closed connection" }

func (closedError) Is(target error) bool {
	return target == net.ErrClosed || target == io.ErrClosedPipe
}

// conn is a throttled connection.
type conn struct {
	net.Conn
	in, out side
	lease   core.Lease // of ListenerOptions.Conns
}

// What a connection may have beside: its directions are closed by themselves.
type (
	writeCloser interface{ CloseWrite() error }
	readCloser  interface{ CloseRead() error }
)

// halfConn is over a connection such as *tls.Conn.
type halfConn struct {
	*conn
	writeCloser
}

// twoWayConn is over a connection such as *net.TCPConn.
type twoWayConn struct {
	*conn
	writeCloser
	readCloser
}

// NetConn returns the connection underneath.
func (c *conn) NetConn() net.Conn { return c.Conn }

func (c *conn) Read(p []byte) (int, error) {
	if c.in.unlimited() {
		return c.Conn.Read(p)
	}
	return c.in.read(c.Conn, p)
}

func (c *conn) Write(p []byte) (int, error) {
	if c.out.unlimited() {
		return c.Conn.Write(p)
	}
	return c.out.write(c.Conn, p, nil)
}

// ReadFrom sends all of r. It is what [io.Copy] uses.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if c.out.unlimited() {
		return io.Copy(c.Conn, r)
	}
	return pump{side: &c.out, dst: c.Conn, src: r, paid: onWrite}.run()
}

// WriteTo receives all that comes into w. It is what [io.Copy] uses.
func (c *conn) WriteTo(w io.Writer) (int64, error) {
	if c.in.unlimited() {
		return io.Copy(w, c.Conn)
	}
	return pump{side: &c.in, dst: w, src: c.Conn, paid: onRead}.run()
}

// Close ends calls that wait for permits, closes the connection underneath, and releases
// its place in the listener.
func (c *conn) Close() error {
	defer c.lease.Release()
	c.in.deadline.Close(errConnClosed)
	c.out.deadline.Close(errConnClosed)
	return c.Conn.Close()
}

func (c *conn) pays(l core.Limiter) bool { return c.out.asks(l, c.Conn) }

// String says between which ends the connection is, and what limits it.
func (c *conn) String() string {
	return fmt.Sprintf("connection %v to %v, reading %v, writing %v", c.LocalAddr(), c.RemoteAddr(), &c.in, &c.out)
}

func (c *conn) SetDeadline(t time.Time) error {
	err := c.Conn.SetDeadline(t)
	if err == nil {
		c.in.deadline.Set(t)
		c.out.deadline.Set(t)
	}
	return err
}

func (c *conn) SetReadDeadline(t time.Time) error {
	err := c.Conn.SetReadDeadline(t)
	if err == nil {
		c.in.deadline.Set(t)
	}
	return err
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	err := c.Conn.SetWriteDeadline(t)
	if err == nil {
		c.out.deadline.Set(t)
	}
	return err
}
