package core

import "context"

// TryAcquire takes permits if they can be had now. It never blocks. While somebody waits,
// a limiter that serves the oldest first rejects it, even if the permits are there.
func (e *engine) TryAcquire(permits int) Lease {
	l, answered := e.grab(permits)
	if !answered {
		return e.tryAcquireSlow(permits)
	}
	if !l.Acquired() {
		e.rejected.Add(1)
	}
	return l
}

func (e *engine) tryAcquireSlow(n int) Lease {
	if n < 0 {
		return e.refuse(negative)
	}
	if e.cell.Load() == nil {
		return e.refuse(closed)
	}
	now := e.lock()
	l, answered := e.answer(now, n)
	if !answered {
		l = e.reject(now, n, exhausted, e.due(now, n))
	}
	e.unlock(now)
	return l
}

// tryQuietly is TryAcquire that leaves no trace if it does not grant.
func (e *engine) tryQuietly(n int) (Lease, bool) {
	if l, answered := e.grab(n); answered {
		return l, l.Acquired()
	}
	c := e.cell.Load()
	if n < 0 || c == nil {
		return Lease{}, false
	}
	if w := c.word.Load(); e.held && w&shut == 0 && uint64(n) > w&maxCredit {
		return Lease{}, false // the word is open, so nothing is to be had behind it
	}
	now := e.lock()
	l, _ := e.answer(now, n)
	e.unlock(now)
	return l, l.Acquired()
}

// Acquire takes permits, waiting for them if it must and the queue limit allows. A done
// ctx, then or later, ends it with ctx.Err(), unchanged, and leaves nothing taken. A rate
// limiter rejects at once if the wait would outlast ctx's deadline.
func (e *engine) Acquire(ctx context.Context, permits int) (Lease, error) {
	if permits < 0 {
		return e.refuse(negative), ErrNegativePermits
	}
	if err := ctx.Err(); err != nil {
		return e.broken(err)
	}
	if l, _ := e.grab(permits); l.Acquired() {
		return l, nil
	}
	return e.acquireSlow(ctx, permits)
}

func (e *engine) acquireSlow(ctx context.Context, n int) (Lease, error) {
	if e.cell.Load() == nil {
		return e.refuse(closed), ErrClosed
	}
	deadline := int64(never)
	if d, ok := ctx.Deadline(); ok {
		deadline = int64(d.Sub(e.base))
	}
	now := e.lock()
	l, answered := e.answer(now, n)
	var w *waiter
	if !answered {
		w, l = e.enqueue(now, n, deadline)
	}
	e.unlock(now)
	if w != nil {
		return e.await(ctx, w)
	}
	return l.refusal()
}

// answer decides what does not need to wait: a grant, or a refusal for good.
func (e *engine) answer(now int64, n int) (Lease, bool) {
	c := e.cell.Load()
	switch {
	case e.closed:
		return e.refuse(closed), true
	case n > c.limit:
		return e.exceeds(n), true
	case max(n, 1) > e.acct.available():
		return Lease{}, false
	case n > 0 && e.queue != nil && e.queue.oldest != nil && c.order == OldestFirst:
		return Lease{}, false // no overtaking
	}
	return e.grant(now, n, false), true
}

// enqueue returns a waiter for n permits, or the rejection if there is no room, or no
// hope to be served before the deadline.
func (e *engine) enqueue(now int64, n int, deadline int64) (*waiter, Lease) {
	c := e.cell.Load()
	room := c.queueLimit
	if q := e.queue; q != nil && c.order == OldestFirst {
		room -= q.permits // below 0 after an Update
	}
	if n > 0 && n > room {
		return nil, e.reject(now, n, queueFull, e.due(now, n))
	}
	if deadline != never && e.timed() {
		if due := e.due(now, n); due > deadline {
			return nil, e.reject(now, n, tooSoon, due)
		}
	}
	if e.queue == nil {
		e.queue = newQueue()
	}
	q := e.queue
	if n > 0 {
		for q.oldest != nil && n > c.queueLimit-q.permits {
			old := q.oldest
			e.decide(old, e.reject(now, old.n, evicted, e.acct.ready(now, old.n)))
		}
	}
	w := q.waiter(n)
	q.push(w)
	if q.plan != nil && n > 0 {
		q.extendPlan(w)
	}
	return w, Lease{}
}

