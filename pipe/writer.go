package pipe

import (
	"context"
	"fmt"
	"io"
	"runtime"
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
func (w *Writer) ReadFrom(r io.Reader) (int64, error) { return readFrom(w, r) }

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

func (p *pipe) write(ctx context.Context, b []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := p.wr.turn.Take(ctx); err != nil {
		return 0, err
	}
	n := len(b)
	switch {
	case n >= handOverMin || n == 0 || p.wr.stopped() || p.ring.room(n) < n:
	case !p.wr.limited || p.wr.permits != nil && p.wr.permits.TryTake(n):
		p.put(b)
		p.leaveWrite()
		return n, nil
	}
	return p.writeSlow(ctx, b)
}

func (p *pipe) writeSlow(ctx context.Context, b []byte) (n int, err error) {
	defer p.leaveWrite()
	p.wr.canceled = false
	if p.wr.limited {
		defer p.endMetered()
	}
	for first := true; first || len(b) > 0; first = false {
		if err := p.writeErr(); err != nil {
			return n, err
		}
		if err := p.wr.broken(ctx); err != nil {
			return n, err
		}
		var k int
		if p.wr.limited {
			k, err = p.passMetered(ctx, b)
		} else {
			k = p.passFree(ctx, b)
		}
		n += k
		b = b[k:]
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// endMetered ends a Write that pays: what it has filled is handed over, and what it has paid
// for and not passed, because its limiter panicked, is given back.
func (p *pipe) endMetered() {
	p.endClaim()
	p.wr.meter.Settle(0)
}

// passFree passes on some of b, or waits.
func (p *pipe) passFree(ctx context.Context, b []byte) int {
	room := p.ring.room(len(b))
	if len(b) >= handOverMin && !p.rd.limited {
		if k, ok := p.passOver(ctx, b, room >= len(b)); ok {
			return k
		}
	}
	if room = min(room, len(b)); room > 0 {
		p.put(b[:room])
	} else if len(b) > 0 {
		p.awaitRoom(ctx, len(b))
	}
	return room
}

// passOver passes bytes on past the ring: to a Read that waits, or to the next, for which it
// waits as long as the bytes do not fit in the ring, and else only a little. ok is false if
// none came.
func (p *pipe) passOver(ctx context.Context, b []byte, fits bool) (n int, ok bool) {
	var dst []byte
	var done <-chan struct{}
	if fits {
		dst = p.lookForReader()
	} else {
		done = ctx.Done()
		dst = p.claimOrOffer(b)
	}
	if dst != nil {
		n = copy(dst, b)
		p.filled(n)
		p.handOver()
		return n, true
	}
	if fits {
		return 0, false
	}
	p.notify()
	p.awaitReader(done, len(b))
	return len(b) - p.withdrawWrite(), true
}

// passMetered passes on as much of b as one slice is, or waits.
func (p *pipe) passMetered(ctx context.Context, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	room := p.roomMetered(len(b))
	if room == 0 {
		p.awaitRoom(ctx, len(b))
		return 0, nil
	}
	room = min(room, len(b), bufferSize)
	if p.wr.permits != nil {
		p.lookForPermits(room)
	}
	if p.claimed {
		p.pause()
	}
	n, err := p.wr.take(ctx, room)
	if err != nil {
		if closed := p.writeErr(); closed != nil {
			err = closed
		}
		return 0, err
	}
	if p.wr.stopped() {
		p.unpay(n)
		return 0, nil // the state says why
	}
	over := 0
	if len(b) >= handOverMin {
		dst := p.lookForReader()
		p.claimed = dst != nil
		if over = copy(dst, b[:n]); over > 0 {
			p.filled(over)
		}
	}
	p.settle(n, over)
	if over < n {
		p.endClaim()
		p.put(b[over:n])
	}
	return n, nil
}

// unpay gives back what n bytes have been paid that do not pass.
func (p *pipe) unpay(n int) {
	if p.wr.permits != nil {
		p.wr.permits.Give(n)
		return
	}
	p.wr.meter.Settle(0)
}

// settle says that a slice of n bytes passes, of which so many were handed over and the
// others are about to be put into the ring.
func (p *pipe) settle(n, over int) {
	switch {
	case p.wr.permits != nil:
		if over > 0 {
			p.wr.permits.Give(over)
		}
	case p.wr.keeps && over < n:
		p.leases.push(p.wr.meter.Keep(), p.ring.end+uint64(n-over))
	default:
		p.wr.meter.Settle(n)
	}
}

// endClaim hands over what the Write has filled, if it has.
func (p *pipe) endClaim() {
	if p.claimed {
		p.claimed = false
		p.handOver()
	}
}

// roomMetered is room in a ring that is as large as the limiter asks for.
func (p *pipe) roomMetered(n int) int {
	p.ring.capacity = p.wr.capacity()
	room := p.ring.room(n)
	if room == 0 {
		p.wr.ask()
		p.ring.capacity = p.wr.capacity()
		room = p.ring.room(n)
	}
	return room
}

// put appends b to the ring, which has room, and wakes the Read that waits for it.
func (p *pipe) put(b []byte) {
	p.ring.put(b)
	p.notify()
}

func (p *pipe) notify() {
	if p.idle.Load() {
		p.idle.Store(false)
		p.rd.rouse()
	}
}

// awaitRoom waits until there is room for n bytes, or half the ring is free, or until
// something else may have changed. A reader that goes on it lets go on until half the ring
// is, which saves the two sides from taking turns byte by byte.
func (p *pipe) awaitRoom(ctx context.Context, n int) {
	half := p.ring.capacity / 2
	p.awaitReader(ctx.Done(), min(n, half))
	p.lookForRoom(p.ring.end + uint64(half) - uint64(p.ring.capacity))
}

// awaitReader waits until there is room for n bytes; if there never is, until the reader
// has come far enough with what was offered to it.
func (p *pipe) awaitReader(done <-chan struct{}, n int) {
	until := uint64(nobody)
	if n <= p.ring.capacity {
		until = p.ring.end + uint64(n) - uint64(p.ring.capacity)
	}
	if until != nobody && p.lookForRoom(until) {
		return
	}
	p.full.Store(until)
	if p.ring.read.Load() < until && !p.wr.stopped() {
		p.wr.wait(done)
	}
	p.full.Store(nobody)
}

// lookForRoom is to a Write what lookForBytes is to a Read.
func (p *pipe) lookForRoom(until uint64) bool {
	for range yields {
		for range looks {
			if p.ring.read.Load() >= until {
				return true
			}
			if p.wr.roused() {
				return false // wait takes the token
			}
		}
		runtime.Gosched()
	}
	return p.ring.read.Load() >= until
}

// lookForReader returns the buffer of a Read that waits. If the reader has read all it lets
// it run, so that it can come to wait: then the bytes are copied once only, and while they
// are near this processor.
func (p *pipe) lookForReader() []byte {
	for range handOverYields {
		for range handOverLooks {
			if p.idle.Load() {
				break
			}
		}
		if dst := p.claim(); dst != nil {
			return dst
		}
		runtime.Gosched()
	}
	return p.claim()
}

// lookForPermits looks for a while, before a Write asks its concurrency limiter for n bytes,
// whether the reader gives some back, if the limiter can't grant that many as long as this
// pipe has so many itself: to wait in the limiter costs more than to look.
func (p *pipe) lookForPermits(n int) {
	limit := uint64(p.wr.limit)
	n = min(n, p.wr.limit)
	if p.ring.end+uint64(n)-p.ring.read.Load() <= limit {
		return
	}
	n = max(n, p.wr.limit/2)
	for range yields {
		for range looks {
			if p.ring.end+uint64(n)-p.ring.read.Load() <= limit {
				return
			}
		}
		runtime.Gosched()
	}
}
