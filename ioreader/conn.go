package ioreader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/limit/meter"
)

// ConnOptions are the limiters of a connection given to [NewConn]. Read grants the bytes that the
// connection receives, Write the bytes that it sends. A nil limiter means no limit, and costs nothing.
type ConnOptions struct {
	Read, Write core.Limiter
}

// NewConn returns a connection that reads from and writes to c, with one permit for each byte. It
// returns an error if c is nil, or if c or a limiter holds a nil pointer. Wrap the connection below TLS: for tls.Client and
// tls.Server, give the result of NewConn to them, so that the bytes of TLS count, and net/http finds its
// *tls.Conn. c must be a stream, such as a TCP connection: a large Write to a UDP
// connection would be split into several datagrams, and a Read would lose the end of a large one.
//
// A call that waits for permits ends with [os.ErrDeadlineExceeded] at its deadline. The deadline may be
// moved while the call waits. The limiter does not know the deadline, so it never rejects a request early
// because of it. Close ends a waiting call immediately with an error that matches both [net.ErrClosed] and
// [io.ErrClosedPipe]. If a custom limiter rejects the request, the call returns its *[core.RejectedError].
// The bytes of one Write stay together. Bytes that were read but did not get permits before the deadline are
// returned by the next Read, even after the peer has closed.
//
// The connection implements [io.ReaderFrom] and [io.WriterTo]; a file sent to a TCP connection
// still uses sendfile. If the write deadline passes during a ReadFrom, bytes that were read from the file may
// be lost, as in a ReadFrom of a *net.TCPConn. It has CloseWrite and CloseRead if c has both, CloseWrite alone if c has
// only that, and NetConn, which returns c. It is safe for concurrent use.
func NewConn(c net.Conn, o ConnOptions) (net.Conn, error) {
	if backdoor.IsNil(c) {
		return nil, errors.New("ioreader: NewConn of a nil net.Conn")
	}
	if err := o.validate("ConnOptions"); err != nil {
		return nil, err
	}
	return newConn(c, o, core.Lease{}), nil
}

// validate returns an error that names all limiters that hold a nil pointer.
func (o ConnOptions) validate(where string) error {
	return errors.Join(meter.Check("ioreader: "+where+".Read", o.Read), meter.Check("ioreader: "+where+".Write", o.Write))
}

// newConn returns a connection that releases the lease when it is closed.
func newConn(under net.Conn, o ConnOptions, lease core.Lease) net.Conn {
	c := &conn{Conn: under, lease: lease}
	c.in.start(background, o.Read, nil, under)
	c.out.start(background, o.Write, under, nil)
	c.stream = meter.NewStream(c.out.limiter, nil, under)
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
var errConnClosed error = &closedError{"ioreader: use of a closed connection", net.ErrClosed}

// conn is a throttled connection.
type conn struct {
	net.Conn
	stream

	in, out side
	lease   core.Lease // lease of the Conns limiter of the listener or dialer
}

// Methods that a connection may also have, to close one direction.
type (
	writeCloser interface{ CloseWrite() error }
	readCloser  interface{ CloseRead() error }
)

// halfConn wraps a connection with CloseWrite only, such as *tls.Conn.
type halfConn struct {
	*conn
	writeCloser
}

// twoWayConn wraps a connection with CloseWrite and CloseRead, such as *net.TCPConn.
type twoWayConn struct {
	*conn
	writeCloser
	readCloser
}

// NetConn returns the underlying connection.
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
	return c.out.write(c.Conn, p)
}

// ReadFrom implements [io.ReaderFrom].
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if c.out.unlimited() {
		return io.Copy(c.Conn, r)
	}
	return c.out.copy(c.Conn, r, nil)
}

// WriteTo implements [io.WriterTo].
func (c *conn) WriteTo(w io.Writer) (int64, error) {
	if c.in.unlimited() {
		return io.Copy(w, c.Conn)
	}
	return c.in.copy(w, c.Conn, nil)
}

// Close ends calls that wait for permits, closes the underlying connection, and releases the lease
// of the Conns limiter. Only the first Close releases the lease.
func (c *conn) Close() error {
	defer c.lease.Release()
	c.in.deadline.Close(errConnClosed)
	c.out.deadline.Close(errConnClosed)
	return c.Conn.Close()
}

func (c *conn) isClosed() bool { return c.in.deadline.Source().Cause() == errConnClosed } //nolint:errorlint // that very error

// String describes the connection by its addresses and limiters.
func (c *conn) String() string {
	return fmt.Sprintf("connection %v to %v, reading %v, writing %v", c.LocalAddr(), c.RemoteAddr(), &c.in, &c.out)
}

func (c *conn) SetDeadline(t time.Time) error {
	return c.moveDeadline(c.Conn.SetDeadline, t, &c.in, &c.out)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	return c.moveDeadline(c.Conn.SetReadDeadline, t, &c.in)
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.moveDeadline(c.Conn.SetWriteDeadline, t, &c.out)
}

// moveDeadline moves the deadline of the underlying connection, by set, and those of the sides. A
// net.Pipe rejects a deadline once its peer has closed. A TCP connection does not, and bytes that
// arrived before may still wait for permits, so that is no error unless c itself is closed.
func (c *conn) moveDeadline(set func(time.Time) error, t time.Time, sides ...*side) error {
	err := set(t)
	if errors.Is(err, io.ErrClosedPipe) && !c.isClosed() {
		err = nil
	}
	if err == nil {
		for _, s := range sides {
			s.deadline.Set(t)
		}
	}
	return err
}