// await blocks until the waiter's outcome is decided or ctx is done.
func (e *engine) await(ctx context.Context, w *waiter) (Lease, error) {
	if done := ctx.Done(); done == nil {
		<-w.ready // a select costs more
	} else {
		select {
		case <-w.ready:
		case <-done:
			if e.cancel(w) {
				w.recycle()
				return e.broken(ended(ctx))
			}
			<-w.ready
		}
	}
	l := w.lease
	w.recycle()
	if l.Acquired() {
		// Both may have happened by the time this goroutine runs. Who cancelled before the
		// grant must not be told of it, and which came first is not known here; so a done
		// ctx wins, and the grant is undone as if it had never been.
		if err := ctx.Err(); err != nil {
			e.forget(l)
			return e.broken(err)
		}
		return l, nil
	}
	return l.refusal()
}

// cancel takes w out of the queue and serves whom it held up. It reports false if the
// outcome had been decided: of a grant and a cancellation the first to hold the mutex wins.
func (e *engine) cancel(w *waiter) bool {
	now := e.lock()
	queued := w.queued
	if queued {
		q := w.q
		q.remove(w)
		if w.n > 0 {
			q.plan = nil
		}
		e.dropQueue()
	}
	e.unlock(now)
	return queued
}

// undo gives back a grant that nobody has seen.
func (e *engine) undo(l Lease) {
	if o := l.outcome(); o < spent || o > spentBucket {
		l.Release()
		return
	}
	now := e.lock()
	e.giveLocked(now, l)
	e.unlock(now)
}

// forget is undo as if the grant had never been.
func (e *engine) forget(l Lease) {
	e.undo(l)
	e.adjust.Add(-1)
}

// certain, runsForeign and refundable: see own.
func (e *engine) certain()          {}
func (e *engine) runsForeign() bool { return false }
func (e *engine) refundable() bool  { return !e.held }

// broken returns the refusal for a context that is done.
func (e *engine) broken(err error) (Lease, error) {
	l := e.refuse(failed)
	l.c = newExtra(extra{err: err}, l.c)
	return l, err
}

// due returns the instant at which n permits, asked for now, could be served if nothing
// else came: after the queue ahead, or for a probe as soon as a permit is left over.
func (e *engine) due(now int64, n int) int64 {
	q, order := e.queue, e.cell.Load().order
	switch {
	case !e.timed():
		return never
	case q == nil || q.oldest == nil:
		return e.acct.ready(now, max(n, 1))
	case n == 0:
		return e.probeDue(now, order)
	case order == NewestFirst:
		return e.acct.ready(now, n)
	}
	if q.plan == nil {
		q.plan, q.planned = e.acct.clone(), now
		for w := q.oldest; w != nil; w = w.next {
			q.extendPlan(w)
		}
	}
	return q.planFor(n)
}

// planFor returns the instant at which n permits can be served behind all in the plan.
func (q *queue) planFor(n int) int64 {
	if q.planned == never {
		return never
	}
	return q.plan.ready(q.planned, n)
}

// extendPlan plays the serving of w, the next in the plan.
func (q *queue) extendPlan(w *waiter) {
	w.due = q.planFor(w.n)
	if q.planned = w.due; w.due != never {
		q.plan.advance(w.due)
		q.plan.take(w.due, w.n, true)
	}
}

// probeDue plays the serving of the queue until a permit is left over.
func (e *engine) probeDue(now int64, order QueueOrder) int64 {
	future, w := e.acct.clone(), e.queue.head(order)
	for t := now; ; {
		for w != nil && w.n <= future.available() {
			future.take(t, w.n, true)
			w = w.after(order)
		}
		if t == never || future.available() > 0 {
			return t
		}
		if t = future.ready(t, 1); t != never {
			future.advance(t)
		}
	}
}
