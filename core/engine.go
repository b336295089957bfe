package core

import (
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/internal/clock"
	"github.com/sluice-go/sluice/internal/machine"
)

// engine is what the four limiters share: the mutex, the clock, the timer and the waiters
// around a machine, which decides. The state is in the machine, under the mutex.
//
// The mutex is a leaf: while it is held no other lock is taken, no user's code is called and
// nothing blocks.
type engine struct {
	settings atomic.Pointer[settings] // replaced under the mutex; nil: the limiter was not made by its constructor

	mu      sync.Mutex // guards all below, but for woken
	closed  bool
	watched bool // it is a concurrency limiter whose leases call a hook
	m       machine.Machine[parked]
	clock   clock.Clock
	room    *room // nil: no request waits

	granted  uint64        // grants to callers that did not wait
	rejected uint64        // all rejections
	woken    atomic.Uint64 // grants to callers that waited: each counts its own when it wakes
}

// start makes the engine ready.
func (e *engine) start(s *settings, a machine.Account) {
	e.clock.Start()
	s.owner = e
	s.place(nil, &e.clock, 0)
	e.mu.Lock()
	e.settings.Store(s)
	e.m.Start(a, &s.Terms, 0)
	e.unlock(0)
}

// inForce returns the settings in force; empty ones if the limiter was not made by its
// constructor.
func (e *engine) inForce() *settings {
	if s := e.settings.Load(); s != nil {
		return s
	}
	return newSettings(label{}, machine.Terms{})
}

// lock takes the mutex, applies what is due by now and serves the waiters that now fit, so that
// after a late timer a new request does not overtake a waiter. For a concurrency limiter it
// returns 0 and reads no clock.
func (e *engine) lock() (now int64) {
	e.mu.Lock()
	s := e.settings.Load()
	if s.Kind == machine.Concurrency {
		return 0
	}
	now = e.nowLocked(s)
	if s.Calendar != nil && now >= s.End() {
		e.rollLocked(now)
	}
	e.m.Advance(now)
	return now
}

// nowLocked returns the instant now, for a rate limiter.
func (e *engine) nowLocked(s *settings) int64 {
	reading := clock.Read()
	if s.Calendar != nil {
		return e.clock.Wall(reading, s.Calendar.Zero)
	}
	if now, ok := e.clock.At(reading); ok {
		return now
	}
	return e.clock.Jump(reading, s.length())
}

// unlock makes the leases of the waiters whose wait has ended, sets the timer if requests still
// wait, releases the mutex and wakes those waiters.
func (e *engine) unlock(now int64) {
	if e.m.Quiet() {
		e.mu.Unlock()
		return
	}
	e.concludeLocked()
	decided := e.m.Decided()
	switch {
	case e.room == nil: // reservations need no timer
	case !e.m.Waiting():
		e.room.leave()
		e.room = nil
	case e.settings.Load().Kind != machine.Concurrency:
		e.setAlarmLocked(now)
	}
	e.mu.Unlock()
	if decided != nil {
		wake(decided)
	}
}

// concludeLocked makes the leases of the waiters whose wait has ended. What changes the settings calls
// it first: those waiters were served before the change.
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
	case s.Kind == machine.Concurrency && n > 0:
		return e.permits().holdLocked(e, s, n, a.Left)
	case s.Kind == machine.TokenBucket && a.Missing != s.Limit-a.Left:
		// Tokens are overdue: the lease says what is left now, and Settle needs what is left once
		// they have come.
		f := newLease(&s.shared, granted, n, a.Left, until(a.FullAt, a.At), a.At).facts()
		k := Lease{bits: uint64(granted), reset: until(a.FullAt, a.At), at: a.At}
		return k.with(s, extra{of: &s.shared, facts: &f, missing: a.Missing})
	case s.Manual() && a.FullAt == machine.Never:
		return newLease(&s.shared, granted, n, a.Left, machine.Never, a.Tick)
	}
	return newLease(&s.shared, granted, n, a.Left, until(a.FullAt, a.At), max(a.At, s.From))
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
