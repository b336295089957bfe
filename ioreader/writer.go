package ioreader

import (
	"context"
	"io"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/meter"
)

// Writer is a throttled [io.Writer]. Create it with [NewWriter]; the methods of the zero Writer return an
// error that matches [core.ErrClosed] and [io.ErrClosedPipe].
//
// It is safe for concurrent use, even if the underlying writer is not: concurrent calls run one
// after another, and the bytes of one Write stay together.
type Writer struct {
	stream

	side side
	w    io.Writer
}

// NewWriter returns a Writer that writes to w, with one permit of l for each byte. A nil l means
// no limit. When ctx is done, waiting and later calls return ctx.Err(), even if permits are
// available. A Writer has no resources of its own, and need not be closed. If ctx or w is nil or holds
// a nil pointer, or l holds one, NewWriter returns a zero Writer.
func NewWriter(ctx context.Context, w io.Writer, l core.Limiter) *Writer {
	t := &Writer{w: w}
	if canStart(ctx, w, l) {
		t.side.start(ctx, l, w, nil)
		t.stream = meter.NewStream(l, nil, w)
	}
	return t
}

// Write writes p slice by slice, waiting for permits before each slice. It returns the number of
// bytes written. If that is less than len(p), the error is the underlying writer's, the context's,
// the limiter's *[core.RejectedError], or [io.ErrClosedPipe] after Close. Permits for bytes that
// were not written are refunded.
func (t *Writer) Write(p []byte) (int, error) { return t.side.write(t.w, p) }

// ReadFrom implements [io.ReaderFrom]. It copies r to the underlying writer until io.EOF, for which
// it returns a nil error, or until an error occurs. If r is a file, and the underlying writer is a
// file or a TCP connection, the kernel copies the bytes if it supports that. The bytes of
// concurrent Writes may come between those of r.
func (t *Writer) ReadFrom(r io.Reader) (int64, error) {
	return t.side.copy(t.w, r, nil)
}

// SetWriteDeadline makes calls that wait for permits end with [os.ErrDeadlineExceeded] at that time, and
// later calls too, until the deadline is moved. The zero Time removes it. The deadline of the underlying
// writer is not set.
func (t *Writer) SetWriteDeadline(at time.Time) error { return t.side.setDeadline(at) }

// Close ends a waiting call and all later calls with [io.ErrClosedPipe]. Then, if the underlying
// writer is an [io.Closer], Close closes it and returns its error. Later calls of Close do nothing
// and return nil.
func (t *Writer) Close() error { return t.side.close(t.w) }

// String returns a human-readable line: the writer and its limiter.
func (t *Writer) String() string { return "throttled writer, " + t.side.String() }
