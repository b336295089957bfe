package worker

import (
	"context"
	"runtime"

	"github.com/sluice-go/sluice/core"
)

// Submit gives the pool a task. It returns nil once the task is admitted, that is, has its
// lease, or is queued, and waits till then: without a queue in the limiter's queue, after
// a worker is free for it; with one for room in it. If the limiter refuses to queue it, its
// *[core.RejectedError] comes back: a limiter whose Submit calls are to wait needs a
// QueueLimit.
//
// A done ctx, then or later, ends it with ctx.Err(), unchanged, even if permits are free,
// and the task never runs. After Close, or when it comes while Submit waits, the error is
// [ErrClosed]; a closed limiter's is [core.ErrClosed]. A nil task is an error.
func (p *Pool) Submit(ctx context.Context, t Task) error { return p.SubmitN(ctx, 1, t) }

// SubmitN is Submit for a task whose lease is of so many permits. Negative permits are
// refused with [core.ErrNegativePermits], more than the limiter's limit with
// [core.ErrPermitsExceedLimit], at once. Zero permits take nothing, and are granted when
// at least one permit is available.
func (p *Pool) SubmitN(ctx context.Context, permits int, t Task) error {
	return p.submit(ctx, entry{task: t, permits: permits}, waits)
}

// TrySubmit gives the pool a task if it can be admitted, or queued, now. It never blocks.
// If not, the error is a *[core.RejectedError]: the limiter's own, or one whose reason is
// "all workers busy" or "queue limit reached". After Close it is [ErrClosed].
func (p *Pool) TrySubmit(t Task) error {
	return p.submit(p.ctx, entry{task: t, permits: 1}, tries)
}

// giveWays is how often a Submit that finds no room gives way to others before it parks.
const giveWays = 32

// patience is what a submission does when it cannot be admitted or queued now.
type patience uint8

const (
	tries    patience = iota // it is rejected
	waits                    // it waits, as far as the limiter lets it
	persists                 // it waits, even if the limiter lets nobody wait
)

func (p *Pool) submit(ctx context.Context, e entry, how patience) error {
	if p.queue > 0 && e.task != nil && uint(e.permits) <= uint(p.limit.Load()) && (how == tries || ctx.Err() == nil) {
		// The common case while work flows: the queue is neither empty nor full.
		p.mu.Lock()
		if room := p.queue - p.queued - p.room; room > 0 && p.queued > 0 && !p.closed.Load() {
			p.pushLocked(&e)
			p.unlockAndSearch()
			return nil
		}
		p.mu.Unlock()
	}
	return p.submitSlow(ctx, e, how)
}

// submitSlow is submit in all cases, the checks in their order.
func (p *Pool) submitSlow(ctx context.Context, e entry, how patience) error {
	switch {
	case e.task == nil:
		return errNilTask
	case e.permits < 0:
		return core.ErrNegativePermits
	case how != tries && ctx.Err() != nil:
		return ctx.Err()
	case p.limiter == nil || p.closed.Load():
		return ErrClosed
	}
	a := admitted{entry: e}
	if int64(e.permits) > p.limit.Load() {
		// Who could never be served is told now, and not after having waited for others.
		if err := p.takeNow(&a); err != nil {
			return err
		}
	}
	if p.queue > 0 {
		return p.submitToQueue(ctx, a, how)
	}
	return p.submitAdmitted(ctx, a, how)
}

// submitAdmitted is submit without a queue: the lease comes first.
func (p *Pool) submitAdmitted(ctx context.Context, a admitted, how patience) error {
	if err := p.reserve(ctx, &a, how); err != nil {
		p.undo(a.lease)
		return err
	}
	var err error
	if !a.lease.Acquired() {
		a.lease, err = p.acquire(ctx, a.permits, how)
	}
	p.mu.Lock()
	if p.most > 0 {
		p.reserved--
	}
	if err == nil && p.closed.Load() {
		err = ErrClosed
	}
	if err != nil {
		p.grantLocked()
		p.mu.Unlock()
		p.undo(a.lease)
		return err
	}
	p.startLocked(&a)
	p.unlockAndSearch()
	return nil
}

// reserve reserves a worker, if their number is bounded. The lease comes after it: one
// that waits for a worker would only keep others from its permits.
func (p *Pool) reserve(ctx context.Context, a *admitted, how patience) error {
	if p.most == 0 {
		return nil
	}
	p.mu.Lock()
	switch {
	case p.closed.Load():
		p.mu.Unlock()
		return ErrClosed
	case p.blocked.first == nil && p.freeLocked():
		p.reserved++
		p.mu.Unlock()
		return nil
	case how == tries:
		p.mu.Unlock()
		return &core.RejectedError{Permits: a.permits, Reason: "all workers busy"}
	}
	return p.block(ctx)
}

