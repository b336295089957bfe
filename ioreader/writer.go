package ioreader

import (
	"context"
	"io"

	"github.com/sluice-go/sluice/core"
)

// Writer is a throttled [io.Writer]. Use [NewWriter] to make one; all methods of the zero Writer
// return an error.
//
// It is safe for concurrent use: calls take turns, so the writer underneath need not be, and the
// bytes of one Write stay together.
type Writer struct {
	side side
	w    io.Writer
}

// NewWriter returns a writer that writes to w, a permit of l for each byte. A nil l means no
// limit. When ctx is done, all calls end with ctx.Err(), even if permits are available. A Writer
// holds no resources, and need not be closed. If ctx or w is nil, it is as the zero Writer.
func NewWriter(ctx context.Context, w io.Writer, l core.Limiter) *Writer {
	t := &Writer{w: w}
	if ctx != nil && w != nil {
		t.side.start(ctx, l, w)
	}
	return t
}

// Write writes p slice by slice, as the limiter grants it. It returns the number of bytes
// written, and an error if that is less than len(p): the error of the writer underneath, the
// error of the context, the limiter's *[core.RejectedError], or [io.ErrClosedPipe] after Close.
// Permits for bytes that were not written are given back.
func (t *Writer) Write(p []byte) (int, error) { return t.side.write(t.w, p, nil) }

// ReadFrom writes what it reads from r until r ends, which is no error, or until an error occurs;
// [io.Copy] uses it. If r is a file, and the writer underneath a file or a TCP connection, the
// kernel copies the bytes where the system supports it. Other calls may write while it waits for r.
func (t *Writer) ReadFrom(r io.Reader) (int64, error) {
	return pump{side: &t.side, dst: t.w, src: r, paid: onWrite}.run()
}

// Close ends a call that waits for permits, and all later calls, with [io.ErrClosedPipe]. It then
// closes the writer underneath if that is an [io.Closer], and returns its error. Another Close
// does nothing and returns nil.
func (t *Writer) Close() error { return t.side.close(t.w) }

// String describes the writer and its limiter.
func (t *Writer) String() string { return "throttled writer, " + t.side.String() }

func (t *Writer) pays(l core.Limiter) bool { return t.side.asks(l, t.w) }
