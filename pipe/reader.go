package pipe

import (
	"context"
	"fmt"
	"io"
	"runtime"
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
func (r *Reader) WriteTo(w io.Writer) (int64, error) { return writeTo(w, r) }

// Buffered returns how many bytes are in the buffer.
func (r *Reader) Buffered() int {
	if r.p == nil || r.p.rd.is(ended) {
		return 0
	}
	read := r.p.ring.read.Load() // first, for it never gets ahead
	return int(r.p.ring.written.Load() - read)
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
	if err := p.rd.turn.Take(ctx); err != nil {
		return 0, err
	}
	if !p.rd.limited && !p.wr.keeps && !p.rd.stopped() {
		if n := p.ring.take(b); n > 0 {
			p.consumed()
			p.leaveRead()
			return n, nil
		}
	}
	return p.readSlow(ctx, b)
}

func (p *pipe) readSlow(ctx context.Context, b []byte) (int, error) {
	defer p.leaveRead()
	p.rd.canceled = false
	for {
		state := p.rd.state.Load()
		n := p.ring.buffered() // after the state: see seal
		if err := p.readErr(state, n == 0); err != nil {
			return 0, err
		}
		if err := p.rd.broken(ctx); err != nil || len(b) == 0 {
			return 0, err
		}
		switch {
		case n == 0:
			if n = p.awaitBytes(ctx, b); n > 0 {
				return n, nil
			}
			p.gather(len(b))
		case p.rd.limited:
			return p.readMetered(ctx, b[:min(n, len(b))])
		default:
			n = p.ring.take(b)
			p.consumed()
			return n, nil
		}
	}
}

// readMetered pays for b, which the ring can fill, and fills what was granted, and what more
// there is at once.
func (p *pipe) readMetered(ctx context.Context, b []byte) (n int, err error) {
	defer p.rd.meter.Settle(0) // the limiter may panic
	k, err := p.rd.take(ctx, len(b))
	if err != nil {
		if ended := p.readErr(p.rd.state.Load(), false); ended != nil {
			err = ended
		}
		return 0, err
	}
	for k > 0 {
		p.ring.take(b[n : n+k])
		p.rd.meter.Settle(k)
		if n += k; n == len(b) {
			break
		}
		k = p.rd.meter.More(len(b) - n)
	}
	p.consumed()
	return n, nil
}

// consumed lets go of what the bytes held that were taken from the ring.
func (p *pipe) consumed() {
	if p.wr.keeps {
		defer p.makeRoom() // a user's limiter may panic
		p.leases.release(p.ring.start)
		return
	}
	p.release(p.ring.start)
	p.makeRoom()
}

// makeRoom wakes the Write that waits until the reader is here.
func (p *pipe) makeRoom() {
	if p.ring.start >= p.full.Load() {
		p.full.Store(nobody)
		p.wr.rouse()
	}
}

// awaitBytes waits until the ring may have bytes, or something else may have changed. It
// returns how many bytes it got past the ring.
func (p *pipe) awaitBytes(ctx context.Context, b []byte) int {
	var dst []byte
	if !p.rd.limited && len(b) >= handOverMin {
		dst = b
	}
	if dst == nil && p.lookForBytes() {
		return 0
	}
	done := ctx.Done()
	p.idle.Store(true)
	n := p.takeOffered(b, dst)
	if n == 0 {
		if p.ring.written.Load() == p.ring.start && !p.rd.is(ended|expired|peerEnded) {
			p.rd.wait(done)
		}
		n = p.withdrawRead()
	}
	p.idle.Store(false)
	return n
}

// lookForBytes looks for a while before the Read goes to sleep: the writer is often about
// to bring some, and to sleep and be woken costs more than to look. Between the looks it
// lets the writer run, which may be waiting for this processor.
func (p *pipe) lookForBytes() bool {
	for range yields {
		for range looks {
			if p.ring.written.Load() != p.ring.start {
				return true
			}
			if p.rd.roused() {
				return false // wait takes the token
			}
		}
		runtime.Gosched()
	}
	return p.ring.written.Load() != p.ring.start
}

// gather lets the bytes of several Writes come together, as long as they come one upon the
// other: the two sides get in each other's way less.
func (p *pipe) gather(n int) {
	n = min(n, bufferSize/2)
	for last := uint64(0); ; {
		now := p.ring.written.Load()
		if now == last || int(now-p.ring.start) >= n {
			return
		}
		last = now
		for range gatherLooks {
			if p.ring.written.Load() >= p.ring.start+uint64(n) {
				return
			}
		}
	}
}
