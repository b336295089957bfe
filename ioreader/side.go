package ioreader

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
)

// side is one direction of a stream: it pays for the bytes, slice by slice.
//
// A call enters, and then takes and settles by turns until it leaves. What is below turn
// is used by whoever has the turn, and by nobody else.
type side struct {
	ending  atomic.Pointer[ending] // a connection's is replaced after its deadline has passed
	limiter core.Limiter           // nil: unlimited
	turn    turn

	pace  pace
	lease core.Lease // of the bytes that are on their way now
	taken int        // how many those are
	debt  int        // bytes that passed, but whose permits went to somebody else
	batch batch
}

// start makes the side ready.
func (s *side) start(e *ending, l core.Limiter) {
	s.turn = newTurn()
	s.ending.Store(e)
	if isNil(l) {
		return
	}
	s.limiter = l
	s.pace = newPace(l)
	s.batch.side = s
}

// enter begins a call. Whether the stream has ended is found out by take, or by the
// limiter that it asks.
func (s *side) enter() (*ending, error) {
	e := s.ending.Load()
	if e == nil {
		return nil, errNotMade
	}
	if !s.turn.try() {
		if err := s.turn.takeSlow(e); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// leave ends a call. A slice that was not settled, because what is underneath panicked,
// is given back.
func (s *side) leave() {
	if s.taken > 0 {
		s.settle(0)
	}
	s.turn.leave()
	// Close may have looked for a batch while this call had the turn.
	if s.ending.Load().ended() {
		s.clearBatch()
	}
}

// take pays for the next slice of want bytes, at least 1, and returns how many those are.
func (s *side) take(e *ending, want int) (int, error) {
	if s.limiter == nil {
		if err := e.Err(); err != nil {
			return 0, err
		}
		return want, nil
	}
	if s.batch.left > 0 || s.debt > 0 || s.pace.sharing {
		return s.takeSlow(e, want)
	}
	n := min(want, s.pace.slice)
	lease, err := s.limiter.Acquire(e, n)
	if err != nil || !lease.Acquired() {
		return s.refused(e, want, n, lease, err)
	}
	s.lease, s.taken = lease, n
	s.pace.countdown--
	if s.pace.countdown < 0 || e.begun.Load() != 0 {
		s.learn(e, lease)
	}
	return n, nil
}

// takeSlow is take when there is a batch to spend or to get, or a debt to be paid.
func (s *side) takeSlow(e *ending, want int) (int, error) {
	if err := e.Err(); err != nil {
		return 0, err
	}
	if s.batch.left > 0 {
		s.taken = min(want, s.batch.left)
		s.batch.left -= s.taken
		s.batch.spending = true
		return s.taken, nil
	}
	ask, bulk := min(want, s.pace.slice), false
	switch {
	case s.debt > 0:
		ask = min(s.debt, s.pace.slice)
	case s.pace.sharing:
		if bulk = ask < s.pace.slice && s.pace.eager(); bulk {
			ask = s.pace.slice
		}
	}
	lease, err := s.limiter.Acquire(e, ask)
	if err != nil || !lease.Acquired() {
		return s.refused(e, want, ask, lease, err)
	}
	if s.debt > 0 {
		lease.Release()
		s.debt -= ask
		s.learn(e, lease)
		return s.take(e, want)
	}
	s.learn(e, lease)
	if bulk {
		s.batch.put(lease, ask)
		return s.takeSlow(e, want)
	}
	s.lease, s.taken = lease, ask
	return ask, nil
}

// learn adapts the pace to how the limiter answered.
func (s *side) learn(e *ending, lease core.Lease) {
	waited, ok := e.waited()
	e.rest()
	s.pace.learn(s.limiter, lease, waited, ok)
}

// refused tells what ends the call from a limit that has shrunk below the slice: that
// makes the slices smaller.
func (s *side) refused(e *ending, want, asked int, lease core.Lease, err error) (int, error) {
	e.rest()
	if ended := e.Err(); ended != nil {
		return 0, ended
	}
	if err == nil {
		if err = lease.Err(); err == nil {
			err = core.ErrRejected // somebody else's limiter, and careless
		}
	}
	if asked > 1 && errors.Is(err, core.ErrPermitsExceedLimit) {
		s.pace.shrink(s.limiter, asked)
		return s.take(e, want)
	}
	if errors.Is(err, core.ErrRejected) && s.debt == 0 {
		// Less than the slice may be there, and passes; the next slice gets the error.
		if n := min(s.limiter.Available(), asked-1, want); n > 0 {
			if l, again := s.limiter.Acquire(e, n); again == nil && l.Acquired() {
				s.lease, s.taken = l, n
				return n, nil
			}
			e.rest()
		}
	}
	return 0, err
}

// settle says how many bytes of the slice have passed. The rest is given back.
func (s *side) settle(passed int) {
	n := s.taken
	s.taken = 0
	if s.batch.spending {
		s.batch.spending = false
		if s.batch.left += n - passed; s.batch.left == 0 {
			s.batch.lease.Release()
		}
		return
	}
	if passed == n {
		s.lease.Release()
		return
	}
	if s.limiter != nil {
		s.giveBack(s.lease, passed)
	}
}

// giveBack refunds a lease of which only some bytes have passed.
func (s *side) giveBack(lease core.Lease, passed int) {
	refunder, ok := s.limiter.(core.Refunder)
	if !ok || s.pace.kind == held {
		lease.Release()
		return
	}
	// A lease is refunded whole. Who waits may be served from it before what has passed is
	// taken again; then that is paid for before the next slice.
	refunder.Refund(lease)
	if passed > 0 {
		if again := s.limiter.TryAcquire(passed); again.Acquired() {
			again.Release()
		} else {
			s.debt += passed
		}
	}
}

// end ends the calls on this side, and reports whether this call did.
func (s *side) end(cause error) bool {
	first := s.ending.Load().end(cause)
	s.clearBatch()
	return first
}

// clearBatch gives the unused part of a batch back, unless a call is using it.
func (s *side) clearBatch() {
	if s.limiter == nil || !s.turn.try() {
		return
	}
	s.batch.giveBack()
	s.turn.leave()
}

// write writes p slice by slice.
func (s *side) write(w io.Writer, p []byte) (n int, err error) {
	e, err := s.enter()
	if err != nil {
		return 0, err
	}
	defer s.leave()
	return s.writeSlices(e, w, p, nil)
}

// writeSlices has told, unless it is nil, be told of every slice that passed.
func (s *side) writeSlices(e *ending, w io.Writer, p []byte, told func(int)) (n int, err error) {
	if len(p) == 0 {
		if err := e.Err(); err != nil {
			return 0, err
		}
		return w.Write(p)
	}
	for n < len(p) {
		k, err := s.take(e, len(p)-n)
		if err != nil {
			return n, err
		}
		m, err := w.Write(p[n : n+k])
		if m < 0 || m > k {
			return n, errBadCount
		}
		if s.taken > 0 {
			s.settle(m)
		}
		n += m
		if told != nil && m > 0 {
			told(m)
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

// read reads one slice at most.
func (s *side) read(r io.Reader, p []byte) (n int, err error) {
	e, err := s.enter()
	if err != nil {
		return 0, err
	}
	defer s.leave()
	return s.readSlice(e, r, p)
}

func (s *side) readSlice(e *ending, r io.Reader, p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, e.Err() // not every reader underneath knows what to make of it
	}
	k, err := s.take(e, len(p))
	if err != nil {
		return 0, err
	}
	n, err = r.Read(p[:k])
	if n < 0 || n > k {
		return 0, errBadCount
	}
	if s.taken > 0 {
		s.settle(n)
	}
	return n, err
}

var (
	errNotMade  = errors.New("ioreader: not made by its constructor")
	errBadCount = errors.New("ioreader: the stream underneath returned an impossible count")
)
