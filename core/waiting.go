package core

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/machine"
	"github.com/sluice-go/sluice/internal/wait"
)

// From Acquire to the grant:
//
//  1. try (try.go) grants if the permits are available and nobody waits for them. Most requests end here.
//  2. admit asks the machine under the mutex. If the answer is Waiting, it puts a waiter into the machine's queue.
//  3. await blocks on the waiter's channel, without the mutex.
//  4. Permits come back: another goroutine releases or settles a lease, or the timer fires, which the waitlist of a
//     rate limiter has for the head of the queue (setAlarmLocked in engine.go). Each of them takes the mutex, as an
//     Update, a canceled call and most other calls do (lockAndServe in engine.go), and
//     the machine grants to the waiters that now fit, in order (serve in internal/machine/machine.go).
//  5. Before it unlocks the mutex, that goroutine makes the waiters' leases (unlockAndWake in engine.go). Afterwards it
//     sends to their channels.
//  6. await looks at ctx once more, counts the grant, and returns the lease.
//
// The comment on waiter, in waitlist.go, lists the other ways in which a wait ends.

// Acquire takes permits. If they are not available, it waits for them in the queue. If the queue has no room, as with
// a QueueLimit of 0, Acquire immediately returns a *[RejectedError] with [ReasonQueueLimit]. If ctx is done before or
// during the wait, Acquire returns ctx.Err(), unchanged, and keeps no permits. [Limiter] describes the other cases and
// errors.
func (e *engine) Acquire(ctx context.Context, permits int) (Lease, error) {
	if ctx.Err() == nil {
		if k, _ := e.try(permits, true); k.Acquired() {
			return k, nil
		}
	}
	k, _, err := e.acquireUnder(ctx, permits, nil, bounded)
	return k, err
}

// acquireUnder is Acquire without try: see waitingLimiter.
func (e *engine) acquireUnder(ctx context.Context, n int, s *wait.Source, q queueing) (l Lease, waited bool, err error) { //nolint:unparam // callers of waitingLimiter use waited
	if n < 0 {
		return e.failure(negative, 0), false, ErrNegativePermits
	}
	if err := ctx.Err(); err != nil {
		return Fail(err), false, err
	}
	if e.settings.Load() == nil {
		return e.failure(closed, 0), false, ErrClosed
	}
	w, l := e.admit(ctx, n, q)
	switch {
	case w != nil:
		l, err = e.await(ctx, w, s)
		return l, true, err
	case l.Acquired():
		return l, false, nil
	}
	l, err = l.asError()
	return l, false, err
}

// admit returns a waiter for n permits, or the lease if there is nothing to wait for.
func (e *engine) admit(ctx context.Context, n int, q queueing) (w *waiter, l Lease) {
	timeout := e.timeLeft(ctx)
	now, flow := e.lockAndServe(), fair.Flow{}
	byFlow := e.m.LooksAtFlow(n) && !e.closed
	if byFlow {
		e.unlockAndWake(now)
		f, _ := FlowFromContext(ctx)
		flow, timeout = fair.Flow(f), e.timeLeft(ctx)
		now = e.lockAndServe()
	}
	defer e.unlockAndWake(now)
	if e.closed {
		return nil, e.failure(closed, 0)
	}
	deadline := int64(machine.Never)
	if timeout < machine.Never-max(now, 0) { // now is below 0 if a calendar's clock was set back
		deadline = now + timeout
	}
	a := e.m.Admit(now, n, deadline, flow, q == beyond)
	if a.Outcome != machine.Waiting {
		return nil, e.answerLocked(a, n)
	}
	if e.waitlist == nil {
		e.waitlist = newWaitlist(e.settings.Load().FairShare())
		e.m.Use(&e.waitlist.queue)
	}
	w = e.waitlist.waiter(n)
	w.Beyond = q == beyond
	if byFlow {
		w.SetFlow(flow)
	}
	e.m.Enqueue(now, w)
	return w, l
}

// await blocks until the wait of w has ended, ctx is done or the source has ended. A cancellation
// that finds w in the queue wins.
//
// A releases while B cancels: both decide under the mutex. If A is first, B is granted and its
// cancellation finds nothing to cancel; B then sees that its context is done and refunds the
// grant. If B is first, A does not find it in the queue. So the permits are B's or the next
// waiter's, and never lost.
func (e *engine) await(ctx context.Context, w *waiter, s *wait.Source) (Lease, error) {
	ended := false
	defer func() {
		if !ended { // the context has panicked, or ended the goroutine
			e.abandon(w)
		}
	}()
	wait.Waits(ctx)
	w.Value.Join(s)
	decided := false
	if done := ctx.Done(); done == nil {
		decided = <-w.Value.Ready // a select costs more
	} else {
		select {
		case decided = <-w.Value.Ready:
		case <-done:
		}
	}
	if !decided {
		if err := whyEnded(ctx, s); e.cancel(w) {
			ended = true
			recycle(w)
			return Fail(err), err
		}
		w.Value.receive()
	}
	// A caller that canceled before the grant must not receive it, and it is not known here which
	// came first. A done ctx therefore wins, and the grant is undone as if it had never been made.
	w.Value.received = true
	err := whyEnded(ctx, s)
	ended = true
	l, got := w.Value.lease, w.Answer.Outcome == machine.Granted
	recycle(w)
	switch {
	case !got:
		return l.asError()
	case err != nil:
		l.Refund()
		return Fail(err), err
	}
	e.woken.Add(1)
	return l, nil
}

// whyEnded returns the error of ctx, or context.Canceled if the source has ended, or nil.
func whyEnded(ctx context.Context, s *wait.Source) error {
	err := ctx.Err()
	if err == nil && s.Cause() != nil {
		err = context.Canceled
	}
	return err
}

// abandon takes w out of the queue, or refunds its grant.
func (e *engine) abandon(w *waiter) {
	if !w.Value.received && !e.cancel(w) {
		w.Value.receive()
	}
	w.Value.lease.Refund()
	recycle(w)
}

// cancel takes w out of the queue and serves the waiters that it held up. It returns false if
// the wait of w had already ended.
func (e *engine) cancel(w *waiter) bool {
	now := e.lockAndServe()
	canceled := e.m.Cancel(now, w)
	e.unlockAndWake(now)
	return canceled
}

// timeLeft returns the nanoseconds until the deadline of ctx, or Never if there is none or the
// limiter does not look at it. For a deadline by the wall clock it returns the duration that the timers
// of package context use. No lock is held: the context may be of a user's type.
func (e *engine) timeLeft(ctx context.Context) int64 {
	if e.settings.Load().Timed() {
		if d, ok := ctx.Deadline(); ok {
			return int64(time.Until(d))
		}
	}
	return machine.Never
}
