package limitertest

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-go/sluice/core"
)

// retryAfter returns the RetryAfter of a rejection.
func (s *subject) retryAfter(l core.Lease, what string) time.Duration {
	d, ok := core.RetryAfter.From(l)
	if !ok || d <= 0 {
		s.fatalf("RetryAfter of %s: %v (there: %v), want more than 0", what, d, ok)
	}
	return d
}

// exact wants n permits to be there after d, and not earlier.
func (s *subject) exact(n int, d time.Duration) {
	if d > s.Refill*maxWaiters*2 {
		s.fatalf("RetryAfter of %d permits: %v, though %v refill all", n, d, s.Refill)
	}
	s.pass(d - s.grain())
	s.release()
	s.refused(n, "just before RetryAfter has passed")
	s.pass(min(d, s.grain()))
	s.release()
	if l := s.l.TryAcquire(n); !l.Acquired() {
		s.errorf("TryAcquire(%d) after the RetryAfter of %v: %v, want a grant", n, d, l.Err())
	}
}

// retryAfterExact wants RetryAfter to be exact to the nanosecond, for any number of permits, zero
// included.
func retryAfterExact(s *subject) {
	for _, n := range []int{1, (s.Limit + 1) / 2, s.Limit, 0} {
		s.renew()
		s.spends()
		s.exact(n, s.retryAfter(s.refused(n, "with nothing available"), "a failed try"))

		s.renew() // and if permits were taken at different times
		s.takes(1)
		s.pass(s.Refill/3 + 1)
		if left := s.l.Available(); left > 0 {
			s.takes(left)
		}
		s.release()
		if s.l.Available() == 0 {
			s.exact(n, s.retryAfter(s.refused(n, "with nothing available"), "a failed try"))
		}
	}
}

// after wants n permits not to be there before d; of a fair queue nothing more is certain, because others may be
// served before.
func (s *subject) after(n int, d time.Duration) {
	if s.QueueOrder != core.FairShare {
		s.exact(n, d)
		return
	}
	s.pass(d - s.grain())
	s.release()
	s.refused(n, "just before RetryAfter has passed")
}

// retryAfterQueue wants RetryAfter to include the time to serve the waiters if the oldest is served
// first, and to ignore them if the newest is. Of a fair queue it is a lower bound.
func retryAfterQueue(s *subject) {
	s.spends()
	if s.QueueOrder == core.NewestFirst {
		s.retryAfterNewest()
		return
	}
	s.acquires(1).mustWait("with nothing available")
	s.after(1, s.retryAfter(s.refused(1, "with a waiter ahead"), "a failed try"))
	if s.unbounded() || s.Holds {
		return
	}
	s.renew()
	s.empties()
	s.fill()
	c := s.acquires(1)
	c.wantReject("with a full queue")
	s.after(1, s.retryAfter(c.lease, "an Acquire with a full queue"))
}

func (s *subject) retryAfterNewest() {
	alone := s.retryAfter(s.refused(1, "with nothing available"), "a failed try")
	oldest := s.waiter(1, "with nothing available")
	got := s.retryAfter(s.refused(1, "with nothing available"), "a failed try")
	if got != alone {
		s.errorf("RetryAfter with a waiter: %v, without: %v, want the same under newest-first", got, alone)
	}
	if s.unbounded() || s.Holds {
		return // a chain's queue may be that of a limiter that knows no time
	}
	for oldest.waits() && len(s.calls) <= s.QueueLimit+1 {
		s.acquires(1)
	}
	oldest.wantReject("when evicted")
	if got = s.retryAfter(oldest.lease, "an eviction"); got != alone {
		s.errorf("RetryAfter of an eviction: %v, want %v", got, alone)
	}
}

// hopelessDeadline wants a request that cannot be served by its deadline to be rejected immediately, and
// to evict no waiter.
func hopelessDeadline(s *subject) {
	s.spends()
	d := s.retryAfter(s.refused(1, "with nothing available"), "a failed try")
	if d > s.grain() {
		before, _ := s.counts()
		c := s.acquiresWithin(1, d-s.grain())
		c.wantReject("with a deadline just before permits come back")
		if !c.waits() && !errors.Is(c.err, context.DeadlineExceeded) {
			s.errorf("Acquire with a hopeless deadline: %v, want an error that is context.DeadlineExceeded", c.err)
		}
		s.counted(before, 0, 1, "an Acquire with a hopeless deadline")
	}
	c := s.acquiresWithin(1, d+s.grain())
	c.mustWait("with a deadline just after permits come back")
	s.pass(d)
	c.wantGrant("just before its deadline, when permits come back")
	if s.QueueOrder != core.NewestFirst || s.unbounded() || s.Holds || d <= s.grain() {
		return
	}
	s.renew()
	s.empties()
	waiters := s.fill()
	s.acquiresWithin(1, 1).wantReject("with a hopeless deadline and a full queue")
	for _, c := range waiters {
		c.mustWait("after a newcomer without hope")
	}
}

