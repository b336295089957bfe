package pipe

import (
	"context"
	"fmt"
	"io"
)

// Reader is the read end of a pipe. Use [New] to make one; every Read of the zero Reader
// returns io.ErrClosedPipe.
//
// It is safe for concurrent use: Reads take turns.
type Reader struct{ p *pipe }

// Read reads up to len(p) bytes. It waits until there is at least one byte, and until
// ReadLimiter has granted what it returns; the other bytes stay in the pipe. After the Writer
// was closed and everything is read, it returns io.EOF, or the error given to the Writer's
// CloseWithError. After the Reader was closed, which also ends a Read that waits, it returns
// io.ErrClosedPipe. If the limiter refuses, Read returns its *core.RejectedError, and no byte
// is lost.
//
// An empty Read does not wait; it returns an error if the pipe has ended.
func (r *Reader) Read(p []byte) (int, error) { return r.ReadContext(background, p) }

// ReadContext is like Read, and ends with ctx.Err() when ctx is done, also if ctx was done
// before the call and there are bytes. A call that has read bytes returns them instead.
func (r *Reader) ReadContext(ctx context.Context, p []byte) (int, error) {
	if r.p == nil {
		return 0, io.ErrClosedPipe
	}
	return r.p.read(ctx, p)
}

// WriteTo writes what it reads to w until the pipe ends, which is no error, or until an error
// occurs. It reads up to 64 KiB before it writes them.
func (r *Reader) WriteTo(w io.Writer) (int64, error) { return copyAll(w, r) }

// Buffered returns the number of bytes in the buffer.
func (r *Reader) Buffered() int {
	if r.p == nil {
		return 0
	}
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.p.buffer.len()
}

// Close drops the buffered bytes and releases their leases. Writes, also those that wait,
// return io.ErrClosedPipe. Close always returns nil.
func (r *Reader) Close() error { return r.CloseWithError(nil) }

// CloseWithError is like Close, and Writes return err in place of io.ErrClosedPipe unless err
// is nil. Only the first call of Close or CloseWithError has an effect. It always returns nil.
func (r *Reader) CloseWithError(err error) error {
	if r.p != nil {
		r.p.closeRead(err)
	}
	return nil
}

// String describes the reader, its limiter and what is buffered.
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

// tryRead reads what is there if nothing has to be waited for; else it returns 0.
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
		if err != nil || len(b) == 0 {
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
		// A Write has ended and taken back what it lent, or the reader was closed.
	}
}

// awaitBytes waits until there are bytes to read, and returns how many of n there are.
func (p *pipe) awaitBytes(ctx context.Context, n int) (there int, err error) {
	waitErr := p.wait(ctx, &p.rd.cond, func() bool {
		there, err = min(n, p.unreadLocked()), p.readErrLocked()
		ready := err != nil || n == 0 || there > 0
		p.wanted = !ready && p.rd.limiter == nil
		return ready
	})
	if waitErr != nil {
		err = waitErr
	}
	if err != nil {
		p.giveUp()
	}
	return there, err
}

// giveUp says that the Read is not waiting any more, to a Write that is lending its bytes.
func (p *pipe) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = false
	p.wr.cond.Signal()
}

// takeMetered pays for a slice of b, which is there to be read, and takes it, and then
// whatever more of b it can pay for without waiting.
func (p *pipe) takeMetered(ctx context.Context, b []byte) (n int, err error) {
	defer p.rd.meter.Settle(0) // in case the limiter panics
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

// readErrOr returns why a Read has to end, or err if there is no other reason.
func (p *pipe) readErrOr(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ended := p.readErrLocked(); ended != nil {
		return ended
	}
	return err
}

// take moves the oldest bytes to b, and releases what they held. It returns 0 if there are no
// bytes any more.
func (p *pipe) take(b []byte) int {
	defer p.releaseRead() // last, as a user's limiter may panic
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeLocked(b)
}

// takeLocked is take, but for the leases. It wakes a Write that waits for the reader.
func (p *pipe) takeLocked(b []byte) int {
	n := p.buffer.take(b)
	if n == 0 {
		n = copy(b, p.lent)
		p.lent = p.lent[n:]
	}
	p.wr.give(n)
	if p.unreadLocked() <= p.resume {
		p.wr.cond.Signal()
	}
	return n
}
