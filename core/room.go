package core

import (
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// room is where a limiter's callers wait. It exists only while one does: an idle limiter has no
// timer and no channel, and may be used in another synctest bubble. The engine's mutex guards it.
type room struct {
	timer *time.Timer // nil until the first waiter whose instant is known
	alarm int64       // the instant that the timer is set to, or Never

	// Waiters for reuse. A caller that woke pushes its waiter onto left, without the mutex. The
	// mutex's holder takes them all at once, so the stack has no ABA problem.
	spare *waiter
	left  atomic.Pointer[waiter]
}

// waiter is an Acquire that waits. When its wait has ended, its lease is set, and soon
// ready has an element.
type waiter = machine.Waiter[parked]

type parked struct {
	room  *room
	ready chan struct{}
	lease Lease
	woken bool // the element of ready was received
}

// waiter returns a new waiter for n permits.
func (r *room) waiter(n int) *waiter {
	if r.spare == nil {
		r.spare = r.left.Swap(nil)
	}
	w := r.spare
	if w == nil {
		w = &waiter{Value: parked{room: r, ready: make(chan struct{}, 1)}}
	} else {
		r.spare = w.Next()
	}
	w.N = n
	return w
}

// recycle keeps w, which is no longer referenced, for another Acquire.
func recycle(w *waiter) {
	r := w.Value.room
	w.Value.lease, w.Value.woken = Lease{}, false
	for {
		top := r.left.Load()
		w.SetNext(top)
		if r.left.CompareAndSwap(top, w) {
			return
		}
	}
}

// leave stops the timer.
func (r *room) leave() {
	if r.timer != nil {
		r.timer.Stop()
	}
}

// wake notifies the waiters of a list that their wait has ended. No lock is held: the woken
// goroutines may take it.
func wake(w *waiter) {
	for w != nil {
		next := w.Next() // once notified, w belongs to its goroutine
		if w.Reserved {
			w.SetNext(nil) // nobody waits for a reservation
		} else {
			w.Value.ready <- struct{}{}
		}
		w = next
	}
}

// setAlarmLocked sets the timer to the instant at which a waiter can be served.
func (e *engine) setAlarmLocked(now int64) {
	r, due := e.room, e.m.Next(now)
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

// onTimer is the timer's function: taking the mutex serves the waiters that are due. If it runs
// late, or for a room that is gone, there is nothing to do.
func (e *engine) onTimer() {
	now := e.lock()
	if e.room != nil {
		e.room.alarm = machine.Never
	}
	e.unlock(now)
}
