package pipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// Writer is the write end of a pipe. Create it with [New]; every Write to the zero Writer fails
// with an error that matches [core.ErrClosed] and io.ErrClosedPipe.
//
// It is safe for concurrent use: concurrent Writes run one after another, and the bytes of each
// stay together.
type Writer struct {
	stream

	p *pipe
}

// Write writes p to the pipe. It waits for WriteLimiter, and while the buffer is full, and returns when all of p is
// buffered or has been read. If it cannot write all of p, it returns the number of bytes written and an error. After
// the Reader was closed, the error is the one given to its CloseWithError, or io.ErrClosedPipe. After the Writer was
// closed, it is io.ErrClosedPipe. If WriteLimiter rejects the request, as [core.Blocked] and custom limiters may, it
// is the limiter's *core.RejectedError. Closing either end also ends a waiting Write.
//
// A Write of more bytes than the limiter's limit requests permits in parts. Permits granted for
// bytes that were not written are refunded. If len(p) is 0, Write does not wait for permits or
// room; it returns an error if the pipe is closed. Write does not retain p.
func (w *Writer) Write(p []byte) (int, error) { return w.WriteContext(background, p) }

// WriteContext is like Write, but returns ctx.Err() when ctx is done before or while it waits. If
// ctx is done before the call, nothing is written even if there is room. If ctx ends later,
// WriteContext returns the number of bytes that are in the buffer or have been read, and the rest
// of p is not written. A rate limiter rejects a request immediately if its permits would become
// available after ctx's deadline; this *[core.RejectedError] also matches
// [context.DeadlineExceeded].
func (w *Writer) WriteContext(ctx context.Context, p []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if w.p == nil {
		return 0, errZero
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

// String returns a human-readable line: the writer and its limiter.
func (w *Writer) String() string {
	if w.p == nil {
		return "pipe writer, closed"
	}
	return fmt.Sprintf("pipe writer, %v", &w.p.wr)
}

// A Write of at least lentMin bytes that has to wait for the reader lends them, so that they are
// copied once. Copying fewer bytes twice takes less time than waking the other side.
const lentMin = 16 << 10

// write is called with a ctx that was not done.
func (p *pipe) write(ctx context.Context, b []byte) (n int, err error) {
	if len(b) < lentMin && p.tryWrite(b, false) {
		return len(b), nil
	}
	if err := p.wr.turn.Take(ctx); err != nil {
		return 0, err
	}
	defer p.wr.turn.Leave()
	p.awaitRead(len(b))
	if p.tryWrite(b, true) {
		return len(b), nil
	}
	for {
		k, err := p.writePart(ctx, b[n:])
		n += k
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

// tryWrite writes b if it can be written without waiting for permits or room, and without a lease. It reports whether it
// did. A small Write need not have the turn: if the turn is free under the mutex, no other Write is in progress. If it took
// the turn, a byte would take 1.2 times as long through a pipe (BenchmarkPipe of bench).
func (p *pipe) tryWrite(b []byte, hasTurn bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(b)
	if n == 0 || p.leased || !hasTurn && !p.wr.turn.Free() || p.writeErrLocked() != nil || n > p.capacity-p.bytes.buffer.len() {
		return false
	}
	if !p.wr.unlimited() && !p.wr.limiter.TryPlain(n) {
		return false
	}
	p.putLocked(b, hold.Hold{})
	return true
}

// awaitRead is called before n bytes are written. If there are many, and a Read that was given bytes has no room for them and
// has not run since, awaitRead waits until it runs. Otherwise the Write would run ahead of the Reads, and all bytes would
// go through the buffer, to be copied twice.
func (p *pipe) awaitRead(n int) {
	if n < lentMin {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.bytes.wanted; w != nil && len(w) < n && p.rd.change.Empty() {
		p.bytes.resume = math.MaxInt
		p.wr.change.Await(&p.mu, nil)
	}
}

// writePart writes a part of b, for which it may wait for room and permits, and returns its length.
// It may return 0 when there is room now.
func (p *pipe) writePart(ctx context.Context, b []byte) (n int, err error) {
	if p.leased {
		p.fitCapacity() // without the mutex, because limiters may be user code
	}
	done := ctx.Done() // before the permits are taken, because it is user code
	room, err := p.room()
	switch {
	case err != nil || len(b) == 0:
		return 0, err
	case p.wr.unlimited() && room < len(b) && len(b) >= lentMin:
		return p.lend(ctx, done, b, p.capacity)
	case room == 0:
		// Until the buffer has room for b, or is half free. If a Write continued as soon as there is any room, it
		// and the reader would wake each other for every few bytes.
		return p.lend(ctx, done, nil, p.capacity-min(len(b), max(p.capacity/2, 1)))
	}
	part := b[:min(room, len(b))]
	defer p.wr.meter.Settle(0) // in case the limiter panics
	k, h, err := p.pay(ctx, len(part))
	if err != nil {
		return 0, p.endOr(p.writeErrLocked, err)
	}
	if p.plain && k < len(part) && k >= lentMin { // it waits for the reader anyway
		if n, err = p.lend(ctx, done, part[:k], 0); n == k {
			return n, err
		}
	}
	rest, putErr := p.put(part[n:k], h) // they have permits, so they are written even if ctx is done
	if putErr != nil {
		h.Lease.Refund()
	}
	p.wr.meter.Settle(rest)
	if err == nil {
		err = putErr
	}
	return n + rest, err
}

// room returns how many bytes the buffer has room for, or the error with which a Write has to end.
func (p *pipe) room() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.capacity-p.bytes.buffer.len(), 0), p.writeErrLocked()
}

// lend waits until Reads have left at most resume bytes. They take those in the buffer, and then those of b directly. It
// returns how many bytes of b they took. b may be empty.
func (p *pipe) lend(ctx context.Context, done <-chan struct{}, b []byte, resume int) (n int, err error) {
	p.mu.Lock()
	p.bytes.lent, p.bytes.resume = b, resume
	p.rd.change.Signal()
	going := true
	for err = p.writeErrLocked(); going && err == nil && !p.bytes.enough(); err = p.writeErrLocked() {
		going = p.wr.change.Await(&p.mu, done) == wait.Granted
	}
	n = len(b) - len(p.bytes.lent)
	p.bytes.lent = nil
	p.mu.Unlock()
	if !going && err == nil {
		err = ctx.Err()
	}
	return n, err
}

// pay waits for permits for as many of n bytes as it can get, and returns how many that are. The Hold is what they hold
// beside plain permits; nothing if their permits are returned with time alone.
func (p *pipe) pay(ctx context.Context, n int) (int, hold.Hold, error) {
	switch {
	case p.wr.unlimited():
		return n, hold.Hold{}, nil
	case p.plain:
		k, err := p.takePlain(ctx, n)
		return k, hold.Hold{}, err
	}
	m := &p.wr.meter
	k, err := m.Take(ctx, p.wr.deadline.Source(), n)
	if err != nil || m.Current().Rated {
		return k, hold.Hold{}, err
	}
	return k, hold.Hold{Lease: m.Keep()}, nil
}

// A Write waits for at most 1/waitingPart of the limit. If it waited for all of it, no other user
// of the limiter would get a permit until all were back.
const waitingPart = 4

// takePlain takes n plain permits, or as many as are available, and returns their number. If none
// are available, it waits for only a part of n, and leaves the others to other users of the limiter.
func (p *pipe) takePlain(ctx context.Context, n int) (int, error) {
	l := &p.wr.limiter
	for {
		if l.TryPlain(n) {
			return n, nil
		}
		if left := min(l.Available(), n); l.TryPlain(left) {
			return left, nil
		}
		part := min(n, max(hold.Limit(l.Limiter)/waitingPart, 1))
		_, err := l.Take(ctx, p.wr.deadline.Source(), part)
		if err == nil {
			return part, nil
		}
		if part == 1 || !errors.Is(err, core.ErrPermitsExceedLimit) {
			return 0, err
		}
		n = part - 1 // the limit has shrunk
	}
}

// put writes b, which holds h, or its plain permits, and for which the buffer has room. If the pipe is closed, it
// returns the plain permits, and the caller returns the rest.
func (p *pipe) put(b []byte, h hold.Hold) (int, error) {
	defer release(&p.wr.popped)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.closedErrLocked(); err != nil {
		p.givePlainLocked(len(b))
		return 0, err
	}
	p.putLocked(b, h)
	return len(b), nil
}

// putLocked gives b to a Read that waits, and appends what that does not take to the buffer.
func (p *pipe) putLocked(b []byte, h hold.Hold) {
	p.ledger.Push(len(b), h)
	p.popLocked(p.bytes.put(b), &p.wr.popped)
	p.rd.change.Signal()
}
