package limitertest

import (
	"reflect"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
)

// settle calls Settle, whatever the lease, and wants it to return immediately.
func (s *subject) settle(l core.Lease, n int) core.Lease {
	start := time.Now()
	got := s.l.(core.Settler).Settle(l, n)
	s.leases = append(s.leases, got)
	s.atOnce(start, "Settle to %d", n)
	return got
}

// settles has a live grant settled, and wants a lease of n permits in its place.
func (s *subject) settles(l core.Lease, n int) core.Lease {
	before := metadataOf(l)
	got := s.settle(l, n)
	switch want := max(n, 0); {
	case !got.Acquired():
		s.fatalf("Settle of %d permits to %d: not acquired (%v), want a lease of %d", l.Permits(), n, got.Err(), want)
	case got.Permits() != want:
		s.fatalf("Settle of %d permits to %d: a lease of %d, want %d", l.Permits(), n, got.Permits(), want)
	}
	if after := metadataOf(got); !reflect.DeepEqual(after, before) {
		s.errorf("Settle of %d permits to %d: metadata %v, want that of the lease before, %v", l.Permits(), n, after, before)
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
		s.errorf("Settle of %s to %d: %v, want it back as it is, %v", what, n, got, l)
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
				s.fatalf("%d goroutines settled one lease, for %d and for %d, want one of them to win", crowd, won.Permits(), g.Permits())
			default:
				won = g
			}
		}
		if !won.Acquired() {
			s.fatalf("%d goroutines settled one lease, want one of them to win", crowd)
		}
		s.has(max(s.Limit-won.Permits(), 0), "after a lease was settled by many")
		if s.RealTime {
			return
		}
		s.settles(won, 0)
		s.has(s.Limit, "after a lease was settled by many, and then for nothing")
	}
}

// updateKeepsDebt wants a larger limit to pay no more of a debt than it makes room for; of a bucket that keeps its
// tokens only RetryAfter shows it.
func updateKeepsDebt(s *subject) {
	s.settles(s.empties(), more(s.Limit, 3))
	retry := s.retryAfter(s.refused(1, "with a debt"), "a failed try with a debt")
	s.updates(s.Limit + 1)
	if d := s.retryAfter(s.refused(1, "after an Update, with a larger debt"), "a failed try with a debt"); d != retry {
		s.errorf("RetryAfter with a debt after an Update: %v, before: %v, want the same", d, retry)
	}
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
			s.errorf("RetryAfter with a debt of %d: %v, with a smaller one %v", debt, d, last)
		}
		if debt == s.Limit && d <= s.Refill-s.grain() {
			s.errorf("RetryAfter with a debt of %d: %v, though as many come back after %v", debt, d, s.Refill)
		}
		last = d
		s.exact(1, d)
		if reset, ok := core.ResetAfter.From(l); ok && knows {
			owe(debt)
			s.pass(reset - s.grain())
			if got := s.l.Available(); got >= s.Limit {
				s.errorf("Available() just before ResetAfter, with a debt of %d: %d, want less than %d", debt, got, s.Limit)
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
