package limitertest

import (
	"errors"
	"io"
	"time"

	"github.com/sluice-go/sluice/core"
)

// reserve calls Reserve, which must return immediately.
func (s *subject) reserve(n int) core.Lease {
	start := time.Now()
	l := s.l.(core.Reserver).Reserve(n)
	s.leases = append(s.leases, l)
	s.atOnce(start, "Reserve(%d)", n)
	return l
}

// reserves wants a reservation of n permits, and returns its lease and its delay.
func (s *subject) reserves(n int, when string) (core.Lease, time.Duration) {
	l := s.reserve(n)
	switch {
	case !l.Acquired():
		s.fatalf("Reserve(%d) %s: refused (%v), want a lease", n, when, l.Err())
	case l.Permits() != n:
		s.fatalf("Reserve(%d) %s: a lease of %d permits", n, when, l.Permits())
	}
	d, ok := core.Delay.From(l)
	if ok == s.Manual || d < 0 {
		s.fatalf("Delay of Reserve(%d) %s: %v (there: %v), want one unless Config.Manual is set", n, when, d, ok)
	}
	return l, d
}

// reservesNow wants Reserve to take permits that are there, and to refuse what can never be granted.
func reservesNow(s *subject) {
	before, _ := s.counts()
	for _, n := range []int{s.Limit - s.Limit/2, s.Limit / 2} {
		left := s.l.Available()
		if _, d := s.reserves(n, "of available permits"); d != 0 {
			s.errorf("Delay of Reserve(%d) of available permits: %v, want 0", n, d)
		}
		s.has(left-n, "after permits were reserved that were there")
		if left == n {
			break
		}
	}
	if s.Limit > 1 {
		s.counted(before, 2, 0, "two calls of Reserve")
	}
	if err := s.reserve(-1).Err(); !errors.Is(err, core.ErrNegativePermits) {
		s.errorf("Reserve(-1): %v, want core.ErrNegativePermits", err)
	}
	if err := s.reserve(s.Limit + 1).Err(); !errors.Is(err, core.ErrPermitsExceedLimit) {
		s.errorf("Reserve(%d): %v, want core.ErrPermitsExceedLimit", s.Limit+1, err)
	}
	if c, ok := s.l.(io.Closer); ok && s.is(Closer) {
		_ = c.Close()
		if err := s.reserve(1).Err(); !errors.Is(err, core.ErrClosed) {
			s.errorf("Reserve(1) after Close: %v, want core.ErrClosed", err)
		}
	}
}

// delayIsExact wants Delay to be the time until the permits come, which a rejected request knows as
// RetryAfter, and 0 permits to reserve nothing.
func delayIsExact(s *subject) {
	for _, n := range []int{1, s.Limit, 0} {
		if n > s.QueueLimit {
			continue
		}
		s.renew()
		s.spends()
		want := s.retryAfter(s.refused(n, "with nothing available"), "a failed try")
		if _, d := s.reserves(n, "with nothing available"); d != want {
			s.errorf("Delay of Reserve(%d) with nothing available: %v, want the RetryAfter of a try, %v", n, d, want)
		}
		s.queues(n, "with a reservation")
		if s.QueueLimit < n+1 || s.QueueOrder != core.OldestFirst {
			continue
		}
		want = s.retryAfter(s.refused(1, "behind a reservation"), "a failed try")
		if _, d := s.reserves(1, "behind a reservation"); d != want {
			s.errorf("Delay of Reserve(1) behind a reservation of %d: %v, want the RetryAfter of a try, %v", n, d, want)
		}
	}
}

// reservationsWaitInLine wants a reservation to have its permits when they come, and no caller to overtake it.
func reservationsWaitInLine(s *subject) {
	s.spends()
	_, d := s.reserves(s.Limit, "with nothing available")
	c := s.waiter(1, "behind a reservation")
	s.pass(d - s.grain())
	c.mustWait("just before the permits of a reservation ahead of it come")
	s.pass(s.grain())
	if left := s.l.Available(); left >= s.Limit-1 {
		s.errorf("Available() when the permits of a reservation for all have come: %d, want them taken", left)
	}
	s.pass(s.Refill)
	c.wantGrant("behind a reservation whose permits have come")

	s.renew()
	s.spends()
	c = s.waiter(s.Limit, "with nothing available")
	_, d = s.reserves(1, "behind a waiter")
	s.pass(d)
	c.wantGrant("ahead of a reservation whose permits have come")
}

// reservationsFillTheQueue wants reservations to count in the queue as waiters do.
func reservationsFillTheQueue(s *subject) {
	s.spends()
	for n := s.QueueLimit; n > 0; {
		k := min(n, s.Limit)
		s.reserves(k, "with room in the queue")
		n -= k
	}
	l := s.reserve(1)
	if err := l.Err(); l.Acquired() || !errors.Is(err, core.ErrRejected) {
		s.errorf("Reserve(1) with a full queue: acquired %v, %v, want core.ErrRejected", l.Acquired(), err)
	}
	if d, ok := core.Delay.From(l); ok {
		s.errorf("Delay of a rejection: %v, want none", d)
	}
	const when = "with a queue that is full of reservations"
	s.acquiresNow(s.ctx, 1, when).wantReject(when)
}

// reservationsAreRefunded wants the refund of a reservation to serve those behind it sooner, once.
func reservationsAreRefunded(s *subject) {
	s.spends()
	d := s.retryAfter(s.refused(1, "with nothing available"), "a failed try")
	l, _ := s.reserves(s.Limit, "with nothing available")
	c := s.waiter(1, "behind a reservation")
	refund := s.l.(core.Refunder).Refund
	refund(l)
	s.queues(1, "after a reservation was refunded")
	s.pass(d)
	c.wantGrant("when its permits come, after the reservation ahead was refunded")
	s.pass(s.Refill)
	s.empties()
	refund(l)
	s.refused(1, "after a reservation was refunded twice")
}
