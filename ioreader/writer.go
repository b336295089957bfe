package ioreader

import (
	"context"
	"io"

	"github.com/sluice-go/sluice/core"
)

// Writer is a throttled [io.Writer]. Make it with [NewWriter]; the zero value refuses.
//
// It is safe for concurrent use as far as the writer underneath is not asked to be: one
// call at a time reaches it, and the bytes of one Write stay together.
type Writer struct {
	side side
	w    io.Writer
}

// NewWriter returns a writer that writes to w, each byte for a permit of l. A nil l is
// unlimited. All its calls are under ctx: when that is done they end with ctx.Err(), even
// if permits are free. It holds no resources, so it need not be closed.
func NewWriter(ctx context.Context, w io.Writer, l core.Limiter) *Writer {
	t := &Writer{w: w}
	if ctx != nil && w != nil {
		t.side.start(ctx, l, w)
	}
	return t
}

// Write writes p, slice by slice, as the limiter grants it. It returns less than len(p)
// only with an error: that of the writer underneath, of the context, the limiter's
// *[core.RejectedError] if it refuses to queue a slice, or [io.ErrClosedPipe]. What was
// paid for and not written is given back.
func (t *Writer) Write(p []byte) (int, error) { return t.side.write(t.w, p, nil) }

// ReadFrom writes what it reads from r until it ends. It is what [io.Copy] uses. If r is
// a file or a connection, and so is the writer underneath, the bytes stay in the kernel
// where the system can do that. While it waits for r, others can write.
func (t *Writer) ReadFrom(r io.Reader) (int64, error) {
	return pump{side: &t.side, dst: t.w, src: r, paid: onWrite}.run()
}

// Close ends a call that waits, and all later ones, with [io.ErrClosedPipe], and closes
// what is underneath if it can be closed. The second Close does nothing and returns nil.
func (t *Writer) Close() error { return t.side.close(t.w) }

// String says what the writer is and what limits it.
func (t *Writer) String() string { return "throttled writer, " + t.side.String() }

func (t *Writer) pays(l core.Limiter) bool { return t.side.asks(l, t.w) }
