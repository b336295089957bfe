package limitertest

import (
	"errors"

	"github.com/sluice-go/sluice/core"
)

// updates puts another limit in force, and wants that to work.
func (s *subject) updates(limit int) {
	if err := s.Update(s.l, limit); err != nil {
		s.stopf("Update to a limit of %d: %v, want nil", limit, err)
	}
	s.synchronize()
}

// updateKeeps wants what is taken to stay taken. A bucket keeps the tokens that it has and has room
// for; any other limiter has the new limit less what is taken.
func updateKeeps(s *subject) {
	for _, limit := range []int{s.Limit + 3, s.Limit, s.Limit - 1, 1} {
		s.renew()
		taken := s.Limit - s.Limit/2
		s.takes(taken)
		had := s.l.Available()
		s.updates(limit)
		got, want := s.l.Available(), max(limit-taken, 0)
		if kept := min(had, limit); got != want && (s.Refill == 0 || got != kept) {
			s.faultf("Available() with %d of %d taken, after an Update to %d: %d, want %d", taken, s.Limit, limit, got, want)
		}
		if l := s.l.TryAcquire(limit + 1); l.Acquired() || !errors.Is(l.Err(), core.ErrPermitsExceedLimit) {
			s.faultf("TryAcquire(%d) after an Update to %d: acquired %v, %v, want core.ErrPermitsExceedLimit", limit+1, limit, l.Acquired(), l.Err())
		}
		if st, ok := s.counts(); ok && st.Limit != limit {
			s.faultf("Statistics().Limit after an Update to %d: %d", limit, st.Limit)
		}
		s.release()
		if s.Refill == 0 {
			s.has(limit, "after an Update, and the release of all")
			continue
		}
		for range max(limit/s.Limit, 1) + 1 {
			s.refill() // at the old rate it may take longer to fill a larger one
		}
		s.has(limit, "after an Update, and the time for all to come back")
	}
}

// updateServes wants an Update that makes room to serve a waiter at once.
func updateServes(s *subject) {
	if s.Refill > 0 {
		return // a bucket that grows is not fuller for it
	}
	s.empties()
	c := s.waiter(1, "with nothing available")
	s.updates(s.Limit + 1)
	c.wantGrant("after an Update that makes room")
	s.has(0, "after an Update that served a waiter")
}

// updateRefuses wants a waiter for more than the new limit to fail.
func updateRefuses(s *subject) {
	s.empties()
	big := s.waiter(s.Limit, "with nothing available")
	s.updates(s.Limit - 1)
	if big.waits() {
		s.stopf("Acquire(%d) after an Update to %d waits, want core.ErrPermitsExceedLimit", s.Limit, s.Limit-1)
	}
	s.exceeds(big.err, s.Limit, s.Limit-1, "Acquire of what an Update made too much")
	s.matches(big.lease, big.err, "Acquire after an Update to a smaller limit")
	s.queues(0, "after an Update that refused the only waiter")
}

// badUpdate wants an Update with a bad limit to return an error and to change nothing.
func badUpdate(s *subject) {
	s.takes(1)
	before, _ := s.counts()
	for _, limit := range []int{0, -1} {
		if err := s.Update(s.l, limit); err == nil {
			s.faultf("Update to a limit of %d: nil, want an error", limit)
		}
	}
	if after, ok := s.counts(); ok && after != before {
		s.faultf("Statistics() after a bad Update: %v, want %v", after, before)
	}
	s.has(s.Limit-1, "after a bad Update")
	if !s.is(Closer) {
		return
	}
	s.closes()
	if err := s.Update(s.l, s.Limit); !errors.Is(err, core.ErrClosed) {
		s.faultf("Update after Close: %v, want core.ErrClosed", err)
	}
}
