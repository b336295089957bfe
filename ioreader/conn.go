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

// ConnOptions are the limiters of a connection, as seen from the end that is given to
// [NewConn]: Read is asked for the bytes it receives, Write for the bytes it sends. A nil
// limiter means no limit, and costs nothing.
type ConnOptions struct {
	Read, Write core.Limiter
}

// NewConn returns a connection that reads from and writes to c, a permit for each byte. It
// returns an error if c is nil.
//
// A call that waits for permits ends with [os.ErrDeadlineExceeded] at its deadline, and not
// before, whatever the limiter says; the deadline may be moved meanwhile. Close ends it at once
// with an error that matches both [net.ErrClosed] and [io.ErrClosedPipe]. If the limiter refuses,
// the call returns its *[core.RejectedError]. The bytes of one Write stay together. Bytes that
// a Read could not pay for before its deadline are returned by the next Read.
//
// The connection is an [io.ReaderFrom] and an [io.WriterTo]; a file sent to a TCP connection
// still goes through sendfile. It has the methods CloseWrite and CloseRead if c has them, and
// NetConn, which returns c. It is safe for concurrent use.
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

// Methods that a connection may also have, to close one direction.
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

// ReadFrom sends all that it reads from r; [io.Copy] uses it.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if c.out.unlimited() {
		return io.Copy(c.Conn, r)
	}
	return pump{side: &c.out, dst: c.Conn, src: r, paid: onWrite}.run()
}

// WriteTo writes all that it receives to w; [io.Copy] uses it.
func (c *conn) WriteTo(w io.Writer) (int64, error) {
	if c.in.unlimited() {
		return io.Copy(w, c.Conn)
	}
	return pump{side: &c.in, dst: w, src: c.Conn, paid: onRead}.run()
}

// Close ends calls that wait for permits, closes the connection underneath, and releases the
// lease of the Conns limiter. Only the first call releases it.
func (c *conn) Close() error {
	defer c.lease.Release()
	c.in.deadline.Close(errConnClosed)
	c.out.deadline.Close(errConnClosed)
	return c.Conn.Close()
}

func (c *conn) pays(l core.Limiter) bool { return c.out.asks(l, c.Conn) }

// String describes the connection by its addresses and limiters.
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
