package core

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/machine"
	"github.com/sluice-go/sluice/internal/wait"
)

// Requests of this module's own primitives, such as a channel's Send, wait whatever QueueLimit is, as
// sending to a channel of Go does: QueueLimit is for servers, which bound the callers of Acquire. Such a
// request takes no room in the queue from others, and newer requests do not evict it.

// waitingLimiter is a limiter of this package that can be asked to wait whatever QueueLimit is.
type waitingLimiter interface {
	Limiter
	acquireWaiting(ctx context.Context, permits int) (Lease, error)
}

// acquireWaiting is l.Acquire, but the request waits in the queues of this package's limiters whatever their
// QueueLimit is: those of l, or those that l asks as a chain or a view. Any other limiter is asked by its
// Acquire. The answer is in valid form: see checkedAnswer.
func acquireWaiting(ctx context.Context, l Limiter, permits int) (Lease, error) {
	var k Lease
	var err error
	switch w := l.(type) {
	case waitingLimiter:
		if !embeds(l) {
			return w.acquireWaiting(ctx, permits)
		}
		k, err = l.Acquire(ctx, permits)
	case backdoor.Waiter[Lease]:
		k, err = w.AcquireWaiting(ctx, permits)
	default:
		if acquire := backdoor.WaiterOf[Lease](l); acquire != nil {
			return acquire(ctx, l, permits)
		}
		k, err = l.Acquire(ctx, permits)
	}
	return checkedAnswer(k, err)
}

func (c *ChainedLimiter) acquireWaiting(ctx context.Context, permits int) (Lease, error) {
	return c.acquireAll(ctx, permits, beyond)
}

func (r *reasoned) acquireWaiting(ctx context.Context, permits int) (Lease, error) {
	l, err := acquireWaiting(ctx, r.Limiter, permits)
	return r.explained(ctx, l, err)
}

// trySlow decides the requests that try does not decide: it asks the machine.
func (e *engine) trySlow(n int, quiet bool) (l Lease) {
	switch {
	case n < 0:
		return e.failure(negative, 0)
	case e.settings.Load() == nil:
		return e.failure(closed, 0)
	}
	now := e.lockAndServe()
	switch {
	case e.closed:
		l = e.failure(closed, 0)
	case !quiet:
		l = e.answerLocked(e.m.Try(now, n), n)
	default:
		if a, ok := e.m.TryQuietly(now, n); ok {
			l = e.answerLocked(a, n)
		}
	}
	e.unlockAndWake(now)
	return l
}

// queueing says how a request may wait.
type queueing bool

const (
	bounded queueing = false // as far as QueueLimit permits
	beyond  queueing = true  // whatever QueueLimit is: see waiting.go
)

// endable is a limiter of this package in which a source can end the wait without a context for it.
type endable interface {
	// acquireUnder is Acquire, whose wait ends with a source too, which may be nil: its error then is that of ctx, or
	// context.Canceled. It also reports whether the request has waited.
	acquireUnder(ctx context.Context, permits int, s *wait.Source, q queueing) (l Lease, waited bool, err error)
}

// endableOf returns the limiter if it is endable, or nil.
func endableOf(l Limiter) endable {
	if k, ok := l.(interface{ endable() endable }); ok && !embeds(l) {
		return k.endable()
	}
	return nil
}

func (e *engine) endable() endable { return e }

func (r *reasoned) endable() endable {
	if endableOf(r.Limiter) == nil {
		return nil
	}
	return r
}

func (r *reasoned) acquireUnder(ctx context.Context, permits int, s *wait.Source, q queueing) (Lease, bool, error) {
	l, waited, err := endableOf(r.Limiter).acquireUnder(ctx, permits, s, q)
	l, err = r.explained(ctx, l, err)
	return l, waited, err
}

func (e *engine) acquireUnder(ctx context.Context, n int, s *wait.Source, q queueing) (l Lease, waited bool, err error) {
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
		e.waitlist = newWaitlist()
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

// waitlist is where a limiter's callers wait. It exists only while one does: an idle limiter has no
// timer and no channel, and may be used in another synctest bubble. The engine's mutex guards it.
type waitlist struct {
	timer *time.Timer // nil until the first waiter whose instant is known
	alarm int64       // the instant that the timer is set to, or Never

	// Waiters for reuse. A caller that woke pushes its waiter onto returned, without the mutex. The
	// mutex's holder takes the whole stack, so the stack has no ABA problem.
	spare    *waiter
	returned atomic.Pointer[waiter]

	// Beside the rest, because a wait in an idle limiter may allocate no more than 4 objects (TestAllocationsOfAWait).
	first waiter
	queue machine.Queue[parked]
}

func newWaitlist() *waitlist {
	r := &waitlist{alarm: machine.Never}
	r.first.Value = newParked(r)
	r.spare = &r.first
	return r
}

// waiter is an Acquire that waits. Its wait ends under the mutex, when the machine takes it out of the queue:
//
//   - Grant: permits have come back, by a release, a refund, with time, or by an Update or a Reset.
//   - Close: the wait of every waiter ends.
//   - Update: the new limit is lower than the number of permits that it waits for.
//   - Eviction: a newer request takes its room in the queue.
//   - Cancellation: its own goroutine has found ctx done, and calls cancel.
//
// Unless it is canceled, the goroutine that holds the mutex makes its lease (concludeLocked) and, after it has
// released the mutex, sends to Ready (wake). Then await returns the lease.
type waiter = machine.Waiter[parked]

type parked struct {
	wait.Signal // its Ready has true once the wait has ended and lease is set

	waitlist *waitlist
	lease    Lease
	received bool // await has received true
}

func newParked(r *waitlist) parked {
	return parked{waitlist: r, Signal: wait.Signal{Ready: make(chan bool, 2)}}
}

// receive waits for the lease, whatever the source does.
func (p *parked) receive() {
	for !<-p.Ready {
	}
}

// waiter returns a new waiter for n permits.
func (r *waitlist) waiter(n int) *waiter {
	if r.spare == nil {
		r.spare = r.returned.Swap(nil)
	}
	w := r.spare
	if w == nil {
		w = &waiter{Value: newParked(r)}
	} else {
		r.spare = w.Next()
	}
	w.N = n
	return w
}

// recycle keeps w, which is no longer referenced, for another Acquire. If its source has ended, something may still
// come to its channel.
func recycle(w *waiter) {
	if !w.Value.Leave() {
		return
	}
	r := w.Value.waitlist
	w.Value.lease, w.Value.received = Lease{}, false
	for {
		top := r.returned.Load()
		w.SetNext(top)
		if r.returned.CompareAndSwap(top, w) {
			return
		}
	}
}

// leave stops the timer.
func (r *waitlist) leave() {
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
			w.SetNext(nil) // no goroutine waits for a reservation
		} else {
			w.Value.Ready <- true
		}
		w = next
	}
}

// setAlarmLocked sets the timer to the instant at which a waiter can be served.
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
