package core

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/machine"
	"github.com/sluice-go/sluice/internal/wait"
)

// TryAcquire takes permits if they are available now. It never blocks. If the limiter serves
// the oldest first, TryAcquire is rejected while another request waits, even if the permits are
// available.
func (e *engine) TryAcquire(permits int) Lease {
	if k, decided := e.try(permits, false); decided {
		return k
	}
	return e.tryAcquireSlow(permits)
}

// TryQuietly is TryAcquire that leaves no trace if it does not grant: see [TryQuietly].
func (e *engine) TryQuietly(permits int) (Lease, bool) {
	if k, decided := e.try(permits, true); decided {
		return k, k.Acquired()
	}
	return e.tryQuietlySlow(permits)
}

// Acquire takes permits, waiting for them if necessary and if the queue has room. If ctx is
// done, before or during the wait, Acquire returns ctx.Err(), unchanged, and keeps no permits.
// A rate limiter that replenishes automatically rejects at once a request whose wait would outlast ctx's
// deadline, with an error that also matches [context.DeadlineExceeded].
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
	return e.acquireUnder(ctx, n, nil, q)
}

// try decides a request that depends on what is available alone; decided is false for others. A quiet
// one leaves no trace if it does not grant.
func (e *engine) try(n int, quiet bool) (k Lease, decided bool) {
	e.mu.Lock()
	s := e.simpleLocked(n)
	if s == nil {
		e.mu.Unlock()
		return Lease{}, false
	}
	now := int64(0)
	if s.Kind != machine.Concurrency {
		now = e.nowLocked(s)
		if s.Calendar != nil && now >= s.End() {
			e.rollLocked(now)
			s = e.settings.Load()
		}
	}
	left, fullAt, readyAt, ok := e.m.Account().Try(&s.Terms, now, n)
	if ok {
		e.granted++
		if s.Kind == machine.Concurrency {
			k = e.permits().holdLocked(e, s, n, left)
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

// simpleLocked returns the settings if a request for n permits is decided by what is available
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

// decision makes the lease of such a request, after the mutex is free. Settle knows a window by the instant of
// the grant, which may be before it if a calendar's clock was set back.
func (s *settings) decision(now int64, n, left int, fullAt, readyAt int64, ok bool) Lease {
	o, at := granted, max(now, s.From)
	if !ok {
		o, at = exhausted, max(readyAt-now, 1)
	}
	if b, fits := pack(n, left); fits { // saves a call (bench: bucket, windows)
		return Lease{h: &s.shared, bits: uint64(o) | b, reset: until(fullAt, now), at: at}
	}
	return wideLease(&s.shared, o, n, left, until(fullAt, now), at)
}

// The machine decides all other requests.

func (e *engine) tryAcquireSlow(n int) (l Lease) {
	if n < 0 {
		return e.failure(negative, 0)
	}
	if e.settings.Load() == nil {
		return e.failure(closed, 0)
	}
	now := e.lock()
	if e.closed {
		l = e.failure(closed, 0)
	} else {
		l = e.answerLocked(e.m.Try(now, n), n)
	}
	e.unlock(now)
	return l
}

// tryQuietlySlow is tryAcquireSlow that leaves no trace if it does not grant.
func (e *engine) tryQuietlySlow(n int) (l Lease, ok bool) {
	if n < 0 || e.settings.Load() == nil {
		return Lease{}, false
	}
	now := e.lock()
	if !e.closed {
		var a machine.Answer
		if a, ok = e.m.TryQuietly(now, n); ok {
			l = e.answerLocked(a, n)
		}
	}
	e.unlock(now)
	return l, ok
}

// queueing says how a request may wait.
type queueing bool

const (
	bounded queueing = false // as far as QueueLimit permits
	beyond  queueing = true  // whatever QueueLimit is: see waiting.go
)

// acquireUnder is Acquire, whose wait ends with a source too, which may be nil.
func (e *engine) acquireUnder(ctx context.Context, n int, s *wait.Source, q queueing) (Lease, error) {
	if n < 0 {
		return e.failure(negative, 0), ErrNegativePermits
	}
	if err := ctx.Err(); err != nil {
		return Fail(err), err
	}
	if e.settings.Load() == nil {
		return e.failure(closed, 0), ErrClosed
	}
	w, l := e.admit(ctx, n, q)
	switch {
	case w != nil:
		return e.await(ctx, w, s)
	case l.Acquired():
		return l, nil
	}
	return l.refusal()
}

// admit returns a waiter for n permits, or the lease if there is nothing to wait for.
func (e *engine) admit(ctx context.Context, n int, q queueing) (w *waiter, l Lease) {
	left := e.timeLeft(ctx)
	now, flow := e.lock(), fair.Flow{}
	byFlow := e.m.LooksAtFlow(n) && !e.closed
	if byFlow {
		e.unlock(now)
		f, _ := FlowFromContext(ctx)
		flow, left = fair.Flow(f), e.timeLeft(ctx)
		now = e.lock()
	}
	defer e.unlock(now)
	if e.closed {
		return nil, e.failure(closed, 0)
	}
	deadline := int64(machine.Never)
	if left < machine.Never-max(now, 0) { // now is below 0 if a calendar's clock was set back
		deadline = now + left
	}
	var a machine.Answer
	if q == beyond {
		a = e.m.AdmitBeyond(now, n, deadline, flow)
	} else {
		a = e.m.Admit(now, n, deadline, flow)
	}
	switch {
	case a.Outcome != machine.Waiting:
		return nil, e.answerLocked(a, n)
	case e.room == nil:
		e.room = &room{alarm: machine.Never}
	}
	w = e.room.waiter(n)
	w.Beyond = q == beyond
	if byFlow {
		w.SetFlow(flow)
	}
	e.m.Wait(now, w)
	return w, l
}

// await blocks until the wait of w has ended, ctx is done or the source has ended. A cancellation
// that finds w in the queue wins.
//
// A releases while B cancels: both decide under the mutex. If A is first, B is granted and its
// cancellation finds nothing to cancel; B then sees that its context is done and gives the grant
// back. If B is first, A does not find it in the queue. So the permits are B's or the next
// waiter's, and never lost.
func (e *engine) await(ctx context.Context, w *waiter, s *wait.Source) (Lease, error) { //nolint:contextcheck // it is ctx, until the source ends
	ended := false
	defer func() {
		if !ended { // the context has panicked, or ended the goroutine
			e.abandon(w)
		}
	}()
	if s != nil {
		call := s.Begin(ctx)
		defer call.End()
		ctx = call
	}
	if done := ctx.Done(); done == nil {
		<-w.Value.ready // a select costs more
	} else {
		select {
		case <-w.Value.ready:
		case <-done:
			if err := ctx.Err(); e.cancel(w) {
				ended = true
				recycle(w)
				return Fail(err), err
			}
			<-w.Value.ready
		}
	}
	// A caller that cancelled before the grant must not receive it, and it is not known here which
	// came first. A done ctx therefore wins, and the grant is undone as if it had never been made.
	w.Value.woken = true
	err := ctx.Err()
	ended = true
	l, granted := w.Value.lease, w.Answer.Outcome == machine.Granted
	recycle(w)
	switch {
	case !granted:
		return l.refusal()
	case err != nil:
		e.Refund(l)
		return Fail(err), err
	}
	e.woken.Add(1)
	return l, nil
}

// abandon takes w out of the queue, or gives back what it was granted.
func (e *engine) abandon(w *waiter) {
	if !w.Value.woken && !e.cancel(w) {
		<-w.Value.ready
	}
	e.Refund(w.Value.lease)
	recycle(w)
}

// cancel takes w out of the queue and serves the waiters that it held up. It returns false if
// the wait of w had already ended.
func (e *engine) cancel(w *waiter) bool {
	now := e.lock()
	canceled := e.m.Cancel(now, w)
	e.unlock(now)
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
