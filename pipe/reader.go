package pipe

import (
	"context"
	"fmt"
	"io"

	"github.com/sluice-go/sluice/internal/wait"
)

// Reader is the read end of a pipe. Create it with [New]; every Read of the zero Reader fails with
// an error that matches [core.ErrClosed] and io.ErrClosedPipe.
//
// It is safe for concurrent use: concurrent Reads run one after another.
type Reader struct {
	stream

	p *pipe
}

// Read reads up to len(p) bytes. It waits until there is at least one byte to read, and until ReadLimiter has granted
// the bytes that it returns; the other bytes stay in the pipe. When the Writer is closed and all bytes have been read,
// Read returns io.EOF or the error given to the Writer's CloseWithError. When the Reader is closed before or while
// Read waits, Read returns io.ErrClosedPipe. If ReadLimiter rejects the request, as [core.Blocked] and custom limiters
// may, Read returns its *core.RejectedError, and the bytes stay in the pipe.
//
// If len(p) is 0, Read does not wait for bytes; it returns an error if the pipe has ended.
func (r *Reader) Read(p []byte) (int, error) { return r.ReadContext(background, p) }

// ReadContext is like Read, but returns ctx.Err() when ctx is done before or while it waits. If ctx
// is done before the call, no byte is read even if there are bytes. Once ReadContext has read
// bytes, it returns them and no error. A rate limiter rejects a request immediately if its permits
// would become available after ctx's deadline; this *[core.RejectedError] also matches
// [context.DeadlineExceeded].
func (r *Reader) ReadContext(ctx context.Context, p []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if r.p == nil {
		return 0, errZero
	}
	return r.p.read(ctx, p)
}

// WriteTo implements [io.WriterTo]. It copies the pipe to w until the end of the stream, for which
// it returns a nil error, or until a Read or a write to w fails. It reads up to 64 KiB at a time.
func (r *Reader) WriteTo(w io.Writer) (int64, error) { return copyAll(w, r) }

// Buffered returns the number of bytes in the buffer. A Read may return more: it also gets the
// bytes of a large Write that is waiting.
func (r *Reader) Buffered() int {
	if r.p == nil {
		return 0
	}
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.p.bytes.buffer.len()
}

// Close drops the buffered bytes and returns their permits. Waiting and later Writes return
// io.ErrClosedPipe, and so do Reads. Close always returns nil.
func (r *Reader) Close() error { return r.CloseWithError(nil) }

// CloseWithError is like Close, but Writes return err instead of io.ErrClosedPipe if err is not
// nil. Only the first call of Close or CloseWithError has an effect. CloseWithError always
// returns nil.
func (r *Reader) CloseWithError(err error) error {
	if r.p != nil {
		r.p.closeRead(err)
	}
	return nil
}

// String returns a human-readable line: the reader, its limiter and the number of buffered
// bytes.
func (r *Reader) String() string {
	if r.p == nil {
		return "pipe reader, closed"
	}
	return fmt.Sprintf("pipe reader, %v, %d bytes buffered", &r.p.rd, r.Buffered())
}

// read is called with a ctx that was not done.
func (p *pipe) read(ctx context.Context, b []byte) (int, error) {
	if len(b) < lentMin {
		if n := p.tryRead(b); n > 0 {
			return n, nil
		}
	}
	if err := p.rd.turn.Take(ctx); err != nil {
		return 0, err
	}
	defer p.rd.turn.Leave()
	for {
		n, err := p.awaitBytes(ctx, b)
		if n > 0 && !p.rd.unlimited() {
			n, err = p.takeMetered(ctx, b[:n])
		}
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		// No bytes are left: a Write took its lent bytes back, or the reader was closed.
	}
}

// tryRead reads what can be read without waiting, and without the turn; see tryWrite. It is for small Reads: a
// large one mostly waits.
func (p *pipe) tryRead(b []byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leased || !p.rd.unlimited() || !p.rd.turn.Free() || p.rd.closed || p.rd.expired {
		return 0
	}
	return p.takeLocked(b)
}

// awaitBytes waits until there are bytes to read. It reads them into b, unless the side is limited,
// and returns their number. A Write that finds it waiting copies its bytes into b.
func (p *pipe) awaitBytes(ctx context.Context, b []byte) (n int, err error) {
	done := ctx.Done() // before the mutex, because it is user code
	p.mu.Lock()
	going := true
	for going && len(b) > 0 && n == 0 && p.bytes.unread() == 0 && p.readErrLocked() == nil {
		if p.rd.unlimited() {
			p.bytes.wanted = b
		}
		going = p.rd.change.Await(&p.mu, done) == wait.Granted
		if p.bytes.wanted != nil {
			n = len(b) - len(p.bytes.wanted)
			p.bytes.wanted = nil
			if p.bytes.enough() { // for awaitRead
				p.wr.change.Signal()
			}
		}
	}
	if n == 0 && going {
		n, err = p.takeOrCountLocked(b)
	}
	p.mu.Unlock()
	release(&p.rd.popped)
	if n == 0 && !going {
		err = ctx.Err()
	}
	return n, err
}

// takeOrCountLocked ends awaitBytes for a Read that no Write has given bytes.
func (p *pipe) takeOrCountLocked(b []byte) (int, error) {
	switch err := p.readErrLocked(); {
	case err != nil:
		return 0, err
	case p.rd.unlimited():
		return p.takeLocked(b), nil
	}
	return min(len(b), p.bytes.unread()), nil
}

// takeMetered waits for permits for a part of b and reads that part. Then it reads more of b as
// long as it gets permits without waiting. len(b) bytes can be read when it is called.
func (p *pipe) takeMetered(ctx context.Context, b []byte) (n int, err error) {
	defer p.rd.meter.Settle(0) // returns the permits if the limiter panics
	k, err := p.payForRead(ctx, len(b))
	if err != nil {
		return 0, err
	}
	for k > 0 {
		taken := p.take(b[n : n+k])
		p.rd.meter.Settle(taken)
		if n += taken; taken < k || n == len(b) {
			break
		}
		k = p.rd.meter.More(len(b) - n)
	}
	return n, nil
}

// payForRead takes permits for at most want bytes, and returns for how many.
func (p *pipe) payForRead(ctx context.Context, want int) (int, error) {
	if !p.rd.nested.Reduced {
		if k := p.rd.meter.More(want); k > 0 {
			return k, nil
		}
	}
	// Before it waits: the buffered bytes may hold the permits.
	if _, err := p.rd.nested.Follow(&p.rd.meter); err != nil {
		return 0, fmt.Errorf("pipe: %w", err)
	}
	if p.rd.meter.Limiter() == nil {
		return want, nil
	}
	k, err := p.rd.meter.Take(ctx, p.rd.deadline.Source(), want)
	if err != nil {
		return 0, p.endOr(p.readErrLocked, err)
	}
	return k, nil
}

// take moves the oldest bytes to b and returns the permits they held. It returns their number,
// 0 if there are none.
func (p *pipe) take(b []byte) int {
	p.mu.Lock()
	n := p.takeLocked(b)
	p.mu.Unlock()
	release(&p.rd.popped)
	return n
}

// takeLocked is take without the release of leases. It wakes a Write that waits for the reader.
func (p *pipe) takeLocked(b []byte) int {
	buffered, lent := p.bytes.take(b)
	p.popLocked(buffered, &p.rd.popped)
	p.givePlainLocked(lent)
	if p.bytes.enough() {
		p.wr.change.Signal()
	}
	return buffered + lent
}
