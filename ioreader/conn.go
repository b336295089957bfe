package ioreader

import (
	"errors"
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
// one Write stay together.
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
	c.in.start(newLoneEnding(), o.Read)
	c.out.start(newLoneEnding(), o.Write)
	c.readBy.side, c.writeBy.side = &c.in, &c.out
	w, ok := under.(writeCloser)
	if !ok {
		return c
	}
	if r, ok := under.(readCloser); ok {
		return &twoWayConn{c, w, r}
	}
	return &halfConn{c, w}
}

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
	in, out         side
	readBy, writeBy deadline
	lease           core.Lease // of ListenerOptions.Conns
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
	if c.in.limiter == nil {
		return c.Conn.Read(p)
	}
	return c.in.read(c.Conn, p)
}

func (c *conn) Write(p []byte) (int, error) {
	if c.out.limiter == nil {
		return c.Conn.Write(p)
	}
	return c.out.write(c.Conn, p)
}

// ReadFrom sends all of r. It is what [io.Copy] uses.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if c.out.limiter == nil {
		return io.Copy(c.Conn, r)
	}
	e, err := c.out.enter()
	if err != nil {
		return 0, err
	}
	defer c.out.leave()
	return pump{side: &c.out, e: e, dst: c.Conn, src: r, paid: onWrite}.run()
}

// WriteTo receives all that comes into w. It is what [io.Copy] uses.
func (c *conn) WriteTo(w io.Writer) (int64, error) {
	if c.in.limiter == nil {
		return io.Copy(w, c.Conn)
	}
	e, err := c.in.enter()
	if err != nil {
		return 0, err
	}
	defer c.in.leave()
	return pump{side: &c.in, e: e, dst: w, src: c.Conn, paid: onRead}.run()
}

// Close ends calls that wait for permits, closes the connection underneath, and releases
// its place in the listener.
func (c *conn) Close() error {
	c.readBy.close()
	c.writeBy.close()
	err := c.Conn.Close()
	c.lease.Release()
	return err
}

func (c *conn) SetDeadline(t time.Time) error {
	err := c.Conn.SetDeadline(t)
	if err == nil {
		c.readBy.set(t)
		c.writeBy.set(t)
	}
	return err
}

func (c *conn) SetReadDeadline(t time.Time) error {
	err := c.Conn.SetReadDeadline(t)
	if err == nil {
		c.readBy.set(t)
	}
	return err
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	err := c.Conn.SetWriteDeadline(t)
	if err == nil {
		c.writeBy.set(t)
	}
	return err
}
