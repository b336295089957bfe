package core

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/internal/linked"
	"github.com/sluice-go/sluice/internal/machine"
)

// Requests that no swap of the word could grant: they are decided under the mutex.

func (e *engine) tryAcquireSlow(n int) Lease {
	if n < 0 {
		return e.refuse(negative)
	}
	if e.epoch.Load() == nil {
		return e.refuse(closed)
	}
	now := e.lock()
	var l Lease
	if e.closed {
		l = e.refuse(closed)
	} else {
		l = e.answered(e.m.Try(now, n), n)
	}
	e.unlock(now)
	return l
}

// tryQuietlySlow is tryAcquireSlow that leaves no trace if it does not grant.
func (e *engine) tryQuietlySlow(n int) (l Lease, ok bool) {
	if n < 0 || e.epoch.Load() == nil {
		return Lease{}, false
	}
	now := e.lock()
	if !e.closed {
		var a machine.Answer
		if a, ok = e.m.TryQuietly(now, n); ok {
			l = e.grant(a, n)
		}
	}
	e.unlock(now)
	return l, ok
}

func (e *engine) acquireSlow(ctx context.Context, n int) (Lease, error) {
	return e.acquireUnder(ctx, n, nil)
}

// acquireUnder is Acquire, whose wait ends with a source too, which may be nil.
func (e *engine) acquireUnder(ctx context.Context, n int, s *linked.Source) (Lease, error) {
	if n < 0 {
		return e.refuse(negative), ErrNegativePermits
	}
	if err := ctx.Err(); err != nil {
		return Refuse(err), err
	}
	if e.epoch.Load() == nil {
		return e.refuse(closed), ErrClosed
	}
	w, l := e.admit(ctx, n)
	switch {
	case w != nil && s != nil:
		call := s.Begin(ctx)
		defer call.End()
		return e.await(call, w) //nolint:contextcheck // it is ctx, until the source ends
	case w != nil:
		return e.await(ctx, w)
	case l.Acquired():
		return l, nil
	}
	return l.refusal()
}

// admit returns a waiter for n permits, or the lease if there is nothing to wait for.
func (e *engine) admit(ctx context.Context, n int) (w *waiter, l Lease) {
	left := int64(machine.Never)
	if e.epoch.Load().Timed() {
		left = timeLeft(ctx) // before the lock: the context may be a user's type
	}
	now := e.lock()
	defer e.unlock(now)
	if e.closed {
		return nil, e.refuse(closed)
	}
	deadline := int64(machine.Never)
	if left < machine.Never-now {
		deadline = now + left
	}
	a := e.m.Admit(now, n, deadline)
	switch {
	case a.Outcome != machine.Waiting:
		return nil, e.answered(a, n)
	case e.room == nil:
		e.room = &room{alarm: machine.Never}
	}
	w = e.room.waiter(n)
	e.m.Wait(w)
	return w, l
}

// await blocks until the wait of w has ended or ctx is done. A cancellation that finds w in the
// queue wins. A grant that came first is refunded if ctx is done when the caller wakes.
func (e *engine) await(ctx context.Context, w *waiter) (Lease, error) {
	if done := ctx.Done(); done == nil {
		<-w.Value.ready // a select costs more
	} else {
		select {
		case <-w.Value.ready:
		case <-done:
			if e.cancel(w) {
				recycle(w)
				err := ctx.Err()
				return Refuse(err), err
			}
			<-w.Value.ready
		}
	}
	l, granted := w.Value.lease, w.Answer.Outcome == machine.Granted
	recycle(w)
	if !granted {
		return l.refusal()
	}
	// A caller that cancelled before the grant must not receive it, and it is not known here which
	// came first. A done ctx therefore wins, and the grant is undone as if it had never been made.
	if err := ctx.Err(); err != nil {
		e.Refund(l)
		return Refuse(err), err
	}
	e.granted.Add(1)
	return l, nil
}

// cancel takes w out of the queue and serves the waiters that it held up. It returns false if
// the wait of w had already ended.
func (e *engine) cancel(w *waiter) bool {
	now := e.lock()
	canceled := e.m.Cancel(now, w)
	e.unlock(now)
	return canceled
}

// timeLeft returns the nanoseconds until the deadline of ctx, or Never. For a deadline by the
// wall clock it returns the duration that the timers of package context use.
func timeLeft(ctx context.Context) int64 {
	if d, ok := ctx.Deadline(); ok {
		return int64(time.Until(d))
	}
	return machine.Never
}
