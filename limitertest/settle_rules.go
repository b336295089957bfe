package limitertest

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
)

// settle calls Settle, whatever the lease, and wants it to return at once.
func (s *subject) settle(l core.Lease, n int) core.Lease {
	begin := time.Now()
	got := s.l.(core.Settler).Settle(l, n)
	s.leases = append(s.leases, got)
	s.atOnce(begin, "Settle to %d", n)
	return got
}

// settles has a live grant settled, and wants a lease of n permits in its place.
func (s *subject) settles(l core.Lease, n int) core.Lease {
	before := metadataOf(l)
	got := s.settle(l, n)
	switch want := max(n, 0); {
	case !got.Acquired():
		s.stopf("Settle of %d permits to %d: not acquired (%v), want a lease of %d", l.Permits(), n, got.Err(), want)
	case got.Permits() != want:
		s.stopf("Settle of %d permits to %d: a lease of %d, want %d", l.Permits(), n, got.Permits(), want)
	}
	if after := metadataOf(got); !reflect.DeepEqual(after, before) {
		s.faultf("Settle of %d permits to %d: metadata %v, want that of the lease before, %v", l.Permits(), n, after, before)
	}
	return got
}

// copied marks a copy of a lease.
var copied = core.NewMetadataKey[int]("COPY")

// metadataOf returns the lease's metadata, but for names of the limiter's own, by which it
// may know its leases.
func metadataOf(l core.Lease) map[string]any {
	all := map[string]any{}
	for name, value := range l.Metadata() {
		switch name {
		case core.RetryAfter.Name(), core.ReasonPhrase.Name(), core.LimiterName.Name(), core.PermitLimit.Name(),
			core.Remaining.Name(), core.ResetAfter.Name(), core.Window.Name(), copied.Name():
			all[name] = value
		}
	}
	return all
}

// comesBack settles what cannot be settled, and wants the same lease back.
func (s *subject) comesBack(l core.Lease, n int, what string) {
	got := s.settle(l, n)
	alike := got.Acquired() == l.Acquired() && got.Permits() == l.Permits() && reflect.DeepEqual(metadataOf(got), metadataOf(l))
	if !alike || l.Err() != nil && !same(got.Err(), l.Err()) {
		s.faultf("Settle of %s to %d: %v, want it back as it is, %v", what, n, got, l)
	}
}

// more returns n+by, or math.MaxInt where that is too much.
func more(n, by int) int {
	if n > math.MaxInt-by {
		return math.MaxInt
	}
	return n + by
}

// settleReplaces wants the new lease to have the settled number of permits, and the metadata of the
// old one.
func settleReplaces(s *subject) {
	for _, n := range []int{0, 1, 2, 5} {
		s.renew()
		l := s.takes(min(2, s.Limit)).With(copied.With(7))
		s.settles(l, n)
	}
}

// settleLess wants permits that were not used to come back, and never more than these.
func settleLess(s *subject) {
	for _, n := range []int{s.Limit - s.Limit/2 - 1, 0, -1, math.MinInt} {
		s.renew()
		k, a, _ := s.half()
		s.settles(a, n)
		s.has(k-max(n, 0), "after a lease was settled for less")
	}
	if s.RealTime {
		return
	}
	s.renew()
	_, a, _ := s.half()
	s.restock()
	s.settle(a, 0)
	s.has(s.Limit, "after a lease was settled whose permits had come back")
	s.empties()
}

func lateSettle(s *subject) {
	s.givesBackOnce(func(l core.Lease) { s.settle(l, 0) }, "settlement for nothing")
}

// settleServes wants a settlement for less to serve a waiter that fits, at once.
func settleServes(s *subject) {
	l := s.empties()
	c := s.waiter(1, "with nothing available")
	s.settles(l, s.Limit-1)
	s.synchronize()
	c.wantGrant("after a lease was settled for less")
	s.has(0, "after a waiter was served")
}

// settleAddsUp wants the available permits, at one instant, to be the limit less the permits of all
// leases, and 0 while there is a debt.
func settleAddsUp(s *subject) {
	const steps = 100
	random := rand.New(rand.NewPCG(1, 2))
	var leases []core.Lease
	out := 0
	for range steps {
		free := min(max(s.Limit-out, 0), 20)
		if i := random.IntN(len(leases) + 1); i == len(leases) && free > 0 {
			n := 1 + random.IntN(free)
			leases = append(leases, s.takes(n))
			out += n
		} else if i < len(leases) {
			n := random.IntN(min(s.Limit, 20) + 3)
			out += n - leases[i].Permits()
			leases[i] = s.settles(leases[i], n)
			if n == 0 {
				leases = slices.Delete(leases, i, i+1)
			}
		}
		if want := max(s.Limit-out, 0); s.l.Available() != want {
			s.stopf("Available() with %d of %d taken: %d, want %d", out, s.Limit, s.l.Available(), want)
		}
	}
	for _, l := range leases {
		s.settles(l, 0)
	}
	s.has(s.Limit, "after all leases were settled for nothing")
}

