package pipe

import (
	"context"
	"fmt"
	"io"
)

// Reader is the end of a pipe that bytes are read from. Make it with [New]; of the zero
// value every read returns io.ErrClosedPipe.
//
// It is an [io.Reader], [io.WriterTo] and [io.Closer], safe for concurrent use: several
// Reads take turns.
type Reader struct{ p *pipe }

// Read reads up to len(p) bytes. It waits until there is one at least, and until
// ReadLimiter has granted what it returns; the rest stays in the pipe. When the Writer is
// closed and all is read it returns io.EOF, or the error of the Writer's CloseWithError;
// after the Reader's own Close, which also ends a Read that waits, io.ErrClosedPipe. A
// refusal by the limiter comes back as its *core.RejectedError, and no byte is lost.
//
// An empty p returns at once: the error if the pipe has ended, else 0, nil.
func (r *Reader) Read(p []byte) (int, error) { return r.ReadContext(background, p) }

// ReadContext is Read that ends when ctx is done, at once and with ctx.Err(); so it does if
// ctx was done before, whatever is there to read. A call that has bytes already returns
// them.
func (r *Reader) ReadContext(ctx context.Context, p []byte) (int, error) {
	if r.p == nil {
		return 0, io.ErrClosedPipe
	}
	return r.p.read(ctx, p)
}

// WriteTo writes to w what it reads, until the end of the pipe, which is no error, or an
// error. It reads up to 64 KiB ahead of w.
func (r *Reader) WriteTo(w io.Writer) (int64, error) { return copyAll(w, r) }

// Buffered returns how many bytes are in the buffer.
func (r *Reader) Buffered() int {
	if r.p == nil {
		return 0
	}
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.p.buffer.len()
}

// Close drops what is buffered, releases its leases, and makes writes fail with
// io.ErrClosedPipe, those that wait included. It returns nil.
func (r *Reader) Close() error { return r.CloseWithError(nil) }

// CloseWithError is Close that makes writes fail with err; nil: io.ErrClosedPipe. Only the
// first counts. It returns nil.
func (r *Reader) CloseWithError(err error) error {
	if r.p != nil {
		r.p.closeRead(err)
	}
	return nil
}

// String says what the reader is, what limits it, and how much is buffered.
func (r *Reader) String() string {
	if r.p == nil {
		return "pipe reader, closed"
	}
	return fmt.Sprintf("pipe reader, %v, %d bytes buffered", &r.p.rd, r.Buffered())
}

func (p *pipe) read(ctx context.Context, b []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if n := p.tryRead(b); n > 0 {
		return n, nil
	}
	return p.readSlow(ctx, b)
}

// tryRead is a Read that does not wait for anything. It returns 0 if it is not as simple as
// that.
func (p *pipe) tryRead(b []byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rd.busy || p.rd.limiter != nil || p.wr.keeps || p.rd.closed || p.rd.expired {
		return 0
	}
	return p.takeLocked(b)
}

func (p *pipe) readSlow(ctx context.Context, b []byte) (int, error) {
	if err := p.enter(ctx, &p.rd); err != nil {
		return 0, err
	}
	defer p.leave(&p.rd)
	for {
		n, err := p.awaitBytes(ctx, len(b))
		if err != nil || n == 0 {
			return 0, err
		}
		if p.rd.limiter == nil {
			n = p.take(b)
		} else if n, err = p.takeMetered(ctx, b[:n]); err != nil {
			return 0, err
		}
		if n > 0 {
			return n, nil
		}
		// The Write has taken back what it lent, or the reader was closed.
	}
}

// awaitBytes waits until there are bytes to read, and returns how many of n there are.
func (p *pipe) awaitBytes(ctx context.Context, n int) (there int, err error) {
	waitErr := p.wait(ctx, &p.rd.cond, func() bool {
		there, err = min(n, p.onTheirWayLocked()), p.readErrLocked()
		ready := err != nil || n == 0 || there > 0
		p.wanted = !ready && p.rd.limiter == nil
		return ready
	})
	if waitErr != nil {
		p.giveUp()
		return 0, waitErr
	}
	return there, err
}

// giveUp says that a Read waits no longer, to a Write that hands its bytes over.
func (p *pipe) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = false
	p.wr.cond.Signal()
}

// takeMetered pays for the next slice of b, which is there to be read, takes it, and what more
// of b it can have without waiting.
func (p *pipe) takeMetered(ctx context.Context, b []byte) (n int, err error) {
	defer p.rd.meter.Settle(0) // the limiter may panic
	k, err := p.rd.meter.Take(ctx, p.rd.deadline.Source(), len(b))
	if err != nil {
		return 0, p.readErrOr(err)
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

// readErrOr returns why nothing can be read, or else err.
func (p *pipe) readErrOr(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ended := p.readErrLocked(); ended != nil {
		return ended
	}
	return err
}

// take moves the oldest bytes to b, and lets go of what they held. It returns 0 if there are
// none any more.
func (p *pipe) take(b []byte) int {
	defer p.releaseRead() // it may panic, being a user's: nothing else is left to do then
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeLocked(b)
}

// takeLocked is take without the leases. It wakes a Write that waits until the reader is here.
func (p *pipe) takeLocked(b []byte) int {
	n := p.buffer.take(b)
	if n == 0 {
		n = copy(b, p.lent)
		p.lent = p.lent[n:]
	}
	p.wr.give(n)
	if p.onTheirWayLocked() <= p.resume {
		p.wr.cond.Signal()
	}
	return n
}
