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
	nested bool            // what is written to is of this package and asks the same limiter
	spare  *ending.Context // of an earlier call that did not wait, to be used again; nil: there is none
	kept   *ending.Source  // the source of spare
	came   arrived         // bytes that were read and are not paid for
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

// call is one call on a side, from enter to leave.
type call struct {
	*side
	source *ending.Source
	ctx    *ending.Context // what the limiter is asked with; nil: there is none
}

// enter begins a call, when it is its turn. Whether it has to end is found out by the limiter
// that is asked, or by ended.
func (s *side) enter() (call, error) {
	source := s.source.Load()
	if source == nil {
		return call{}, errNotMade
	}
	c := call{s, source, nil}
	if s.turn.TryTake() {
		switch {
		case s.kept == source:
			c.ctx = s.spare
		case s.meter.Trusted():
			c.ctx = source.Begin(s.parent)
			s.spare, s.kept = c.ctx, source
		case !s.unlimited():
			c.ctx = source.Begin(s.parent)
		}
		return c, nil
	}
	c.ctx = source.Begin(s.parent)
	if err := s.turn.Take(c.ctx); err != nil {
		err = c.explain(err)
		c.ctx.Finish(false)
		return call{}, err
	}
	return c, nil
}

// leave ends the call. A slice that was not settled, because what is underneath panicked,
// is given back.
func (c call) leave() {
	s := c.side
	s.meter.Settle(0)
	if c.ctx != nil && (c.ctx != s.spare || !c.ctx.Unused()) {
		c.finish()
	}
	batch := s.meter.HasBatch()
	s.turn.Leave()
	// Close may have looked for a batch while this call had the turn.
	if batch && s.source.Load().Cause() != nil {
		s.meter.Clear()
	}
}

// finish ends the context of a call that has waited, or that nobody else may have.
func (c call) finish() {
	s := c.side
	if c.ctx == s.spare {
		s.spare, s.kept = nil, nil
	}
	c.ctx.Finish(s.meter.Trusted())
}

// ended returns why the call has to end; nil if it goes on.
func (c call) ended() error {
	if cause := c.source.Cause(); cause != nil {
		return cause
	}
	return c.parent.Err()
}

// explain returns what the caller is told of a limiter's error: why the call has to end, if
// it has to, whatever the limiter says.
func (c call) explain(err error) error {
	if ended := c.ended(); ended != nil {
		return ended
	}
	return err
}

// take pays for the next slice of want bytes, at least 1, and returns how many those are.
func (c call) take(want int) (int, error) {
	n, err := c.meter.Take(c.ctx, want)
	if err != nil {
		return 0, c.explain(err)
	}
	return n, nil
}

// end ends the calls on this side, and reports whether this call did.
func (s *side) end(cause error) bool {
	first := s.source.Load().End(cause)
	s.meter.Clear()
	return first
}

// write writes p slice by slice.
func (s *side) write(w io.Writer, p []byte) (n int, err error) {
	c, err := s.enter()
	if err != nil {
		return 0, err
	}
	defer c.leave()
	return c.writeSlices(w, p, nil)
}

// writeSlices writes p slice by slice, and calls passed, unless it is nil, after each.
func (c call) writeSlices(w io.Writer, p []byte, passed func(int)) (n int, err error) {
	if len(p) == 0 || c.unlimited() {
		if err := c.ended(); err != nil {
			return 0, err
		}
	}
	if len(p) == 0 {
		return w.Write(p)
	}
	for n < len(p) {
		k := len(p) - n
		if !c.unlimited() {
			if k, err = c.take(k); err != nil {
				return n, err
			}
			if c.nested {
				c.meter.Release()
			}
		}
		m, err := w.Write(p[n : n+k])
		if m < 0 || m > k {
			return n, errBadCount
		}
		c.meter.Settle(m)
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
	c, err := s.enter()
	if err != nil {
		return 0, err
	}
	defer c.leave()
	return c.read(r, p)
}

func (c call) read(r io.Reader, p []byte) (paid int, err error) {
	if err := c.ended(); err != nil {
		return 0, err
	}
	switch {
	case len(p) == 0:
		return 0, nil // not every reader underneath knows what to make of it
	case c.unlimited():
		n, err := r.Read(p)
		if n < 0 || n > len(p) {
			return 0, errBadCount
		}
		return n, err
	case c.came.any():
		return c.readArrived(p)
	}
	p = p[:c.meter.Slice(len(p))]
	n, readErr := r.Read(p)
	if n < 0 || n > len(p) {
		return 0, errBadCount
	}
	if n == 0 {
		return 0, readErr
	}
	defer func() {
		if paid < n { // the limiter may have panicked
			c.came.keep(p[paid:n], readErr)
		}
	}()
	k, err := c.take(n)
	if err != nil {
		return 0, err
	}
	c.meter.Settle(k)
	if paid = k; paid < n {
		return paid, nil
	}
	return paid, readErr
}

// readArrived reads from what came before, if anything did.
func (s *side) readArrived(p []byte) (int, error) {
	c, err := s.enter()
	if err != nil {
		return 0, err
	}
	defer c.leave()
	if !c.came.any() {
		return 0, nil
	}
	return c.readArrived(p)
}

func (c call) readArrived(p []byte) (int, error) {
	n, err := c.take(min(len(p), c.came.len()))
	if err != nil {
		return 0, err
	}
	c.meter.Settle(n)
	return c.came.take(p[:n])
}

var (
	errNotMade  = errors.New("ioreader: not made by its constructor")
	errBadCount = errors.New("ioreader: the stream underneath returned an impossible count")
)
