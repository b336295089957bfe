package pipe

import (
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/meter"
)

// New returns the two ends of a pipe with these limiters, or what is wrong with them.
//
// Bytes written to the Writer are read from the Reader, in order. Write and Read may be
// called at the same time, and each from several goroutines: the bytes of one Write stay
// together.
func New(o Options) (*Reader, *Writer, error) {
	if err := o.validate("Options"); err != nil {
		return nil, nil, err
	}
	p := newPipe(o)
	return &Reader{p}, &Writer{p}, nil
}

// pipe is what the two ends share. The ring carries the bytes that a Write leaves behind;
// the handoff those that go from one call to the other, at one time.
//
// The mutex guards the handoff and what the sides say it does. It is a leaf, and held for
// a few instructions only.
type pipe struct {
	ring ring

	rd side
	_  [64]byte
	wr side
	_  [64]byte

	idle atomic.Bool   // a Read waits for bytes
	full atomic.Uint64 // a Write waits until the reader is here; nobody: none does
	_    [48]byte

	leases  leases // of the bytes in the ring, if wr.holds
	given   uint64 // position up to which permits are given back, if wr.permits; guarded by the reader's turn
	claimed bool   // the Write in progress, which has a limiter, has made a claim; guarded by its turn

	mu sync.Mutex
	handoff
}

// nobody in pipe.full: no Write waits.
const nobody = math.MaxUint64

// How long a call looks for the other side before it goes to sleep: so many times, then it
// yields the processor, and all that so many times. Measured with BenchmarkPipe; some
// hundred nanoseconds in all, where to sleep and be woken takes several times as long.
const (
	looks, yields                 = 30, 2
	handOverLooks, handOverYields = 100, 4 // a copy saved is worth more
	gatherLooks                   = 200
)

func newPipe(o Options) *pipe {
	p := new(pipe)
	p.ring.init()
	p.rd.init(o.ReadLimiter, ended|expired, nil)
	p.wr.init(o.WriteLimiter, ended|peerEnded|expired, p.flush)
	if p.wr.holds() && meter.Same(o.ReadLimiter, o.WriteLimiter) {
		p.rd.limited = false // the bytes have permits, which might be all that there are
	}
	p.full.Store(nobody)
	return p
}

// readErr returns why there is nothing to read, ever or for now; nil if there may be.
// drained: the ring was found empty after the state was loaded.
func (p *pipe) readErr(state uint32, drained bool) error {
	switch {
	case state&ended != 0:
		return io.ErrClosedPipe
	case state&expired != 0 && (state&peerEnded == 0 || !drained):
		return os.ErrDeadlineExceeded
	case state&peerEnded != 0 && drained:
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.wr.err == nil {
			return io.EOF
		}
		return p.wr.err
	}
	return nil
}

// writeErr returns why nothing can be written; nil if it can.
func (p *pipe) writeErr() error {
	state := p.wr.state.Load()
	switch {
	case state == 0:
		return nil
	case state&ended != 0:
		return io.ErrClosedPipe
	case state&peerEnded != 0:
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.rd.err == nil {
			return io.ErrClosedPipe
		}
		return p.rd.err
	}
	return os.ErrDeadlineExceeded
}

// closeRead ends reading: what is buffered is dropped.
func (p *pipe) closeRead(err error) {
	if p.end(&p.rd, err) {
		p.wr.state.Or(peerEnded)
		defer p.drain() // all of it, even if a user's limiter panics in between
		defer p.wr.stop(io.ErrClosedPipe)
		p.rd.stop(io.ErrClosedPipe)
	}
}

// drain gives back the permits of bytes that will not be read, unless a Read is in progress:
// that does it when it ends, as does a Write that has been putting bytes.
func (p *pipe) drain() {
	for p.wr.holds() && p.rd.turn.TryTake() {
		if end := p.releaseAll(); p.ring.written.Load() == end {
			return
		}
	}
}

// releaseAll gives back the permits of all bytes so far, returns how many those were, and
// leaves the reader's turn.
func (p *pipe) releaseAll() uint64 {
	defer p.rd.turn.Leave() // a user's limiter may panic
	end := p.ring.written.Load()
	p.release(end)
	return end
}

// release gives back the permits of the bytes before the position. The reader's turn is held.
func (p *pipe) release(position uint64) {
	switch {
	case p.wr.permits != nil:
		if n := position - p.given; n > 0 {
			p.given = position
			p.wr.permits.Give(int(n))
		}
	case p.wr.keeps:
		p.leases.release(position)
	}
}

// leaveRead ends a Read's turn.
func (p *pipe) leaveRead() {
	p.rd.turn.Leave()
	if p.rd.is(ended) {
		defer p.drain()
		p.rd.meter.Clear()
	}
}

// closeWrite ends writing. A Write in progress comes back; what it has put is read, and
// only then does the reader find the end.
func (p *pipe) closeWrite(err error) {
	if p.end(&p.wr, err) {
		defer p.seal() // even if a user's limiter panics
		p.wr.stop(io.ErrClosedPipe)
	}
}

// end closes a side, and reports whether it was open.
func (p *pipe) end(s *side, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.is(ended) {
		return false
	}
	s.err = err
	s.state.Or(ended)
	s.stopTimer()
	return true
}

// seal tells the reader that no more bytes come, unless a Write is in progress: that does
// it when it ends. Either it sees that the pipe is closed after it has left its turn, or
// it had left before the closer tried to take it.
func (p *pipe) seal() {
	for !p.rd.is(peerEnded) && p.wr.turn.TryTake() {
		p.rd.state.Or(peerEnded)
		p.wr.turn.Leave()
		p.rd.rouse()
	}
}

// leaveWrite ends a Write's turn.
func (p *pipe) leaveWrite() {
	p.wr.turn.Leave()
	if !p.wr.is(ended | peerEnded) {
		return
	}
	if p.wr.is(ended) {
		defer p.seal()
	}
	if p.wr.is(peerEnded) {
		defer p.drain()
	}
	p.wr.meter.Clear()
}

// setDeadline sets when calls on this side end with os.ErrDeadlineExceeded; zero: never.
// It does nothing to a side that is closed.
func (p *pipe) setDeadline(s *side, t time.Time) {
	p.mu.Lock()
	if s.is(ended) {
		p.mu.Unlock()
		return
	}
	s.stopTimer()
	if s.state.And(^uint32(expired))&expired != 0 && !s.stopped() {
		s.reopen() // expire has ended the one before, or is about to
	}
	// The other end may have closed since, and have ended the source before.
	late, source := s.is(peerEnded), s.source.Load()
	number := s.timers
	d := time.Until(t)
	if !t.IsZero() && d > 0 {
		s.timer = time.AfterFunc(d, func() { p.expire(s, number) })
	}
	p.mu.Unlock()
	if late && s == &p.wr {
		source.End(io.ErrClosedPipe)
	}
	if !t.IsZero() && d <= 0 {
		p.expire(s, number)
	}
}

// expire ends the calls on a side whose deadline has passed, unless there has been another
// since.
func (p *pipe) expire(s *side, number uint) {
	p.mu.Lock()
	if s.timers != number {
		p.mu.Unlock()
		return
	}
	s.state.Or(expired)
	source := s.source.Load()
	p.mu.Unlock()
	s.rouse()
	source.End(os.ErrDeadlineExceeded)
}
