package core

import (
	"context"

	"github.com/sluice-go/sluice/internal/machine"
)

// The way under the mutex, for what no swap can do.

func (e *engine) tryAcquireSlow(n int) Lease {
	if n < 0 {
		return e.refuse(negative)
	}
	if e.cell.Load() == nil {
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

// answered returns the lease of an answer to a request that does not wait.
func (e *engine) answered(a machine.Answer, n int) Lease {
	switch a.Outcome {
	case machine.Granted:
		return e.grant(a, n, false)
	case machine.ExceedsLimit:
		return e.exceeds(n)
	}
	return e.reject(a, n)
}

// tryQuietlySlow is tryAcquireSlow that leaves no trace if it does not grant.
func (e *engine) tryQuietlySlow(n int) (l Lease, ok bool) {
	c := e.cell.Load()
	if n < 0 || c == nil {
		return Lease{}, false
	}
	if w := c.word.Load(); c.Kind == machine.Concurrency && w&shut == 0 && uint64(n) > w&heldMask && c.Limit <= maxHeld {
		return Lease{}, false // the word is open, so nothing is to be had behind it
	}
	now := e.lock()
	if !e.closed {
		var a machine.Answer
		if a, ok = e.m.TryQuietly(now, n); ok {
			l = e.grant(a, n, false)
		}
	}
	e.unlock(now)
	return l, ok
}

func (e *engine) acquireSlow(ctx context.Context, n int) (Lease, error) {
	w, l := e.admit(ctx, n, false)
	switch {
	case w != nil:
		return e.await(ctx, w)
	case l.Acquired():
		return l, nil
	}
	return l.refusal()
}

// admit returns a waiter for n permits, or the lease if there is nothing to wait for. With
// plain, a grant comes without a lease: the one returned says no more than that.
func (e *engine) admit(ctx context.Context, n int, plain bool) (w *waiter, l Lease) {
	if n < 0 {
		return nil, e.refuse(negative)
	}
	if err := ctx.Err(); err != nil {
		l, _ = e.broken(err)
		return nil, l
	}
	c := e.cell.Load()
	if c == nil {
		return nil, e.refuse(closed)
	}
	left := int64(machine.Never)
	if c.Kind != machine.Concurrency {
		left = timeLeft(ctx) // before the lock: the context may be somebody's own
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
	case a.Outcome == machine.Granted && plain:
		e.granted.Add(1)
		return nil, Lease{bits: uint64(free)}
	case a.Outcome != machine.Waiting:
		return nil, e.answered(a, n)
	case e.room == nil:
		e.room = &room{alarm: machine.Never}
	}
	w = e.room.waiter(n)
	w.Value.plain, w.Value.sentry = plain, e.room.sentry
	e.m.Wait(w)
	return w, l
}