// submitToQueue is submit with a queue: the task gets its lease now if nobody waits for
// one; else it is queued, and a worker acquires it.
func (p *Pool) submitToQueue(ctx context.Context, a admitted, how patience) error {
	p.mu.Lock()
	if !p.closed.Load() && (a.lease.Acquired() || p.queued+p.room == 0 && p.freeLocked() && p.hopefulLocked(a.permits)) {
		p.reserved++
		p.held += a.weight() // so that no worker counts on the same permits
		p.mu.Unlock()
		err := p.takeNow(&a)
		p.mu.Lock()
		p.reserved--
		p.held -= a.weight()
		if a.lease.Acquired() && !p.closed.Load() {
			p.startLocked(&a)
			p.unlockAndSearch()
			return nil
		}
		if err == nil && p.closed.Load() {
			err = ErrClosed
		}
		if err != nil {
			p.unlockAndSearch() // for whom the reservation held up
			p.undo(a.lease)
			return err
		}
	}
	if how != tries {
		p.giveWayLocked(func() bool { return p.queued+p.room <= p.queue/2 })
	}
	switch err := ctx.Err(); {
	case p.closed.Load():
		p.mu.Unlock()
		p.undo(a.lease)
		return ErrClosed
	case how != tries && err != nil:
		p.unlockAndSearch()
		return err
	case p.queued+p.room < p.queue:
	case how == tries:
		p.unlockAndSearch()
		return &core.RejectedError{Permits: a.permits, Reason: "queue limit reached"}
	default:
		if err := p.block(ctx); err != nil {
			return err
		}
		p.mu.Lock()
		p.room--
		if p.closed.Load() {
			p.unlockAndSearch()
			return ErrClosed
		}
	}
	p.pushLocked(&a.entry)
	p.unlockAndSearch()
	return nil
}

// pushLocked queues a task.
func (p *Pool) pushLocked(e *entry) {
	p.queued++
	if e.call != nil {
		e.call.queued = true
	}
	p.waiting.push(*e)
}

// giveWayLocked lets the workers run for a moment, if the queue or the limiter is full: a
// Submit that parked and was woken for each task that ends would cost more than the task.
// The mutex is held before and after, not in between.
func (p *Pool) giveWayLocked(enough func() bool) {
	full := p.queue > 0 && p.queued+p.room >= p.queue ||
		p.queue == 0 && p.held >= p.limit.Load() && !p.careful()
	for i := 0; full && i < giveWays && p.blocked.first == nil && !enough(); i++ {
		p.unlockAndSearch()
		runtime.Gosched()
		p.mu.Lock()
	}
}

// block waits for a worker or for room in the queue, which it then has reserved. The
// mutex is held before, not after.
func (p *Pool) block(ctx context.Context) error {
	w := p.blocked.add()
	p.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err := ctx.Err()
	switch {
	case !w.woken:
		p.blocked.remove(w)
		return err
	case !w.granted:
		if err != nil {
			return err
		}
		return ErrClosed
	case err != nil:
		// A done ctx wins, whichever came first: the task must not run.
		if p.queue > 0 {
			p.room--
		} else {
			p.reserved--
		}
		p.grantLocked()
		return err
	}
	return nil
}

// grantLocked lets the Submit calls that are blocked go on, as far as there is room.
func (p *Pool) grantLocked() {
	for w := p.blocked.first; w != nil && !p.closed.Load(); w = p.blocked.first {
		switch {
		case p.queue > 0 && p.queued+p.room < p.queue:
			p.room++
		case p.queue == 0 && p.freeLocked():
			p.reserved++
		default:
			return
		}
		w.granted = true
		p.blocked.wake(w)
	}
}

// freeLocked reports whether a worker is free, or can be started, for one more task.
func (p *Pool) freeLocked() bool { return p.most == 0 || p.running+p.reserved < p.most }

// startLocked hands a task that has its lease to the workers.
func (p *Pool) startLocked(a *admitted) {
	p.running++
	p.held += a.weight()
	p.ready.push(*a)
}

// unlockAndSearch lets go of the mutex, and starts a worker if there is work that no
// worker would find.
func (p *Pool) unlockAndSearch() {
	start := !p.searching && p.searchLocked()
	p.mu.Unlock()
	if start {
		go p.begin()
	}
}

// searchLocked, while nobody searches, reports whether the caller has to start a worker
// once the mutex is free.
func (p *Pool) searchLocked() bool {
	if p.most > 0 && p.workers >= p.most {
		return false
	}
	if p.ready.n == 0 && (p.leading || p.queued == 0 || !p.freeLocked()) {
		return false
	}
	p.searching = true
	p.workers++
	return true
}
