package ioreader

import (
	"context"
	"io"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/meter"
)

// Reader is a throttled [io.Reader]. Create it with [NewReader]; the methods of the zero Reader return an
// error that matches [core.ErrClosed] and [io.ErrClosedPipe].
//
// It is safe for concurrent use, even if the underlying reader is not: concurrent calls run one
// after another.
type Reader struct {
	stream // a Reader holds no permits

	side side
	r    io.Reader
}

// NewReader returns a Reader that reads from r, with one permit of l for each byte. A nil l means
// no limit. When ctx is done, waiting and later calls return ctx.Err(), even if permits are
// available. A Reader has no resources of its own, and need not be closed. If ctx or r is nil or
// holds a nil pointer, or l holds one, NewReader returns a zero Reader.
func NewReader(ctx context.Context, r io.Reader, l core.Limiter) *Reader {
	t := &Reader{r: r, stream: meter.NewStream(nil, nil, r)}
	if canStart(ctx, r, l) {
		t.side.start(ctx, l, nil, r)
	}
	return t
}

// Read reads at most one slice from the underlying reader, and then waits for permits for the
// bytes that it got. It returns the bytes for which it got permits. If it got none, it returns the
// reason: the context's error, the limiter's *[core.RejectedError], or [io.ErrClosedPipe] after
// Close. The next Read returns the other bytes, so none are lost. Other errors are those of the
// underlying reader.
func (t *Reader) Read(p []byte) (int, error) { return t.side.read(t.r, p) }

// WriteTo implements [io.WriterTo]. It copies the underlying reader to w until io.EOF, for which it
// returns a nil error, or until an error occurs. If the underlying reader is a file, and w is a
// file or a TCP connection, the kernel copies the bytes if it supports that. Concurrent Reads may
// get some of the bytes.
func (t *Reader) WriteTo(w io.Writer) (int64, error) {
	return t.side.copy(w, t.r, nil)
}

// SetReadDeadline makes calls that wait for permits end with [os.ErrDeadlineExceeded] at that time, and
// later calls too, until the deadline is moved. The zero Time removes it. The bytes that got no permits
// are returned by a later Read. The deadline of the underlying reader is not set.
func (t *Reader) SetReadDeadline(at time.Time) error { return t.side.setDeadline(at) }

// Close ends a waiting call and all later calls with [io.ErrClosedPipe]. Then, if the underlying
// reader is an [io.Closer], Close closes it and returns its error. Later calls of Close do nothing
// and return nil.
func (t *Reader) Close() error { return t.side.close(t.r) }

// String returns a human-readable line: the reader and its limiter.
func (t *Reader) String() string { return "throttled reader, " + t.side.String() }
