package pipe

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/sluice-go/sluice/internal/limit/meter"
)

// Conns returns the two ends of an in-memory connection. Bytes written to one end are read
// from the other, through a buffer in each direction. Each end has its own limiters: a is for
// the Writes and Reads of the first end, b for those of the second. Conns returns the same errors as
// [New].
//
// The ends behave like those of net.Pipe, except for the buffers. Closing an end drops the bytes
// that it has not read; the other end can still read what was written to it, and then gets
// io.EOF. After an end is closed, calls on it, setting a deadline on it, and Writes to the other end
// return io.ErrClosedPipe. A deadline ends a call with os.ErrDeadlineExceeded even
// while the call waits for a limiter. The limiter does not know the deadline, so it never rejects
// a request early because of it. All errors other than io.EOF and io.ErrClosedPipe are wrapped in
// a *net.OpError.
//
// The ends also have the methods CloseWrite, ReadFrom and WriteTo, and are safe for concurrent
// use.
func Conns(a, b Options) (net.Conn, net.Conn, error) {
	if err := errors.Join(a.validate("a"), b.validate("b")); err != nil {
		return nil, nil, err
	}
	there, err := newPipe(Options{WriteLimiter: a.WriteLimiter, ReadLimiter: b.ReadLimiter, Buffer: a.Buffer})
	if err != nil {
		return nil, nil, err
	}
	back, err := newPipe(Options{WriteLimiter: b.WriteLimiter, ReadLimiter: a.ReadLimiter, Buffer: b.Buffer})
	if err != nil {
		return nil, nil, err
	}
	return newConn(back, there), newConn(there, back), nil
}

// conn is one end of a connection.
type conn struct {
	stream

	in  *pipe // its rd side belongs to this end
	out *pipe // its wr side belongs to this end
}

func newConn(in, out *pipe) *conn {
	return &conn{stream: meter.NewStream(out.wr.limiter.Limiter, in.wr.limiter.Limiter, nil), in: in, out: out}
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.in.read(background, b)
	return n, wrap("read", err)
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.out.write(background, b)
	return n, wrap("write", err)
}

func (c *conn) WriteTo(w io.Writer) (int64, error) { return copyAll(w, c) }

func (c *conn) ReadFrom(r io.Reader) (int64, error) { return copyAll(c, r) }

// Close closes both directions.
func (c *conn) Close() error {
	c.out.closeWrite(nil)
	c.in.closeRead(nil)
	return nil
}

// CloseWrite ends the stream that the other end reads. This end can still read.
func (c *conn) CloseWrite() error {
	c.out.closeWrite(nil)
	return nil
}

func (c *conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, &c.in.rd, &c.out.wr) }

func (c *conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, &c.in.rd) }

func (c *conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, &c.out.wr) }

func (c *conn) setDeadlines(t time.Time, sides ...*side) error {
	if c.closed() {
		return io.ErrClosedPipe
	}
	for _, s := range sides {
		s.deadline.Set(t)
	}
	return nil
}

// closed reports whether this end is closed.
func (c *conn) closed() bool {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return c.in.rd.closed
}

func (*conn) LocalAddr() net.Addr { return addr{} }

func (*conn) RemoteAddr() net.Addr { return addr{} }

// String returns a description of the end's limiters.
func (c *conn) String() string {
	return fmt.Sprintf("pipe connection, reading %v, writing %v", &c.in.rd, &c.out.wr)
}

// wrap adds the operation to an error, as Conns documents.
func wrap(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	return &net.OpError{Op: op, Net: "pipe", Err: err}
}

// addr is the address of both ends.
type addr struct{}

func (addr) Network() string { return "pipe" }

func (addr) String() string { return "pipe" }
