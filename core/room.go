package core

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// room is where a limiter's callers wait, and exists only while somebody does: nothing of
// it outlives the last, so an idle limiter has no timer and no channel. The engine's mutex
// guards it.
type room struct {
	timer *time.Timer // nil until the first waiter whose instant is known
	alarm int64       // the instant that the timer is set to, or Never

	sentry *sentry // who waits for a Done that many share; nil: nobody
	ticket *cell   // of the lease that was released last; nil: none to be used again

	// Waiters to be used again. Those that woke put theirs on top of left, without the
	// mutex; its holder takes them all at once, so no element meets the stack twice.
	spare *waiter
	left  atomic.Pointer[waiter]

	shared shared // has a lock of its own
}

// waiter is an Acquire that waits. When its wait has ended, its lease is set, and soon
// ready has an element.
type waiter = machine.Waiter[parked]

type parked struct {
	room  *room
	ready chan struct{}
	lease Lease
	plain bool // it takes permits without a lease

	sentry   *sentry     // the room's when it came; changed with the mutex
	guarded  atomic.Bool // the sentry waits for its Done
	canceled bool        // and saw it closed
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

// recycle keeps w, which is no longer referenced, for the next to wait.
func recycle(w *waiter) {
	r := w.Value.room
	w.Value = parked{room: r, ready: w.Value.ready}
	for {
		top := r.left.Load()
		w.SetNext(top)
		if r.left.CompareAndSwap(top, w) {
			return
		}
	}
}

// leave stops the timer and the sentry.
func (r *room) leave() {
	if r.timer != nil {
		r.timer.Stop()
	}
	if r.sentry != nil {
		close(r.sentry.quit)
	}
}

// wake tells the waiters of a list that their wait has ended. No lock is held: those that
// wake may want it.
func wake(w *waiter) {
	for w != nil {
		next := w.Next() // when w is told, it is its goroutine's
		w.Value.ready <- struct{}{}
		w = next
	}
}

// setAlarm sets the timer to the instant at which somebody can be served.
func (e *engine) setAlarm(now int64) {
	r, due := e.room, e.m.Next(now)
	switch {
	case due == r.alarm:
	case due == machine.Never:
		r.timer.Stop() // there is one: alarm was another instant
	case r.timer == nil:
		r.timer = time.AfterFunc(time.Duration(due-now), e.onTimer)
	default:
		r.timer.Reset(time.Duration(due - now))
	}
	r.alarm = due
}

// onTimer is what the timer does. One that comes late, or for a queue that is gone, finds
// nothing to do.
func (e *engine) onTimer() {
	now := e.lock()
	if e.room != nil {
		e.room.alarm = machine.Never
	}
	e.unlock(now)
}

// await blocks until the wait of w has ended or ctx is done.
func (e *engine) await(ctx context.Context, w *waiter) (Lease, error) {
	done := e.doneFor(ctx, w)
	if done == nil || e.guarded(w, done) {
		<-w.Value.ready // a select costs more
	} else {
		select {
		case <-w.Value.ready:
		case <-done:
			if e.cancel(w) {
				recycle(w)
				return e.broken(ended(ctx))
			}
			<-w.Value.ready
		}
	}
	if w.Value.canceled {
		recycle(w)
		return e.broken(ended(ctx))
	}
	l, granted := w.Value.lease, w.Answer.Outcome == machine.Granted
	plain := 0
	if w.Value.plain {
		plain = w.N
	}
	recycle(w)
	if !granted {
		return l.refusal()
	}
	if err := e.stillWanted(ctx, l, plain); err != nil {
		return e.broken(err)
	}
	e.granted.Add(1)
	return l, nil
}

// doneFor returns the Done of the context with which w waits. Nobody else asks for it: who
// made the context may take it that the caller waits. If Done, which may be somebody's own,
// panics, w waits no more.
func (e *engine) doneFor(ctx context.Context, w *waiter) (done <-chan struct{}) {
	answered := false
	defer func() {
		if answered || e.cancel(w) {
			return
		}
		<-w.Value.ready
		switch {
		case w.Answer.Outcome != machine.Granted:
		case w.Value.plain:
			e.giveBack(w.N, nil)
		default:
			e.undo(w.Value.lease)
		}
	}()
	done = ctx.Done()
	answered = true
	return done
}

// stillWanted returns the error of a ctx that is done by now, and undoes what one that waited
// with it was granted: l, or so many plain permits. So it does if Err panics.
//
// Who cancelled before the grant must not be told of it, and which came first is not known
// here; so a done ctx wins, and the grant is undone as if it had never been.
func (e *engine) stillWanted(ctx context.Context, l Lease, plain int) (err error) {
	wanted := false
	defer func() {
		switch {
		case wanted:
		case plain > 0:
			e.giveBack(plain, nil)
		default:
			e.undo(l)
		}
	}()
	err = ctx.Err()
	wanted = err == nil
	return err
}

// cancel takes w out of the queue and serves those that it held up. It reports false if
// its wait had ended: of a grant and a cancellation the first to hold the mutex wins.
func (e *engine) cancel(w *waiter) bool {
	now := e.lock()
	canceled := e.m.Cancel(now, w)
	e.unlock(now)
	return canceled
}

// broken returns the refusal for a context that is done.
func (e *engine) broken(err error) (Lease, error) {
	l := e.refuse(failed)
	l.c = newExtra(extra{err: err}, l.c)
	return l, err
}
