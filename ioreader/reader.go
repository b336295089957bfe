package ioreader

import (
	"context"
	"io"

	"github.com/sluice-go/sluice/core"
)

// Reader is a throttled [io.Reader]. Use [NewReader] to make one; all methods of the zero Reader
// return an error.
//
// It is safe for concurrent use: calls take turns, so the reader underneath need not be.
type Reader struct {
	side side
	r    io.Reader
}

// NewReader returns a reader that reads from r, a permit of l for each byte. A nil l means no
// limit. When ctx is done, all calls end with ctx.Err(), even if permits are available. A Reader
// holds no resources, and need not be closed. If ctx or r is nil, it is as the zero Reader.
func NewReader(ctx context.Context, r io.Reader, l core.Limiter) *Reader {
	t := &Reader{r: r}
	if ctx != nil && r != nil {
		t.side.start(ctx, l, nil)
	}
	return t
}

// Read reads at most one slice from the reader underneath, and then waits for permits for the
// bytes that came. It returns the bytes that it has permits for, or if there are none, the
// reason: the error of the context, the limiter's *[core.RejectedError], or [io.ErrClosedPipe]
// after Close. No byte is lost: the next Read gets the rest. Other errors are those of the reader
// underneath.
func (t *Reader) Read(p []byte) (int, error) { return t.side.read(t.r, p) }

// WriteTo writes what it reads to w until the reader underneath ends, which is no error, or until
// an error occurs; [io.Copy] uses it. If the reader underneath is a file, and w a file or a TCP
// connection, the kernel copies the bytes where the system supports it. Other calls may read
// between its slices.
func (t *Reader) WriteTo(w io.Writer) (int64, error) {
	return pump{side: &t.side, dst: w, src: t.r, paid: onRead}.run()
}

// Close ends a call that waits for permits, and all later calls, with [io.ErrClosedPipe]. It then
// closes the reader underneath if that is an [io.Closer], and returns its error. Another Close
// does nothing and returns nil.
func (t *Reader) Close() error { return t.side.close(t.r) }

// String describes the reader and its limiter.
func (t *Reader) String() string { return "throttled reader, " + t.side.String() }
