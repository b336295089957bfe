package core

import (
	"sync"
	"sync/atomic"
	"time"

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

	mu       sync.Mutex // guards everything below except woken
	closed   bool
	m        machine.Machine[parked]
	clock    clock.Clock
	waitlist *waitlist // nil means that no request waits

	granted  uint64        // grants to callers that did not wait
	rejected uint64        // all rejections
	woken    atomic.Uint64 // grants to callers that waited: each counts its own when it wakes
}

func (e *engine) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed || e.settings.Load() == nil
}

// base returns the engine of a limiter that embeds it: see engineOf.
func (e *engine) base() *engine { return e }

// start makes the engine ready. The leases are the owner's.
func (e *engine) start(o owner, s *settings, a machine.Account) {
	e.clock.Start()
	s.owner = o
	s.place(nil, &e.clock, 0)
	e.mu.Lock()
	e.settings.Store(s)
	e.m.Start(a, &s.Terms, 0)
	e.unlockAndWake(0)
}

// current returns the current settings; empty ones if the limiter was not made by its
// constructor.
func (e *engine) current() *settings {
	if s := e.settings.Load(); s != nil {
		return s
	}
	return settingsOf(label{}, machine.Terms{Mode: machine.Held})
}

// heldPermits returns the account of a concurrency limiter, or nil.
func (e *engine) heldPermits() *heldPermits {
	p, _ := e.m.Account().(*heldPermits)
	return p
}

// lockAndServe takes the mutex, applies what is due by now and serves the waiters that now fit, so that
// after a late timer a new request does not overtake a waiter. For a concurrency limiter it
// returns 0 and reads no clock.
func (e *engine) lockAndServe() (now int64) {
	e.mu.Lock()
	s := e.settings.Load()
	if s.Held() {
		return 0
	}
	now = e.nowLocked(s)
	for !e.m.AdvanceSome(now, someWaiters) {
		e.unlockAndWake(now) // others get the mutex; who takes it continues here
		e.mu.Lock()
		now = e.nowLocked(e.settings.Load())
	}
	return now
}

// someWaiters is how many waiters whose permits have become available are served at a time. Nobody wakes up for a
// reservation, so many of them may be due.
const someWaiters = 512

// nowLocked returns the current time, for a rate limiter. If another window of a calendar has started, it makes that the
// current one, with settings of its own.
func (e *engine) nowLocked(s *settings) int64 {
	reading := clock.Read()
	if s.Calendar != nil {
		now := e.clock.Wall(reading, s.Calendar.Zero)
		if now >= s.End() {
			e.rollLocked(now)
		}
		return now
	}
	if now, ok := e.clock.At(reading); ok {
		return now
	}
	return e.clock.Jump(reading, s.window())
}

// lookEvery is how often waiters for the next window look at the clock on the wall, which may be
// set.
const lookEvery = int64(time.Minute)

// rollLocked makes the calendar's window of now the current one. Each window has its own settings, so that
// its leases know its length. If it is the next window, waiters are served as of its boundary, however
// late that is. If windows were skipped, the clock was set, or the machine was suspended: waiters look at
// the clock once a minute, and no timer is late by a day. The skipped windows grant nothing.
func (e *engine) rollLocked(now int64) {
	e.concludeLocked()
	old := e.settings.Load()
	s := old.copy()
	s.Enter(now)
	at := now
	if s.From == old.End() && !e.m.Empty() {
		at = s.From
	}
	e.settings.Store(s)
	e.m.Roll(at, &s.Terms)
}

// unlockAndWake makes the leases of the waiters whose wait has ended, sets the timer if requests still
// wait, releases the mutex and wakes those waiters.
func (e *engine) unlockAndWake(now int64) {
	if e.m.Quiet() {
		e.mu.Unlock()
		return
	}
	e.concludeLocked()
	decided := e.m.Decided()
	switch {
	case e.waitlist == nil: // reservations need no timer
	case !e.m.Waiting():
		e.waitlist.leave()
		e.waitlist = nil
	case !e.settings.Load().Held():
		e.setAlarmLocked(now)
	}
	e.mu.Unlock()
	if decided != nil {
		wake(decided)
	}
}

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

// until returns how long it is from now to a time, which may be machine.Never.
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

// setAlarmLocked sets the timer to the time at which a waiter can be served.
func (e *engine) setAlarmLocked(now int64) {
	r, due := e.waitlist, e.m.Next(now)
	if e.settings.Load().Calendar != nil {
		if r.alarm > now && r.alarm <= min(due, now+lookEvery) {
			return
		}
		due = min(due, now+lookEvery)
	}
	switch {
	case due == r.alarm:
	case due == machine.Never:
		r.timer.Stop() // not nil: alarm was another instant
	case r.timer == nil:
		r.timer = time.AfterFunc(time.Duration(due-now), e.onTimer)
	default:
		r.timer.Reset(time.Duration(due - now))
	}
	r.alarm = due
}

// onTimer is the timer's function. Taking the mutex serves the waiters that are due. If another goroutine has
// served them already, or the waitlist is gone, it changes nothing.
func (e *engine) onTimer() {
	now := e.lockAndServe()
	if e.waitlist != nil {
		e.waitlist.alarm = machine.Never
	}
	e.unlockAndWake(now)
}
