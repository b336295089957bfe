package limitertest

import (
	"errors"
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
)

// answers returns a lease of each kind that comes without waiting.
func (s *subject) answers() map[string]core.Lease {
	leases := map[string]core.Lease{
		"a grant":                       s.takes(1),
		"a zero-permit grant":           {},
		"a refusal of negative permits": s.l.TryAcquire(-1),
	}
	if s.unlimited() || s.Limit > 1 {
		leases["a zero-permit grant"] = s.takes(0)
	}
	if s.unlimited() {
		return leases
	}
	if s.Limit > 1 {
		leases["another grant"] = s.takes(s.Limit - 1)
	}
	leases["a rejection"] = s.refused(1, "with nothing available")
	leases["a refusal of more than the limit"] = s.l.TryAcquire(s.Limit + 1)
	return leases
}

// metadataInOrder wants each name of the metadata once, only names that have a value, and values that
// make sense.
func metadataInOrder(s *subject) {
	for what, l := range s.answers() {
		seen := map[string]bool{}
		for name, value := range l.Metadata() {
			switch {
			case seen[name]:
				s.faultf("metadata of %s: %s twice", what, name)
			case name == "" || value == nil:
				s.faultf("metadata of %s: %q = %v, want a name and a value", what, name, value)
			}
			seen[name] = true
		}
		sensible(s, what, l, seen, core.RetryAfter, func(d time.Duration) bool { return d > 0 })
		sensible(s, what, l, seen, core.ReasonPhrase, func(v string) bool { return v != "" })
		sensible(s, what, l, seen, core.LimiterName, func(v string) bool { return v != "" })
		sensible(s, what, l, seen, core.PermitLimit, func(v int) bool { return v >= s.Limit })
		sensible(s, what, l, seen, core.Remaining, func(v int) bool { return v >= 0 })
		sensible(s, what, l, seen, core.ResetAfter, func(d time.Duration) bool { return d >= 0 })
		sensible(s, what, l, seen, core.Window, func(d time.Duration) bool { return d > 0 })
	}
}

// sensible wants the key's value to be of its type, and right, if the lease has any.
func sensible[T any](s *subject, what string, l core.Lease, seen map[string]bool, key core.MetadataKey[T], right func(T) bool) {
	v, ok := key.From(l)
	if ok != seen[key.Name()] || ok && !right(v) {
		s.faultf("metadata of %s: %s = %v, and From says %v", what, key.Name(), v, ok)
	}
}

// windowIsOne wants the same Window on every answer that has one, and none where permits do not come
// back with time.
func windowIsOne(s *subject) {
	var first time.Duration
	for what, l := range s.answers() {
		d, ok := core.Window.From(l)
		switch {
		case !ok:
		case s.Refill == 0:
			s.faultf("Window of %s: %v, want none: permits do not come back with time", what, d)
		case first == 0:
			first = d
		case d != first:
			s.faultf("Window of %s: %v, and of another answer %v, want the same", what, d, first)
		}
	}
}

// reasonsAreCores wants core's reason phrases from a limiter that uses one for a failed TryAcquire.
// Another limiter has phrases of its own, as a view that core.WithReason made.
func reasonsAreCores(s *subject) {
	s.empties()
	hasReason := func(l core.Lease, want, when string) bool {
		got, ok := core.ReasonPhrase.From(l)
		if ok && got != want && when != "" {
			s.faultf("ReasonPhrase %s: %q, want %q", when, got, want)
		}
		return ok && got == want
	}
	if !hasReason(s.refused(1, "with nothing available"), "permits exhausted", "") {
		return
	}
	if s.queue == 0 {
		hasReason(s.acquires(1).lease, "queue limit reached", "of an Acquire without a queue")
		return
	}
	if d, ok := core.RetryAfter.From(s.refused(1, "with nothing available")); ok && d > s.grain() && !s.Holds {
		hasReason(s.acquiresWithin(1, d-s.grain()).lease, "deadline too soon", "of a hopeless deadline")
	}
	if s.unbounded() || s.Holds && s.Refill > 0 {
		return
	}
	waiters := s.fill()
	extra := s.acquires(1)
	switch {
	case s.QueueOrder != core.NewestFirst && !extra.waits():
		hasReason(extra.lease, "queue limit reached", "with a full queue")
	case s.QueueOrder == core.NewestFirst && !waiters[0].waits():
		hasReason(waiters[0].lease, "evicted by a newer request", "of an eviction")
	}
}

