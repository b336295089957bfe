package core

import (
	"github.com/sluice-go/sluice/internal/machine"
)

// concludeLocked makes the leases of the waiters whose wait has ended. Call it before changing the settings,
// because these waiters were served under the old ones.
func (e *engine) concludeLocked() {
	for w := e.m.Undelivered(); w != nil; w = w.Next() {
		if w.Value.lease.outcome() == unanswered {
			w.Value.lease = e.decidedLocked(w)
			if w.Reserved && w.Answer.Outcome == machine.Granted {
				e.granted++
			}
		}
	}
}

// decidedLocked makes the lease of a waiter whose wait has ended. It counts no grant: see await.
func (e *engine) decidedLocked(w *waiter) Lease {
	switch w.Answer.Outcome {
	case machine.Granted:
		return e.leaseLocked(w.Answer, w.N)
	case machine.Ended:
		return e.failure(closed, 0)
	default:
		return e.answerLocked(w.Answer, w.N)
	}
}

var rejections = [...]outcome{
	machine.Exhausted: exhausted,
	machine.QueueFull: queueFull,
	machine.Evicted:   evicted,
	machine.TooSoon:   tooSoon,
}

// answerLocked counts an answer and makes its lease.
func (e *engine) answerLocked(a machine.Answer, n int) Lease {
	switch a.Outcome {
	case machine.Granted:
		e.granted++
		return e.leaseLocked(a, n)
	case machine.ExceedsLimit:
		return e.failure(exceeds, n)
	}
	e.rejected++
	s, retry := e.settings.Load(), int64(0)
	if s.Timed() {
		retry = max(a.ReadyAt-a.At, 1)
	}
	return newLease(&s.shared, rejections[a.Outcome], n, a.Left, until(a.FullAt, a.At), retry)
}

// leaseLocked makes the lease of n permits that the machine has granted.
func (e *engine) leaseLocked(a machine.Answer, n int) Lease {
	s := e.settings.Load()
	switch {
	case s.Held() && n > 0:
		return e.heldPermits().holdLocked(s, n, a.Left, &e.clock)
	case a.Missing != s.Limit-a.Left:
		// Tokens are overdue: the lease says what is left now, and Settle needs what is left once
		// they have come.
		f := newLease(&s.shared, granted, n, a.Left, until(a.FullAt, a.At), a.GrantAt).info()
		k := Lease{bits: uint64(granted), reset: until(a.FullAt, a.At), at: a.GrantAt}
		return k.with(s, extra{base: &s.shared, info: &f, missing: a.Missing})
	}
	return newLease(&s.shared, granted, n, a.Left, until(a.FullAt, a.At), a.GrantAt)
}

// until returns the time from now to an instant, which may be machine.Never.
func until(instant, now int64) int64 {
	if instant == machine.Never {
		return machine.Never
	}
	return instant - now
}

// failure returns a lease with an outcome that is an error but not a rejection.
func (e *engine) failure(o outcome, n int) Lease {
	if s := e.settings.Load(); s != nil {
		return newLease(&s.shared, o, n, unknown, unknown, 0)
	}
	return Lease{bits: uint64(o)}
}
