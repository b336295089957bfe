package ioreader

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/ending"
	"github.com/sluice-go/sluice/internal/meter"
	"github.com/sluice-go/sluice/internal/turn"
)

// side is one direction of a stream. What is below turn is used by whoever has the turn,
// and by nobody else.
type side struct {
	parent context.Context               // of the whole stream
	source atomic.Pointer[ending.Source] // ends the calls; a connection's is replaced after its deadline has passed
	turn   turn.Turn

	meter  meter.Meter
	nested bool    // what is written to is of this package and asks the same limiter
	came   arrived // bytes that were read and are not paid for

	// What the call that has the turn is under. A call that did not wait leaves both to the next.
	current *ending.Source  // nil: nothing was left
	ctx     *ending.Context // what the limiter is asked with; nil: there is none
}

// start makes the side ready. under is what it writes to; nil if it reads.
func (s *side) start(parent context.Context, l core.Limiter, under any) {
	s.parent = parent
	if p, ok := under.(payer); ok && !argument.IsNil(l) {
		s.nested = p.pays(l)
	}
	s.turn.Init()
	s.meter.Init(l, &s.turn)
	s.reopen()
}

// reopen gives the side a new source.
func (s *side) reopen() *ending.Source {
	source := &ending.Source{Waiting: s.meter.Waits}
	s.source.Store(source)
	return source
}

// unlimited reports whether the bytes need no permits.
func (s *side) unlimited() bool { return s.meter.Limiter() == nil }

// enter begins a call, when it is its turn; leave must follow, unless there is an error.
// Whether the call has to end is found out by the limiter that is asked, or by ended.
func (s *side) enter() error {
	source := s.source.Load()
	if source == nil {
		return errNotMade
	}
	if !s.turn.TryTake() {
		return s.enterSlow(source)
	}
	if s.current != source {
		s.begin(source)
	}
	return nil
}

// begin makes the call one under source, with a context of its own if a limiter is asked.
func (s *side) begin(source *ending.Source) {
	s.current, s.ctx = source, nil
	if !s.unlimited() {
		s.ctx = source.Begin(s.parent)
	}
}

// enterSlow is enter while another call has the turn.
func (s *side) enterSlow(source *ending.Source) error {
	ctx := source.Begin(s.parent)
	if err := s.turn.Take(ctx); err != nil {
		if ended := s.endedUnder(source); ended != nil {
			err = ended
		}
		ctx.Finish(false)
		return err
	}
	s.current, s.ctx = source, ctx
	return nil
}

// leave ends the call. A slice that was not settled, because what is underneath panicked,
// is given back.
func (s *side) leave() {
	s.meter.Settle(0)
	if s.ctx != nil && (!s.meter.Trusted() || !s.ctx.Unused()) {
		s.finish()
	}
	batch := s.meter.HasBatch()
	s.turn.Leave()
	// Close may have looked for a batch while this call had the turn.
	if batch && s.source.Load().Cause() != nil {
		s.meter.Clear()
	}
}

// finish ends the context of a call that has waited, or that others may have kept.
func (s *side) finish() {
	ctx := s.ctx
	s.current, s.ctx = nil, nil
	ctx.Finish(s.meter.Trusted())
}

// ended returns why the call has to end; nil if it goes on.
func (s *side) ended() error { return s.endedUnder(s.current) }

func (s *side) endedUnder(source *ending.Source) error {
	if cause := source.Cause(); cause != nil {
		return cause
	}
	return s.parent.Err()
}

// explain returns what the caller is told of a limiter's error: why the call has to end, if
// it has to, whatever the limiter says.
func (s *side) explain(err error) error {
	if ended := s.ended(); ended != nil {
		return ended
	}
	return err
}

// close ends the calls on this side, and closes what is underneath, even if the limiter panics
// as it takes back what was not used.
func (s *side) close(under any) (err error) {
	source := s.source.Load()
	if source == nil {
		return errNotMade
	}
	if source.End(io.ErrClosedPipe) {
		defer func() { err = closeUnder(under) }()
	}
	s.meter.Clear()
	return nil
}

// write writes p slice by slice.
func (s *side) write(w io.Writer, p []byte) (n int, err error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	return s.writeSlices(w, p, nil)
}

// writeSlices writes p slice by slice, and calls passed, unless it is nil, after each.
func (s *side) writeSlices(w io.Writer, p []byte, passed func(int)) (n int, err error) {
	if len(p) == 0 || s.unlimited() {
		if err := s.ended(); err != nil {
			return 0, err
		}
	}
	if len(p) == 0 {
		return w.Write(p)
	}
	for n < len(p) {
		k := len(p) - n
		if !s.unlimited() {
			if k, err = s.meter.Take(s.ctx, k); err != nil {
				return n, s.explain(err)
			}
			if s.nested {
				s.meter.Release()
			}
		}
		m, err := w.Write(p[n : n+k])
		if m < 0 || m > k {
			return n, errBadCount
		}
		s.meter.Settle(m)
		n += m
		if passed != nil && m > 0 {
			passed(m)
		}
		if err != nil {
			return n, err
		}
		if m < k {
			return n, io.ErrShortWrite
		}
	}
	return n, nil
}

// payer is a stream of this package. One that writes to another which asks the same limiter
// must hold none of its permits meanwhile.
type payer interface{ pays(l core.Limiter) bool }

// asks reports whether this side, or what is underneath it, asks l.
func (s *side) asks(l core.Limiter, under any) bool {
	if meter.Same(s.meter.Limiter(), l) {
		return true
	}
	p, ok := under.(payer)
	return ok && p.pays(l)
}

// String says what limits the side.
func (s *side) String() string { return meter.Describe(s.meter.Limiter()) }

// read reads one slice at most, and pays for the bytes that came. What it can't pay for is
// there for the next call.
func (s *side) read(r io.Reader, p []byte) (n int, err error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	return s.readSlice(r, p)
}

// readSlice reads as read does, of a call that has the turn.
func (s *side) readSlice(r io.Reader, p []byte) (paid int, err error) {
	if err := s.ended(); err != nil {
		return 0, err
	}
	switch {
	case len(p) == 0:
		return 0, nil // not every reader underneath knows what to make of it
	case s.unlimited():
		n, err := r.Read(p)
		if n < 0 || n > len(p) {
			return 0, errBadCount
		}
		return n, err
	case s.came.any():
		return s.takeArrived(p)
	}
	p = p[:s.meter.Slice(len(p))]
	n, readErr := r.Read(p)
	if n < 0 || n > len(p) {
		return 0, errBadCount
	}
	if n == 0 {
		return 0, readErr
	}
	defer func() {
		if paid < n { // the limiter may have panicked
			s.came.keep(p[paid:n], readErr)
		}
	}()
	k, err := s.meter.Take(s.ctx, n)
	if err != nil {
		return 0, s.explain(err)
	}
	s.meter.Settle(k)
	if paid = k; paid < n {
		return paid, nil
	}
	return paid, readErr
}

// readArrived reads from what came before, if anything did.
func (s *side) readArrived(p []byte) (int, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	if !s.came.any() {
		return 0, nil
	}
	return s.takeArrived(p)
}

// takeArrived is readArrived of a call that has the turn.
func (s *side) takeArrived(p []byte) (int, error) {
	n, err := s.meter.Take(s.ctx, min(len(p), s.came.len()))
	if err != nil {
		return 0, s.explain(err)
	}
	s.meter.Settle(n)
	return s.came.take(p[:n])
}

var (
	errNotMade  = errors.New("ioreader: not made by its constructor")
	errBadCount = errors.New("ioreader: the stream underneath returned an impossible count")
)
