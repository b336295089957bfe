package pipe

import (
	"context"
	"fmt"
	"io"
)

// Writer is the end of a pipe that bytes are written to. Make it with [New]; of the zero
// value every write returns io.ErrClosedPipe.
//
// It is an [io.Writer], [io.ReaderFrom] and [io.Closer], safe for concurrent use: several
// Writes take turns, and the bytes of each stay together.
type Writer struct{ p *pipe }

// background is the context of the calls that are given none.
//
//nolint:forbidigo // there is no caller's context
var background = context.Background()

// Write writes p. It waits for WriteLimiter, and while the buffer is full; it returns when
// all of p is buffered or read, or with the number of bytes that are and an error: after
// the Reader is closed that of its CloseWithError, by default io.ErrClosedPipe; after the
// Writer's own Close io.ErrClosedPipe; if the limiter refuses, its *core.RejectedError.
// Closing either end ends a Write that waits. More bytes than the limiter's limit are
// taken in parts. What was granted and not passed on is refunded.
//
// An empty p passes nothing and does not wait: it returns the error if the pipe is closed.
// Write does not keep p.
func (w *Writer) Write(p []byte) (int, error) { return w.WriteContext(background, p) }

// WriteContext is Write that ends when ctx is done, at once and with ctx.Err(); so it does
// if ctx was done before, even if there is room. The bytes that it counts stay written.
func (w *Writer) WriteContext(ctx context.Context, p []byte) (int, error) {
	if w.p == nil {
		return 0, io.ErrClosedPipe
	}
	return w.p.write(ctx, p)
}

// ReadFrom writes what it reads from r, until r's end, which is no error, or an error. It
// returns how many bytes were written. While it waits for r others can write.
func (w *Writer) ReadFrom(r io.Reader) (int64, error) { return copyAll(w, r) }

// Close ends the stream: the Reader gets what is buffered, then io.EOF. It ends a Write
// that waits. It returns nil.
func (w *Writer) Close() error { return w.CloseWithError(nil) }

// CloseWithError is Close with another error than io.EOF for the Reader; nil: io.EOF. Only
// the first counts. It returns nil.
func (w *Writer) CloseWithError(err error) error {
	if w.p != nil {
		w.p.closeWrite(err)
	}
	return nil
}

// String says what the writer is and what limits it.
func (w *Writer) String() string {
	if w.p == nil {
		return "pipe writer, closed"
	}
	return fmt.Sprintf("pipe writer, %v", &w.p.wr)
}

// A Write of so many bytes lends them to a Read that waits, and instead of waiting for room:
// so they are copied once. Fewer take less time to copy twice than to wake the other side for.
const lentMin = 16 << 10

func (p *pipe) write(ctx context.Context, b []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if p.tryWrite(b) {
		return len(b), nil
	}
	return p.writeSlow(ctx, b)
}

// tryWrite is a Write of a few bytes that does not wait for anything. It reports whether
// there is nothing to wait for.
func (p *pipe) tryWrite(b []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(b)
	if n == 0 || n >= lentMin || p.wr.busy || p.writeErrLocked() != nil || p.buffer.len()+n > p.wr.capacity() {
		return false
	}
	if p.wr.limiter != nil && (p.wr.permits == nil || !p.wr.permits.TryTake(n)) {
		return false
	}
	p.putLocked(b)
	return true
}

