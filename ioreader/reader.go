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
		t.side.start(newEnding(ctx), l)
	}
	return t
}

// Read reads at most one slice, once the limiter has granted it. The permits are taken
// before the read, so nothing is lost if the limiter refuses; what the read did not need
// is given back. Its errors are those of the reader underneath, of the context, the
// limiter's *[core.RejectedError], and [io.ErrClosedPipe].
func (t *Reader) Read(p []byte) (int, error) { return t.side.read(t.r, p) }

// WriteTo writes what it reads to w until the reader ends. It is what [io.Copy] uses. If
// the reader underneath is a file or a connection, and so is w, the bytes stay in the
// kernel where the system can do that.
func (t *Reader) WriteTo(w io.Writer) (int64, error) {
	e, err := t.side.enter()
	if err != nil {
		return 0, err
	}
	defer t.side.leave()
	return pump{side: &t.side, e: e, dst: w, src: t.r, paid: onRead}.run()
}

// Close ends a call that waits, and all later ones, with [io.ErrClosedPipe], and closes
// what is underneath if it can be closed. The second Close does nothing and returns nil.
func (t *Reader) Close() error {
	if t.side.ending.Load() == nil {
		return errNotMade
	}
	if !t.side.end(io.ErrClosedPipe) {
		return nil
	}
	return closeUnder(t.r)
}
