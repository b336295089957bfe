package core

import (
	"context"
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
	waitlist *waitlist // nil: no request waits

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

// someWaiters is how many waiters whose permits have come are served at a time. Nobody wakes up for a reservation, so
// many of them may be due.
const someWaiters = 512

// nowLocked returns the instant now, for a rate limiter. If another window of a calendar has started, it makes that the
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

// TryAcquire takes permits if they are available now, and otherwise rejects the request: see
// [Limiter]. It does not wait. Unless the order is [NewestFirst], it also rejects a request for
// permits while another request waits, even if the permits are available.
func (e *engine) TryAcquire(permits int) Lease {
	if k, decided := e.try(permits, false); decided {
		return k
	}
	return e.trySlow(permits, false)
}

// TryQuietly is like TryAcquire, but does not count a rejection: see the function [TryQuietly].
func (e *engine) TryQuietly(permits int) (Lease, bool) {
	k, decided := e.try(permits, true)
	if !decided {
		k = e.trySlow(permits, true)
	}
	return k, k.Acquired()
}

// Acquire takes permits, and waits for them if the queue has room. If it has none, as with a
// QueueLimit of 0, Acquire immediately returns a *[RejectedError] with [ReasonQueueLimit]. If ctx
// is done before or during the wait, Acquire returns ctx.Err(), unchanged, and keeps no permits.
// [Limiter] describes the other cases and errors.
func (e *engine) Acquire(ctx context.Context, permits int) (Lease, error) {
	return e.acquire(ctx, permits, bounded)
}

// acquireWaiting is Acquire that waits whatever QueueLimit is: see waiting.go.
func (e *engine) acquireWaiting(ctx context.Context, permits int) (Lease, error) {
	return e.acquire(ctx, permits, beyond)
}

func (e *engine) acquire(ctx context.Context, n int, q queueing) (Lease, error) {
	if ctx.Err() == nil {
		if k, _ := e.try(n, true); k.Acquired() {
			return k, nil
		}
	}
	k, _, err := e.acquireUnder(ctx, n, nil, q)
	return k, err
}

// try decides a request that can be decided from the available permits alone; decided is false for others. A
// quiet request leaves no trace if it is not granted.
func (e *engine) try(n int, quiet bool) (k Lease, decided bool) {
	e.mu.Lock()
	s := e.simpleLocked(n)
	if s == nil {
		e.mu.Unlock()
		return Lease{}, false
	}
	now := int64(0)
	if !s.Held() {
		now = e.nowLocked(s)
		s = e.settings.Load()
	}
	left, fullAt, readyAt, ok := e.m.Account().Try(&s.Terms, now, n)
	if ok {
		e.granted++
		if s.Held() {
			k = e.heldPermits().holdLocked(s, n, left, &e.clock)
			e.mu.Unlock()
			return k, true
		}
	} else if !quiet {
		e.rejected++
	}
	e.mu.Unlock()
	if quiet && !ok {
		return Lease{}, true
	}
	return s.decision(now, n, left, fullAt, readyAt, ok), true
}

// simpleLocked returns the settings if a request for n permits can be decided from the available permits
// alone: the limiter is open, no request waits, and n is at least 1 and no more than the limit.
// Such requests are decided without the rest of the engine (bench: bucket, windows). For others
// it returns nil.
func (e *engine) simpleLocked(n int) *settings {
	s := e.settings.Load()
	if s == nil || e.closed || !e.m.Empty() || s.Manual() || n <= 0 || n > s.Limit {
		return nil
	}
	return s
}

// decision makes the lease of such a request, after the mutex is free. Settle finds the window by the instant of
// the grant. If a calendar's clock was set back, that instant may lie before the window, and the start of the window
// is used.
func (s *settings) decision(now int64, n, left int, fullAt, readyAt int64, ok bool) Lease {
	o, at := granted, max(now, s.From)
	if !ok {
		o, at = exhausted, max(readyAt-now, 1)
	}
	if b, ok := packUsual(n, left); ok {
		return Lease{h: &s.shared, bits: uint64(o) | b, reset: until(fullAt, now), at: at}
	}
	return newLease(&s.shared, o, n, left, until(fullAt, now), at)
}

// The methods that change a limiter as a whole: Update, Reset, Close, and the methods that package
// backdoor offers.

// update puts new current settings. Equal settings change nothing.
func (e *engine) update(o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	if e.settings.Load() == nil {
		return ErrClosed
	}
	now := e.lockAndServe()
	defer func() { e.unlockAndWake(now) }()
	switch l, t := o.label(), o.terms(); {
	case e.closed:
		return ErrClosed
	case !e.settings.Load().same(l, t):
		now = e.replaceLocked(now, settingsOf(l, t))
	}
	return nil
}

// replaceLocked puts new current settings. Instants continue as before; it returns the current one.
func (e *engine) replaceLocked(now int64, s *settings) int64 {
	e.concludeLocked()
	old := e.settings.Load()
	if old.Calendar != nil && s.calendar == (Calendar{}) {
		was := now
		if now = e.clock.Monotonic(now); now != was { // the current window moves with it
			old = old.copy()
			old.Shift(now - was)
			e.m.Rebind(&old.Terms)
		}
	}
	s.place(old, &e.clock, now)
	s.owner, s.Epoch = old.owner, e.m.NextEpoch(&s.Terms)
	if old.hook != nil && s.hook == nil {
		s.label = &label{s.name, s.anchor, s.calendar, old.hook}
	}
	e.settings.Store(s)
	if p := e.heldPermits(); p != nil {
		p.updatedLocked(s)
	}
	e.m.Update(now, &s.Terms)
	return now
}

// resize puts another current limit, from 0 to the one that the settings were made with.
func (e *engine) resize(limit int) {
	now := e.lockAndServe()
	if s := e.settings.Load().copy(); s.Limit != limit {
		s.Step, s.Limit = s.Most(), limit
		now = e.replaceLocked(now, s)
	}
	e.unlockAndWake(now)
}

// Close ends all waits with [ErrClosed], and later requests fail with ErrClosed. Leases can still
// be released, refunded and settled, and Statistics continues to work. Close always returns nil
// and may be called again.
func (e *engine) Close() error {
	if e.settings.Load() == nil {
		return nil
	}
	now := e.lockAndServe()
	e.closed = true
	e.m.Close(now)
	e.unlockAndWake(now)
	return nil
}

// retire closes the limiter if it has been idle for at least that long.
func (e *engine) retire(idle time.Duration) bool {
	if e.settings.Load() == nil {
		return false
	}
	now := e.lockAndServe()
	d, ok := e.idleLocked(now)
	if ok = ok && d >= idle && e.m.Empty(); ok {
		e.closed = true
	}
	e.unlockAndWake(now)
	return ok
}

// rate is what the limiters share whose permits come back with time.
type rate struct{ engine }

// TryReplenish adds the permits that are due by now, serves the waiters that now fit, and
// reports whether permits came back. Under automatic replenishment, and after Close, it changes
// nothing and returns false.
func (r *rate) TryReplenish() bool {
	if !r.current().Manual() {
		return false
	}
	now := r.lockAndServe()
	back := !r.closed && r.m.Replenish(now)
	r.unlockAndWake(now)
	return back
}

// AutoReplenishing reports whether permits come back without calls of TryReplenish.
func (r *rate) AutoReplenishing() bool {
	s := r.settings.Load()
	return s != nil && !s.Manual()
}

// Reset returns the limiter to its initial state: all permits are available, debts are canceled,
// and waiters are served. With a [Calendar], the wall clock determines the current window again,
// even if the window was ahead of the clock. The statistics continue. Settling a lease from
// before the Reset returns no permits. Reset may be called again, and after Close.
func (r *rate) Reset() {
	if r.settings.Load() == nil {
		return
	}
	now := r.lockAndServe()
	r.concludeLocked()
	s := r.settings.Load().copy()
	s.Epoch++
	if s.Calendar != nil { // which may be ahead of a clock that was set back
		s.Enter(now)
	}
	r.settings.Store(s)
	r.m.Reset(now, &s.Terms)
	r.unlockAndWake(now)
}
