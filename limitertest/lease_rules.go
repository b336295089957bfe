package limitertest

import (
	"sync"

	"github.com/sluice-go/sluice/core"
)

// half takes the greater half of the permits, then the others.
func (s *subject) half() (k int, a, b core.Lease) {
	k = s.Limit - s.Limit/2
	a = s.takes(k)
	if s.Limit > k {
		b = s.takes(s.Limit - k)
	}
	return k, a, b
}

// releasedOnce wants a lease to be released once, whichever copy is released, on whatever goroutine,
// however often.
func releasedOnce(s *subject) {
	k, a, b := s.half()
	copies := []core.Lease{a, a, a.With(copied.With(1))}
	var wg sync.WaitGroup
	for _, c := range copies {
		for range 4 {
			wg.Go(func() {
				for range 4 {
					c.Release()
				}
			})
		}
	}
	wg.Wait()
	s.refill()
	s.has(k, "after a lease was released by many copies")
	b.Release()
	s.has(s.Limit, "after all leases were released")
}

// staleLease wants permits that another lease holds by now to stay held.
func staleLease(s *subject) {
	old := make([]core.Lease, 0, 10)
	for range cap(old) {
		l := s.takes(1)
		l.Release()
		old = append(old, l)
		s.refill()
	}
	held := s.empties()
	for _, l := range old {
		l.Release()
	}
	s.refill()
	s.has(0, "after leases of long ago were released once more")
	held.Release()
	s.has(s.Limit, "after the lease was released")
}

// releaseOfNothing wants what a rate limiter granted to come back with time alone.
func releaseOfNothing(s *subject) {
	s.empties().Release()
	s.has(0, "after the release of a lease that holds nothing")
	s.refused(1, "after the release of a lease that holds nothing")
}

// refundUndoes wants a refund to give the permits back, once for a lease that holds permits, and never
// above the limit. Each refund of another lease counts, so the rule refunds it once.
func refundUndoes(s *subject) {
	r := s.l.(core.Refunder)
	k, a, b := s.half()
	refused := s.refused(1, "with nothing available")
	r.Refund(a)
	s.has(k, "after a refund")
	copied := a.With(copied.With(1))
	for range 3 {
		if s.Holds {
			r.Refund(a)
			r.Refund(copied)
		}
		a.Release()
	}
	s.has(k, "after a refund that was repeated")
	r.Refund(core.Lease{})
	r.Refund(core.Grant(1, nil))
	r.Refund(refused)
	s.has(k, "after refunds of what this limiter did not grant")
	r.Refund(b)
	if s.RealTime {
		// It comes later than its grant, and another refund came between: it may do nothing.
		if got := s.l.Available(); got < k || got > s.Limit {
			s.faultf("Available() after all was refunded: %d, want %d to %d", got, k, s.Limit)
		}
		return
	}
	s.has(s.Limit, "after all was refunded")
	s.renew()
	r = s.l.(core.Refunder)
	k, a, _ = s.half()
	s.restock()
	r.Refund(a)
	s.has(s.Limit, "after a refund of what had come back")
	s.takes(k)
}

// refundAfterRelease wants a refund after the release to give nothing back twice. It may do nothing.
func refundAfterRelease(s *subject) {
	r := s.l.(core.Refunder)
	k, a, b := s.half()
	a.Release()
	released := s.l.Available()
	r.Refund(a)
	available := s.l.Available()
	if available != released && available != k {
		s.faultf("Available() after the release of %d permits: %d, and after their refund: %d, want that or %d", k, released, available, k)
	}
	r.Refund(a)
	s.has(available, "after a lease was released once and refunded twice")
	r.Refund(b)
	b.Release()
	s.has(available+s.Limit-k, "after the other permits were refunded, and released")
}

func lateRefund(s *subject) { s.givesBackOnce(s.l.(core.Refunder).Refund, "refund") }

// givesBackOnce wants permits that came back, with time or by a release, and were taken again not to be
// given back once more.
func (s *subject) givesBackOnce(back func(core.Lease), name string) {
	a := s.empties()
	s.restock()
	b := s.empties()
	back(a)
	s.has(0, "after a late "+name)
	s.refused(1, "after a late "+name)
	back(b)
	s.has(s.Limit, "after a "+name+" of what had just been taken")
}

// refundServes wants a refund to serve a waiter at once.
func refundServes(s *subject) {
	l := s.empties()
	c := s.waiter(1, "with nothing available")
	s.l.(core.Refunder).Refund(l)
	s.synchronize()
	c.wantGrant("after a refund")
}
