package pipe

import (
	"context"
	"fmt"
	"io"
)

// Writer is the write end of a pipe. Use [New] to create one; every Write to the zero Writer
// returns io.ErrClosedPipe.
//
// It is safe for concurrent use: concurrent Writes run one after another, and the bytes of each
// stay together.
type Writer struct{ p *pipe }

// background is the context of calls without a context parameter.
//
//nolint:forbidigo // there is no caller's context
var background = context.Background()

// Write writes p to the pipe. It waits for WriteLimiter, and while the buffer is full, and
// returns when all of p is buffered or has been read. If it cannot write all of p, it returns
// the number of bytes written and an error. After the Reader was closed, the error is the one
// given to its CloseWithError, or io.ErrClosedPipe. After the Writer was closed, it is
// io.ErrClosedPipe. If WriteLimiter rejects the request, it is the limiter's
// *core.RejectedError. Closing either end also ends a waiting Write.
//
// A Write of more bytes than the limiter's limit asks for permits in parts. Permits granted for
// bytes that were not written are refunded. If len(p) is 0, Write does not wait for permits or
// room; it returns an error if the pipe is closed. Write does not retain p.
func (w *Writer) Write(p []byte) (int, error) { return w.WriteContext(background, p) }

// WriteContext is like Write, but returns ctx.Err() when ctx is done before or while it waits. If
// ctx is done before the call, nothing is written even if there is room. If ctx ends later,
// WriteContext returns the number of bytes that are in the buffer or have been read, and the
// rest of p is not written.
func (w *Writer) WriteContext(ctx context.Context, p []byte) (int, error) {
	if w.p == nil {
		return 0, io.ErrClosedPipe
	}
	return w.p.write(ctx, p)
}

// ReadFrom implements [io.ReaderFrom]. It copies r to the pipe until r returns io.EOF, for which
// ReadFrom returns a nil error, or until r or a Write fails. It returns the number of bytes
// written. The bytes of concurrent Writes may come between those of r.
func (w *Writer) ReadFrom(r io.Reader) (int64, error) { return copyAll(w, r) }

// Close ends the stream: the Reader gets the buffered bytes and then io.EOF. Waiting and later
// Writes return io.ErrClosedPipe. Close always returns nil.
func (w *Writer) Close() error { return w.CloseWithError(nil) }

// CloseWithError is like Close, but the Reader gets err instead of io.EOF if err is not nil. Only
// the first call of Close or CloseWithError has an effect. CloseWithError always returns nil.
func (w *Writer) CloseWithError(err error) error {
	if w.p != nil {
		w.p.closeWrite(err)
	}
	return nil
}

// String returns a description of the writer and its limiter.
func (w *Writer) String() string {
	if w.p == nil {
		return "pipe writer, closed"
	}
	return fmt.Sprintf("pipe writer, %v", &w.p.wr)
}

// A Write of at least lentMin bytes lends them if a Read is waiting, or if there is no room for
// them, so that they are copied once. Copying fewer bytes twice takes less time than waking the
// other side.
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

// tryWrite writes b if it is small and can be written without waiting. It reports whether it
// did.
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
		k, err := p.writePart(ctx, b[n:])
		n += k
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

// writePart writes a part of b, for which it waits for room and permits, and returns its length.
func (p *pipe) writePart(ctx context.Context, b []byte) (int, error) {
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
	case p.wr.permits != nil:
		return p.writeHolding(ctx, part, len(b))
	}
	return p.writeMetered(ctx, part)
}

// writeMetered waits for permits of any limiter but a *core.ConcurrencyLimiter and writes as much
// of b as they allow.
func (p *pipe) writeMetered(ctx context.Context, b []byte) (int, error) {
	defer p.wr.meter.Settle(0) // in case the limiter panics
	n, err := p.wr.meter.Take(ctx, p.wr.deadline.Source(), len(b))
	if err != nil {
		return 0, p.writeErrOr(err)
	}
	n, err = p.put(ctx, b[:n])
	p.wr.meter.Settle(n)
	return n, err
}

// writeHolding waits for permits of a *core.ConcurrencyLimiter and writes as much of b as they
// allow. all is the number of bytes that the Write still has to write. If there are permits for
// fewer, the Write has to wait for the reader anyway, so it lends its bytes.
func (p *pipe) writeHolding(ctx context.Context, b []byte, all int) (n int, err error) {
	k, err := p.wr.takePermits(ctx, &p.wr.deadline, len(b))
	if err != nil {
		return 0, p.writeErrOr(err)
	}
	if b = b[:k]; k < all && k >= lentMin && p.wr.queues() {
		n, err = p.lend(ctx, b, 0, always)
	}
	if n == k {
		return n, err
	}
	k, putErr := p.put(ctx, b[n:]) // these bytes have permits, so they are written even if ctx is done
	if err == nil {
		err = putErr
	}
	return n + k, err
}

// lending says how long a Write lends its bytes.
type lending bool

const (
	always      lending = false
	whileWanted lending = true // only while a Read is waiting for bytes
)

// lend lets Reads copy b directly, until at most resume bytes are left to read. It returns how
// many bytes of b were read.
func (p *pipe) lend(ctx context.Context, b []byte, resume int, how lending) (n int, err error) {
	lent := false
	waitErr := p.wait(ctx, &p.wr.cond, func() bool {
		if !lent {
			p.lent, p.resume, lent = b, resume, true
			p.rd.cond.Signal()
		}
		err = p.writeErrLocked()
		return err != nil || p.unreadLocked() <= resume || how == whileWanted && !p.wanted
	})
	if waitErr != nil {
		err = waitErr
	}
	return len(b) - p.endLending(), err
}

// endLending takes back the lent bytes and returns how many of them have not been read.
func (p *pipe) endLending() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.lent)
	p.lent = nil
	return n
}

// writeErrOr returns the error with which a Write has to end, or err if there is none.
func (p *pipe) writeErrOr(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ended := p.writeErrLocked(); ended != nil {
		return ended
	}
	return err
}

// room returns how many bytes the buffer has room for, or the error with which a Write has to end.
func (p *pipe) room() (int, error) {
	room, err := p.roomNow()
	if room == 0 && p.wr.bounds {
		p.wr.askLimit() // the limit may have grown
		room, err = p.roomNow()
	}
	return room, err
}

func (p *pipe) roomNow() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.wr.capacity()-p.buffer.len(), 0), p.writeErrLocked()
}

// awaitRoom waits until there is room for n bytes or half of the buffer is free. If a Write
// continued earlier, it and the reader would wake each other for every few bytes.
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

// put writes b, which has its permits and for which the buffer has room. It lends a large b to a
// waiting Read, and appends the rest to the buffer. If the pipe is closed, it gives plain permits
// back; the caller settles a meter.
func (p *pipe) put(ctx context.Context, b []byte) (n int, err error) {
	if len(b) >= lentMin && !p.wr.keeps { // lent bytes have no place in the queue of leases
		n, _ = p.lend(ctx, b, len(b)-1, whileWanted)
		if b = b[n:]; len(b) == 0 {
			return n, nil
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.closedErrLocked(); err != nil {
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

// putLocked appends b to the buffer, and wakes a waiting Read.
func (p *pipe) putLocked(b []byte) {
	p.buffer.put(b)
	p.rd.cond.Signal()
}