// settleCountsNothing wants Settle to change no statistic, because it is no decision.
func settleCountsNothing(s *subject) {
	l := s.takes(1)
	before, _ := s.counts()
	for _, n := range []int{2, 3, 1, 0} {
		l = s.settles(l, n)
	}
	s.counted(before, 0, 0, "settling")
}

// spentLease wants a lease that was settled, and its copies, to do nothing any more.
func spentLease(s *subject) {
	k := s.Limit - s.Limit/2
	for _, n := range []int{k - 1, more(k, 1), more(s.Limit, k)} {
		if n == 0 {
			continue
		}
		s.renew()
		_, a, _ := s.half()
		settled := s.settles(a, n)
		available := s.l.Available()
		for _, spent := range []core.Lease{a, a.With(copied.With(1))} {
			spent.Release()
			if s.is(Refunder) {
				s.l.(core.Refunder).Refund(spent)
			}
			for _, again := range []int{0, 1, more(s.Limit, 9)} {
				s.comesBack(spent, again, "a spent lease")
			}
			s.has(available, "after a spent lease was released, refunded and settled again")
		}
		s.settles(settled, 0)
		if s.RealTime {
			continue // a refund that comes later need not give back everything
		}
		s.has(k, "after the lease that replaces a spent one was settled for nothing")
		settled.Release()
		s.has(k, "after a lease was settled for nothing, and released")
	}
}

// settledOnce wants a lease to be settled once, whichever copy is settled, on whatever goroutine.
func settledOnce(s *subject) {
	for range 20 {
		l := s.takes(1)
		got := make([]core.Lease, crowd)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() { got[i] = s.l.(core.Settler).Settle(l, i+2) })
		}
		wg.Wait()
		s.leases = append(s.leases, got...)
		won := core.Lease{}
		for _, g := range got {
			switch {
			case g.Permits() == 1: // it came too late
			case won.Acquired():
				s.stopf("%d goroutines settled one lease, for %d and for %d, want one of them to win", crowd, won.Permits(), g.Permits())
			default:
				won = g
			}
		}
		if !won.Acquired() {
			s.stopf("%d goroutines settled one lease, want one of them to win", crowd)
		}
		s.has(max(s.Limit-won.Permits(), 0), "after a lease was settled by many")
		if s.RealTime {
			return
		}
		s.settles(won, 0)
		s.has(s.Limit, "after a lease was settled by many, and then for nothing")
	}
}

// settleOfOthers wants Settle to return what is no live grant of this limiter as it is.
func settleOfOthers(s *subject) {
	k, a, _ := s.half()
	refused := s.refused(1, "with nothing available")
	s.settles(a, 0)
	released := false
	foreign := core.Grant(2, func() { released = true })
	other := s.New()
	defer s.leave(other)
	theirs := other.TryAcquire(1)
	left := other.Available()
	for _, n := range []int{-1, 0, 1, more(s.Limit, 2)} {
		s.comesBack(core.Lease{}, n, "the zero lease")
		s.comesBack(refused, n, "a rejection")
		s.comesBack(s.l.TryAcquire(-1), n, "a refusal of negative permits")
		s.comesBack(foreign, n, "a lease that another limiter made")
		s.comesBack(theirs, n, "a lease of another limiter of the same make")
		s.has(k, "after what this limiter did not grant was settled")
	}
	if got := other.Available(); got != left {
		s.faultf("Available() of another limiter whose lease was settled here: %d, want %d", got, left)
	}
	theirs.Release()
	foreign.Release()
	if !released {
		s.faultf("a lease that another limiter made does not release any more, after it was settled here")
	}
}

// settleAfterClose wants Settle to work after Close, as Release does.
func settleAfterClose(s *subject) {
	if s.Refill > 0 {
		return
	}
	l := s.empties()
	s.closes()
	l = s.settles(l, more(s.Limit, 1))
	s.has(0, "after Close, and a debt")
	l = s.settles(l, 1)
	s.has(s.Limit-1, "after Close, and a settlement for 1")
	l.Release()
	s.has(s.Limit, "after Close, and the release of all leases")
}