// servedOnTime wants a waiter to be served at the very instant at which its permits are there.
func servedOnTime(s *subject) {
	s.spends()
	d := s.Refill
	n := s.Limit
	if s.QueueLimit < s.Limit {
		n = 1
		d = s.retryAfter(s.refused(n, "with nothing available"), "a failed try")
	}
	due := time.Now().Add(d)
	c := s.waiter(n, "with nothing available")
	s.pass(d - s.grain())
	c.mustWait("just before its permits come back")
	s.pass(s.Refill + 1)
	c.wantGrant("when its permits are back")
	if !c.waits() && (c.at.Before(due) || c.at.Sub(due) >= s.grain()) {
		s.errorf("Acquire(%d) was granted %v after its permits came back, want immediately", n, c.at.Sub(due))
	}
}

// automaticReplenishment wants all permits to be back after Refill, not earlier, and without
// TryReplenish.
func automaticReplenishment(s *subject) {
	s.spends()
	s.pass(s.Refill - s.grain())
	if got := s.l.Available(); got >= s.Limit {
		s.errorf("Available() just before Refill: %d, want less than %d", got, s.Limit)
	}
	s.refused(s.Limit, "just before Refill")
	s.pass(s.grain())
	if s.is(Replenisher) {
		r := s.l.(core.Replenisher)
		if !r.AutoReplenishing() {
			s.errorf("AutoReplenishing(): false, want true")
		}
		if r.TryReplenish() {
			s.errorf("TryReplenish(): true, want false: permits come back by themselves")
		}
	}
	s.has(s.Limit, "after Refill")
	s.empties()
}

// manualReplenishment wants no permit to be back before TryReplenish, and all that are due after it.
func manualReplenishment(s *subject) {
	if r, ok := s.l.(core.Replenisher); ok && r.AutoReplenishing() {
		s.errorf("AutoReplenishing(): true, want false")
	}
	s.spends()
	if s.replenish() {
		s.errorf("TryReplenish() with nothing due: true, want false")
	}
	s.pass(10 * s.Refill)
	s.has(0, "before TryReplenish")
	s.refused(1, "before TryReplenish")
	if !s.replenish() {
		s.errorf("TryReplenish() with all permits due: false, want true")
	}
	s.has(s.Limit, "after TryReplenish")
	if s.replenish() {
		s.errorf("TryReplenish() once more: true, want false")
	}
	if s.QueueLimit == 0 {
		return
	}
	s.spends()
	c := s.acquires(1)
	s.pass(10 * s.Refill)
	c.mustWait("before TryReplenish")
	s.replenish()
	c.wantGrant("after TryReplenish")
}

// idleEarnsNothing wants never more than the limit to be available, however long the limiter is idle.
func idleEarnsNothing(s *subject) {
	s.takes(1)
	s.restock()
	s.pass(100 * s.Refill)
	for range 3 {
		s.refill()
	}
	s.has(s.Limit, "after a long time")
	s.empties()
	s.refused(1, "after all permits were taken together")
	if s.Refill > 0 && !s.Manual { // and as that was a whole number of windows:
		s.release()
		s.pass(s.Refill - s.grain())
		s.refused(s.Limit, "just before Refill, after a long time")
	}
}

// idleFor wants the limiter to be idle for at least as long as it has been seen idle, and no longer
// than all permits have been available.
func idleFor(s *subject) {
	idler := s.l.(core.Idler)
	look := func(want bool, when string) time.Duration {
		s.pass(s.Lag)
		d, got := idler.IdleFor()
		if got != want || d < 0 || !got && d > 0 {
			s.errorf("IdleFor() %s: %v, %v, want idle to be %v", when, d, got, want)
		}
		return d
	}
	idle := func(since time.Time, when string) {
		seen, first := time.Now(), look(true, when)
		if s.RealTime {
			return
		}
		s.pass(time.Second)
		d := look(true, when)
		least, most := time.Since(seen)-s.Lag, time.Since(since)
		if d <= least-s.grain() || d >= most+s.grain() {
			s.errorf("IdleFor() %s, first %v and then %v: want %v at least, %v at most", when, first, d, least, most)
		}
	}
	idle(s.made, "of a new limiter")
	if s.unlimited() {
		return
	}
	s.takes(1)
	look(false, "with a permit taken")
	if s.RealTime && s.Refill > 0 {
		return
	}
	last := time.Now()
	s.restock()
	idle(last, "with all permits back")
}