func (p *pipe) writeSlow(ctx context.Context, b []byte) (n int, err error) {
	if err := p.enter(ctx, &p.wr); err != nil {
		return 0, err
	}
	defer p.leave(&p.wr)
	for {
		k, err := p.pass(ctx, b[n:])
		n += k
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

// pass passes on some of b, or says why it can't.
func (p *pipe) pass(ctx context.Context, b []byte) (int, error) {
	room, err := p.room()
	if err != nil || len(b) == 0 {
		return 0, err
	}
	if p.wr.limiter == nil && room < len(b) && len(b) >= lentMin {
		return p.lend(ctx, b, bufferSize, always)
	}
	if room == 0 {
		if room, err = p.awaitRoom(ctx, len(b)); err != nil {
			return 0, err
		}
	}
	part := b[:min(room, len(b))]
	switch {
	case p.wr.limiter == nil:
		return p.put(ctx, part)
	case p.wr.permits == nil:
		return p.passMetered(ctx, part)
	}
	return p.passHolding(ctx, part, len(b))
}

// passMetered passes on one slice of b.
func (p *pipe) passMetered(ctx context.Context, b []byte) (int, error) {
	defer p.wr.meter.Settle(0) // the pipe was closed, or the limiter panics
	n, err := p.wr.meter.Take(ctx, p.wr.deadline.Source(), len(b))
	if err != nil {
		return 0, p.writeErrOr(err)
	}
	n, err = p.put(ctx, b[:n])
	p.wr.meter.Settle(n)
	return n, err
}

// passHolding passes on as much of b as a concurrency limiter has permits for. Of a Write of
// more bytes than those, which is to wait for the reader in any case, they are lent.
func (p *pipe) passHolding(ctx context.Context, b []byte, whole int) (n int, err error) {
	k, err := p.wr.takePermits(ctx, &p.wr.deadline, len(b))
	if err != nil {
		return 0, p.writeErrOr(err)
	}
	if b = b[:k]; k < whole && k >= lentMin && p.wr.queues() {
		n, err = p.lend(ctx, b, 0, always)
	}
	if n == k {
		return n, err
	}
	k, putErr := p.put(ctx, b[n:]) // they have been paid for, so they pass even if ctx has ended
	if err == nil {
		err = putErr
	}
	return n + k, err
}

// lending says for how long a Write lends its bytes.
type lending bool

const (
	always      lending = false
	whileWanted lending = true // not longer than a Read waits for bytes
)

// lend has Reads take b from where it is, and waits until no more than resume bytes are on
// their way. It returns how many of b were read.
func (p *pipe) lend(ctx context.Context, b []byte, resume int, how lending) (n int, err error) {
	offered := false
	waitErr := p.wait(ctx, &p.wr.cond, func() bool {
		if !offered {
			p.lent, p.resume, offered = b, resume, true
			p.rd.cond.Signal()
		}
		err = p.writeErrLocked()
		return err != nil || p.onTheirWayLocked() <= resume || how == whileWanted && !p.wanted
	})
	if waitErr != nil {
		err = waitErr
	}
	return len(b) - p.withdraw(), err
}

// withdraw takes back what is lent, and returns how many bytes those are.
func (p *pipe) withdraw() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.lent)
	p.lent = nil
	return n
}

// writeErrOr returns why nothing can be written, or else err.
func (p *pipe) writeErrOr(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ended := p.writeErrLocked(); ended != nil {
		return ended
	}
	return err
}

// room returns how many bytes the buffer has room for, or why nothing can be written.
func (p *pipe) room() (int, error) {
	room, err := p.roomNow()
	if room == 0 && p.wr.bounds {
		p.wr.askLimit() // it may have grown
		room, err = p.roomNow()
	}
	return room, err
}

func (p *pipe) roomNow() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.wr.capacity()-p.buffer.len(), 0), p.writeErrLocked()
}

// awaitRoom waits until there is room for n bytes, or half the buffer is free. A reader that
// goes on it lets go on until then, which saves the two sides from taking turns byte by byte.
func (p *pipe) awaitRoom(ctx context.Context, n int) (room int, err error) {
	capacity := p.wr.capacity()
	waitErr := p.wait(ctx, &p.wr.cond, func() bool {
		p.resume = capacity - min(n, capacity/2)
		room, err = capacity-p.buffer.len(), p.writeErrLocked()
		return err != nil || p.buffer.len() <= p.resume
	})
	if waitErr != nil {
		return 0, waitErr
	}
	return room, err
}

// put passes b on to a Read that waits, or appends it to the buffer, which has room. If the
// pipe has been closed it says so, and gives the permits back.
func (p *pipe) put(ctx context.Context, b []byte) (n int, err error) {
	if len(b) >= lentMin && !p.wr.keeps { // leases are released by the Read
		n, _ = p.lend(ctx, b, len(b)-1, whileWanted)
		if b = b[n:]; len(b) == 0 {
			return n, nil
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.closedLocked(); err != nil {
		p.wr.give(len(b))
		return n, err
	}
	p.putLocked(b)
	if p.wr.keeps {
		if lease := p.wr.meter.Keep(); lease.Acquired() {
			p.leases.push(lease, p.buffer.end)
		}
	}
	return n + len(b), nil
}

// putLocked appends b to the buffer, and wakes the Read that waits for it.
func (p *pipe) putLocked(b []byte) {
	p.buffer.put(b)
	p.rd.cond.Signal()
}
