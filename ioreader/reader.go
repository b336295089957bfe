package ioreader

import (
	"context"
	"io"

	"github.com/sluice-go/sluice/core"
)

// Reader is a throttled [io.Reader]. Make it with [NewReader]; the zero value refuses.
//
// It is safe for concurrent use as far as the reader underneath is not asked to be: one
// call at a time reaches it.
type Reader struct {
	side side
	r    io.Reader
}

// NewReader returns a reader that reads from r, each byte for a permit of l. A nil l is
// unlimited. All its calls are under ctx: when that is done they end with ctx.Err(), even
// if permits are free. It holds no resources, so it need not be closed.
func NewReader(ctx context.Context, r io.Reader, l core.Limiter) *Reader {
	t := &Reader{r: r}
	if ctx != nil && r != nil {
		t.side.start(ctx, l, nil)
	}
	return t
}

// Read reads at most one slice, and returns it once the limiter has granted the bytes that
// came. If it can't have the permits for all of them it returns those that it can, or why
// it can't: the error of the context, the limiter's *[core.RejectedError], or
// [io.ErrClosedPipe]. Nothing is lost: the next Read gets the rest. The other errors are those
// of the reader underneath.
func (t *Reader) Read(p []byte) (int, error) { return t.side.read(t.r, p) }

// WriteTo writes what it reads to w until the reader ends. It is what [io.Copy] uses. If
// the reader underneath is a file or a connection, and so is w, the bytes stay in the
// kernel where the system can do that. Other calls may read between its slices.
func (t *Reader) WriteTo(w io.Writer) (int64, error) {
	return pump{side: &t.side, dst: w, src: t.r, paid: onRead}.run()
}

// Close ends a call that waits, and all later ones, with [io.ErrClosedPipe], and closes
// what is underneath if it can be closed. The second Close does nothing and returns nil.
func (t *Reader) Close() error { return t.side.close(t.r) }

// String says what the reader is and what limits it.
func (t *Reader) String() string { return "throttled reader, " + t.side.String() }