// errorsMatch wants no error for a grant, and otherwise an error whose fields agree with the metadata.
func errorsMatch(s *subject) {
	for what, l := range s.answers() {
		if l.Acquired() {
			if err := l.Err(); err != nil {
				s.faultf("Err() of %s: %v, want nil", what, err)
			}
			continue
		}
		if n := l.Permits(); n != 0 {
			s.faultf("Permits() of %s: %d, want 0", what, n)
		}
		err := l.Err()
		if err == nil {
			s.faultf("Err() of %s: nil, want an error", what)
		}
		rejection := what == "a rejection"
		if errors.Is(err, core.ErrRejected) != rejection && what != "a zero-permit grant" {
			s.faultf("Err() of %s: %v; is it core.ErrRejected: %v, want %v", what, err, !rejection, rejection)
		}
		var r *core.RejectedError
		if !errors.As(err, &r) {
			if rejection {
				s.faultf("Err() of %s: a %T, want a *core.RejectedError", what, err)
			}
			continue
		}
		after, _ := core.RetryAfter.From(l)
		reason, _ := core.ReasonPhrase.From(l)
		name, _ := core.LimiterName.From(l)
		if r.RetryAfter != after || r.Reason != reason || r.Limiter != name {
			s.faultf("Err() of %s: %q says %v, %q, %q; its metadata %v, %q, %q",
				what, err, r.RetryAfter, r.Reason, r.Limiter, after, reason, name)
		}
	}
}

// statisticsAddUp wants every answer to count once, as what it is.
func statisticsAddUp(s *subject) {
	first, _ := s.counts()
	want := core.Statistics{Limit: s.Limit, Available: s.Limit, Granted: first.Granted, Rejected: first.Rejected}
	check := func(when string) {
		s.pass(s.Lag)
		if got, _ := s.counts(); got != want {
			s.faultf("Statistics() %s: %v, want %v", when, got, want)
		}
	}
	check("of a new limiter")
	take := func(n int) {
		s.takes(n)
		want.Granted++
		if !s.unlimited() {
			want.Available -= n
		}
	}
	take(0)
	take(1)
	check("after a zero-permit grant and another")
	if s.unlimited() {
		return
	}
	if s.Limit > 1 {
		s.acquiresNow(s.ctx, s.Limit-1, "with that many available").wantGrant("with that many available")
		want.Granted++
		want.Available = 0
	}
	check("after all was taken")
	s.refused(1, "with nothing available")
	s.refused(0, "with nothing available")
	s.refused(s.Limit, "with nothing available")
	want.Rejected += 3
	check("after three rejections")
	if s.RealTime {
		return
	}
	if s.queue > 0 {
		c := s.acquires(1)
		want.Queued = 1
		check("with somebody waiting")
		s.restock()
		c.wantGrant("once permits are back")
		want.Queued = 0
		want.Granted++
	}
	s.restock()
	want.Available = s.Limit
	check("after all came back")
}

// availableBounds wants exactly the available permits to be takeable, and a rejection to take nothing.
func availableBounds(s *subject) {
	s.has(s.Limit, "of a new limiter")
	if s.unlimited() {
		s.takes(1)
		s.takes(math.MaxInt)
		s.has(math.MaxInt, "of an unlimited limiter")
		return
	}
	s.takes(1)
	s.has(s.Limit-1, "after 1 was taken")
	s.refused(s.Limit, "with 1 taken")
	s.has(s.Limit-1, "after a rejection")
	if s.Limit > 2 {
		s.takes(s.Limit - 2)
		s.has(1, "after all but 1 were taken")
	}
	if s.Limit > 1 {
		s.acquiresNow(s.ctx, 1, "with 1 available").wantGrant("with 1 available")
	}
	s.has(0, "after all was taken")
	s.refused(1, "with nothing available")
	s.has(0, "after a rejection")
}
