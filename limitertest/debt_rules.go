package limitertest

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
)

// settleMore wants Settle to take more permits at once, whether or not they are available, and even
// above the limit.
func settleMore(s *subject) {
	if s.Limit > 1 {
		s.settles(s.takes(1), 2)
		s.has(s.Limit-2, "after a lease of 1 was settled for 2")
		s.renew()
	}
	s.settles(s.takes(1), more(s.Limit, 2))
	s.has(0, "after a lease was settled for more than the limit")
	if st, ok := s.counts(); ok && s.Lag == 0 && st.Available != 0 {
		s.faultf("Statistics().Available after a lease was settled for more than the limit: %d, want 0", st.Available)
	}
	s.refused(1, "after a lease was settled for more than the limit")
	s.refused(0, "after a lease was settled for more than the limit")
	if s.RealTime && s.Refill > 0 {
		return
	}
	s.release()
	for range 4 {
		s.refill()
	}
	s.has(s.Limit, "after a debt was paid")
}

// debtComesFirst wants permits that come back to pay the debt first, and to serve waiters then.
func debtComesFirst(s *subject) {
	one, rest := s.takes(1), s.takes(s.Limit-1)
	c := s.waiter(1, "with nothing available")
	rest = s.settles(rest, s.Limit)
	s.settles(one, 0)
	s.synchronize()
	c.mustWait("when 1 permit comes back, and 1 is owed")
	s.has(0, "when 1 permit came back, and 1 was owed")
	s.queues(1, "after a debt was paid")
	s.settles(rest, s.Limit-1)
	s.synchronize()
	c.wantGrant("when 1 permit comes back, and nothing is owed")
	s.has(0, "after a waiter was served")
}

// retryAfterDebt wants RetryAfter to include the debt, whether it is made with the grant or later.
func retryAfterDebt(s *subject) {
	owe := func(debt int) (retry time.Duration, l core.Lease) {
		s.renew()
		s.settles(s.empties(), more(s.Limit, debt))
		s.release()
		l = s.refused(1, "with a debt")
		return s.retryAfter(l, "a failed try with a debt"), l
	}
	last, l := owe(0)
	reset, knows := core.ResetAfter.From(l)
	knows = knows && reset == s.Refill // else it is that of one limiter of several
	for _, debt := range []int{1, s.Limit} {
		d, l := owe(debt)
		if d < last {
			s.faultf("RetryAfter with a debt of %d: %v, with a smaller one %v", debt, d, last)
		}
		if debt == s.Limit && d <= s.Refill-s.grain() {
			s.faultf("RetryAfter with a debt of %d: %v, though as many come back after %v", debt, d, s.Refill)
		}
		last = d
		s.exact(1, d)
		if reset, ok := core.ResetAfter.From(l); ok && knows {
			owe(debt)
			s.pass(reset - s.grain())
			if got := s.l.Available(); got >= s.Limit {
				s.faultf("Available() just before ResetAfter, with a debt of %d: %d, want less than %d", debt, got, s.Limit)
			}
			s.pass(s.grain())
			s.has(s.Limit, "after ResetAfter, with a debt")
		}
	}
	s.renew()
	l = s.takes(1)
	s.pass(s.Refill/3 + 1)
	s.settles(l, more(s.l.Available(), 2)) // whether the first has come back or not
	s.has(0, "after a late debt")
	s.release()
	s.exact(1, s.retryAfter(s.refused(1, "with a late debt"), "a failed try with a late debt"))
}

// debtIsBounded wants no settlement to be too large, and no sum of them.
func debtIsBounded(s *subject) {
	owes := func(when string) {
		s.has(0, when)
		l := s.refused(1, when)
		if d, ok := core.RetryAfter.From(l); ok && d <= 0 {
			s.faultf("RetryAfter %s: %v, want more than 0", when, d)
		}
	}
	a, b := s.takes(min(1, s.Limit-1)), s.takes(1)
	b = s.settles(b, math.MaxInt)
	owes("after a lease was settled for math.MaxInt")
	if s.Limit > 1 {
		s.settles(a, math.MaxInt)
		owes("after two leases were settled for math.MaxInt")
	}
	s.settles(b, 1)
	if got := s.l.Available(); got < 0 || got >= s.Limit {
		s.faultf("Available() after a lease was settled for math.MaxInt, then for 1: %d, want less than %d", got, s.Limit)
	}
}

// updateKeepsDebt wants a larger limit to pay no more of a debt than it makes room for.
func updateKeepsDebt(s *subject) {
	l := s.settles(s.empties(), more(s.Limit, 3))
	var retry time.Duration
	if s.Refill > 0 && !s.Manual {
		retry = s.retryAfter(s.refused(1, "with a debt"), "a failed try with a debt")
	}
	s.updates(s.Limit + 1)
	s.has(0, "after an Update, with a larger debt")
	again := s.refused(1, "after an Update, with a larger debt")
	if retry > 0 {
		if d := s.retryAfter(again, "a failed try with a debt"); d != retry {
			s.faultf("RetryAfter with a debt after an Update: %v, before: %v, want the same", d, retry)
		}
	}
	l.Release()
	if s.Refill == 0 {
		s.has(s.Limit+1, "after an Update, and the release of a debt")
	}
}
