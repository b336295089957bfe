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
// io.ErrClosedPipe. If WriteLimiter is of another package and rejects the request, it is the
// limiter's *core.RejectedError. Closing either end also ends a waiting Write.
//
// A Write of more bytes than the limiter's limit asks for permits in parts. Permits granted for
// bytes that were not written are refunded. If len(p) is 0, Write does not wait for permits or
// room; it returns an error if the pipe is closed. Write does not retain p.
func (w *Writer) Write(p []byte) (int, error) { return w.WriteContext(background, p) }

// WriteContext is like Write, but returns ctx.Err() when ctx is done before or while it waits. If
// ctx is done before the call, nothing is written even if there is room. If ctx ends later,
// WriteContext returns the number of bytes that are in the buffer or have been read, and the
// rest of p is not written. A rate limiter rejects a request at once if its permits would come
// after ctx's deadline; this *[core.RejectedError] also matches [context.DeadlineExceeded].
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

func (p *pipe) write(ctx context.Context, b []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if p.tryWrite(b) {
		return len(b), nil
	}
	return p.writeSlow(ctx, b)
}

// tryWrite writes b if it can be written without waiting and without a lease. It reports whether it
// did.
func (p *pipe) tryWrite(b []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(b)
	if n == 0 || p.wr.busy || p.writeErrLocked() != nil || n > p.wr.capacity-p.buffer.len() {
		return false
	}
	if n >= lentMin && len(p.wanted) > 0 {
		return false
	}
	if !p.wr.unlimited() && !p.wr.limiter.TryPlain(n) {
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
		k, err := p.writePart(ctx, b[n:], n == 0)
		n += k
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

// A Write of at least lentMin bytes that has to wait for the reader lends them, so that they are
// copied once. Copying fewer bytes twice takes less time than waking the other side.
const lentMin = 16 << 10

// writePart writes a part of b, for which it may wait for room and permits, and returns its length.
// It may return 0 when there has come to be room. first is whether the Write has not written anything
// yet.
func (p *pipe) writePart(ctx context.Context, b []byte, first bool) (int, error) {
	room, err := p.room()
	switch {
	case err != nil || len(b) == 0:
		return 0, err
	case p.wr.unlimited() && room < len(b) && len(b) >= lentMin:
		return p.lend(ctx, b, bufferSize)
	case room == 0 && p.wr.holding == leases && p.wr.grow():
		return 0, nil
	case room == 0:
		// If it continued as soon as there is any room, it and the reader would wake each other for
		// every few bytes.
		return p.lend(ctx, nil, p.wr.capacity-min(len(b), p.wr.capacity/2))
	}
	part := b[:min(room, len(b))]
	whole := first && len(part) == len(b)
	switch {
	case p.wr.unlimited():
		return p.put(part, whole)
	case p.wr.holding == permits:
		return p.writeHolding(ctx, part, whole)
	}
	return p.writeMetered(ctx, part)
}

// writeMetered waits for permits of any limiter but a *core.ConcurrencyLimiter and writes as much
// of b as they allow.
func (p *pipe) writeMetered(ctx context.Context, b []byte) (int, error) {
	defer p.wr.meter.Settle(0) // in case the limiter panics
	n, err := p.wr.meter.Take(ctx, p.wr.deadline.Source(), len(b))
	if err != nil {
		return 0, p.endOr(p.writeErrLocked, err)
	}
	n, err = p.put(b[:n], false)
	p.wr.meter.Settle(n)
	return n, err
}

// writeHolding waits for permits of a *core.ConcurrencyLimiter and writes as much of b as they
// allow. If there are permits for fewer bytes, the Write has to wait for the reader anyway, so it
// lends them.
func (p *pipe) writeHolding(ctx context.Context, b []byte, whole bool) (n int, err error) {
	k, err := p.wr.takePermits(ctx, p.wr.deadline.Source(), len(b))
	if err != nil {
		return 0, p.endOr(p.writeErrLocked, err)
	}
	if k < len(b) && k >= lentMin {
		n, err = p.lend(ctx, b[:k], 0)
	}
	if n == k {
		return n, err
	}
	rest, putErr := p.put(b[n:k], whole && k == len(b)) // these bytes have permits, so they are written even if ctx is done
	if err == nil {
		err = putErr
	}
	return n + rest, err
}

// lend waits until at most resume bytes are left to read, and lets Reads copy b directly until then.
// It returns how many bytes of b were read. b may be empty.
func (p *pipe) lend(ctx context.Context, b []byte, resume int) (n int, err error) {
	done := ctx.Done()
	p.mu.Lock()
	p.lent, p.resume = b[p.giveWantedLocked(b):], resume
	p.rd.change.Send()
	going := true
	for err = p.writeErrLocked(); going && err == nil && p.unreadLocked() > resume; err = p.writeErrLocked() {
		going = p.wr.change.Wait(&p.mu, done)
	}
	n = len(b) - len(p.lent)
	p.lent = nil
	p.mu.Unlock()
	if !going && err == nil {
		err = ctx.Err()
	}
	return n, err
}

// room returns how many bytes the buffer has room for, or the error with which a Write has to end.
func (p *pipe) room() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.wr.capacity-p.buffer.len(), 0), p.writeErrLocked()
}

// put writes b, which has its permits and for which the buffer has room. If the pipe is closed, it
// gives plain permits back; the caller settles a meter.
//
// If b is a whole Write, large, and given to a Read that could take more, put waits until that Read has
// noticed. If the next Write ran ahead of the Read, its bytes would be copied twice, and the one after
// that might wait in the limiter's queue: 32 KiB in BenchmarkPipe of bench/pipes take 1.15 of io.Pipe's time
// without this, and 1.05 with it.
func (p *pipe) put(b []byte, whole bool) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.closedErrLocked(); err != nil {
		p.wr.give(len(b))
		return 0, err
	}
	p.putLocked(b)
	if p.wr.holding == leases {
		if lease := p.wr.meter.Keep(); lease.Acquired() {
			p.leases.Push(held{lease, p.buffer.end})
		}
	}
	if whole && len(b) >= lentMin && len(p.wanted) > 0 {
		p.wr.change.Wait(&p.mu, nil)
	}
	return len(b), nil
}

// putLocked gives b to a Read that waits, and appends what that does not take to the buffer.
func (p *pipe) putLocked(b []byte) {
	p.buffer.put(b[p.giveWantedLocked(b):])
	p.rd.change.Send()
}

// giveWantedLocked copies b into the slice of a Read that waits, and returns how many bytes it took.
// Bytes are in the buffer only while no Read waits, or when its slice is full.
func (p *pipe) giveWantedLocked(b []byte) int {
	n := copy(p.wanted, b)
	p.wanted = p.wanted[n:]
	p.wr.give(n)
	return n
}
