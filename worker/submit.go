package worker

import (
	"context"
	"errors"
	"runtime"

	"github.com/sluice-go/sluice/core"
)

// Submit gives the pool a task. It returns nil once the task is admitted, that is, has its
// lease, or is queued. Until then it waits: in a pool without a queue for a free worker, and
// then in the limiter's queue; else for room in the pool's. If the limiter refuses to queue it, its
// *[core.RejectedError] comes back: a limiter whose Submit calls are to wait needs a
// QueueLimit.
//
// A done ctx, then or later, ends it with ctx.Err(), unchanged, even if permits are free,
// and the task never runs. After Close, or when it comes while Submit waits, the error is
// [ErrClosed]; a closed limiter's is [core.ErrClosed]. A nil task is an error. Under
// Options.CancelOnError the error that cancelled the round is returned likewise.
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
func (p *Pool) TrySubmit(t Task) error { return p.TrySubmitN(1, t) }

// TrySubmitN is TrySubmit for a task whose lease is of so many permits, which are checked
// as by SubmitN.
func (p *Pool) TrySubmitN(permits int, t Task) error {
	return p.submit(p.background, entry{task: t, permits: permits}, tries)
}

// patience is what a submission does when it cannot be admitted or queued now.
type patience uint8

const (
	tries    patience = iota // it is rejected; no context is looked at
	waits                    // it waits, as far as the limiter lets it
	persists                 // it waits, even if the limiter lets nobody wait
)

func (p *Pool) submit(ctx context.Context, e entry, how patience) error {
	if p.queue > 0 && e.task != nil && uint(e.permits) <= 1 && (how == tries || ctx.Err() == nil) {
		// The common case while work flows: the queue is neither empty nor full.
		p.mu.Lock()
		if p.waitingLocked() > 0 && p.roomLocked() && p.refusalLocked() == nil {
			p.pushLocked(&e)
			p.unlockAndScout()
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
	case p.limiter == nil:
		return ErrClosed
	}
	if p.round.Load().admission.Cause() != nil {
		p.mu.Lock()
		err := p.refusalLocked()
		p.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if e.permits > 1 && e.permits > p.limit() {
		// It is told now, and not after having waited for others. If the limit was raised just
		// now, it is a task like others.
		l := p.limiter.TryAcquire(e.permits)
		if err := l.Err(); err == nil {
			p.refund(&admitted{entry: e, lease: l})
		} else if !errors.Is(err, core.ErrRejected) {
			return err
		}
	}
	if p.queue > 0 {
		return p.submitToQueue(ctx, e, how)
	}
	return p.submitAdmitted(ctx, e, how)
}

// submitAdmitted is submit without a queue: the task gets its lease first. That comes after
// a worker's place, as a lease that waited for one would only keep others from its permits.
func (p *Pool) submitAdmitted(ctx context.Context, e entry, how patience) error {
	if err := p.reserve(ctx, &e, how); err != nil {
		return err
	}
	lease, err := p.admit(ctx, e.permits, how)
	if err != nil {
		return err
	}
	a := admitted{entry: e, lease: lease}
	p.mu.Lock()
	if err := p.refusalLocked(); err != nil {
		p.vacateLocked()
		p.mu.Unlock()
		p.refund(&a)
		return err
	}
	if p.most > 0 {
		p.reserved--
	}
	p.startLocked(&a)
	p.unlockAndScout()
	return nil
}

// reserve reserves a worker's place, if their number is bounded.
func (p *Pool) reserve(ctx context.Context, e *entry, how patience) error {
	if p.most == 0 {
		return nil
	}
	for gaveWay := false; ; gaveWay = true {
		p.mu.Lock()
		err := p.refusalLocked()
		switch {
		case err != nil:
		case p.blocked.first == nil && p.freeLocked():
			p.reserved++
		case how == tries:
			err = &core.RejectedError{Permits: e.permits, Reason: "all workers busy"}
		case gaveWay || p.blocked.first != nil:
			return p.block(ctx)
		default:
			p.mu.Unlock()
			p.giveWay()
			continue
		}
		p.mu.Unlock()
		return err
	}
}

// vacateLocked gives a worker's place up.
func (p *Pool) vacateLocked() {
	if p.most > 0 {
		p.reserved--
		p.grantLocked()
	}
}

// admit gets the task of a Submit call its lease. If there is none, the worker's place that
// was reserved for it is free again.
func (p *Pool) admit(ctx context.Context, n int, how patience) (l core.Lease, err error) {
	if p.tryPlain(n) {
		return l, nil
	}
	held := false
	defer func() { // the limiter may panic, too
		if !held {
			p.mu.Lock()
			p.vacateLocked()
			p.mu.Unlock()
		}
	}()
	l, err = p.admitSlow(ctx, n, how)
	held = err == nil
	return l, err
}

func (p *Pool) admitSlow(ctx context.Context, n int, how patience) (core.Lease, error) {
	if how == tries {
		return p.demand(n)
	}
	for gaveWay := false; !p.rated; gaveWay = true {
		if l, ok, err := p.try(n); ok || err != nil {
			return l, err
		}
		if gaveWay {
			break
		}
		p.giveWay()
		if err := ctx.Err(); err != nil {
			return core.Lease{}, err
		}
	}
	return p.acquire(ctx, p.round.Load(), n, how)
}

// submitToQueue is submit with a queue: the task gets its lease now if nobody waits for
// one; else it is queued, and a worker acquires it.
func (p *Pool) submitToQueue(ctx context.Context, e entry, how patience) error {
	tried, gaveWay := false, false
	for {
		if how != tries && ctx.Err() != nil {
			return ctx.Err()
		}
		p.mu.Lock()
		err := p.refusalLocked()
		switch {
		case err != nil:
		case !tried && !p.asked.now() && p.waitingLocked()+p.promised == 0 && p.freeLocked():
			tried = true
			if started, err := p.startNow(&e); started || err != nil {
				return err
			}
			continue
		case p.roomLocked():
			p.pushLocked(&e)
		case how == tries:
			err = &core.RejectedError{Permits: e.permits, Reason: "queue limit reached", Detail: "queue is full"}
		case gaveWay || p.blocked.first != nil:
			if err := p.block(ctx); err != nil {
				return err
			}
			p.mu.Lock()
			p.promised--
			if err = p.refusalLocked(); err == nil {
				p.pushLocked(&e)
			}
		default:
			p.mu.Unlock()
			p.giveWay()
			gaveWay = true
			continue
		}
		p.unlockAndScout()
		return err
	}
}

// startNow starts the task if it can have its lease now. The mutex is held before, not
// after.
func (p *Pool) startNow(e *entry) (started bool, err error) {
	a := admitted{entry: *e}
	if p.tryPlain(e.permits) {
		p.startLocked(&a)
		p.unlockAndScout()
		return true, nil
	}
	p.reserved++
	p.mu.Unlock()
	ok := false
	defer func() { // the limiter may panic, too
		p.mu.Lock()
		p.reserved--
		if ok && err == nil {
			if err = p.refusalLocked(); err == nil {
				p.startLocked(&a)
			}
		}
		p.unlockAndScout()
		if ok && err != nil {
			p.refund(&a)
		}
	}()
	a.lease, ok, err = p.try(e.permits)
	return ok, err
}

// giveWays is how often a Submit that finds no room gives way to others before it parks.
const giveWays = 32

// giveWay lets the workers run for a moment, until half of what there is has ended: a
// Submit that parked and was woken for each task that ends would cost more than the task.
func (p *Pool) giveWay() {
	half := -1
	for range giveWays {
		p.mu.Lock()
		tasks := p.running + p.waitingLocked()
		others := p.blocked.first != nil
		p.mu.Unlock()
		if half < 0 {
			half = tasks / 2
		}
		if tasks <= half || others {
			return
		}
		runtime.Gosched()
	}
}

// block waits for a worker's place or for room in the queue, which is then reserved or
// promised. The mutex is held before, not after.
func (p *Pool) block(ctx context.Context) error {
	w := p.blocked.add()
	p.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
	}
	err := ctx.Err()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !w.woken:
		p.blocked.remove(w)
		return err
	case !w.granted && err == nil:
		return w.err
	case w.granted && err != nil:
		// A done ctx wins, whichever came first: the task must not run.
		if p.queue > 0 {
			p.promised--
		} else {
			p.reserved--
		}
		p.grantLocked()
	}
	return err
}

// grantLocked lets the Submit calls that are blocked go on, as far as there is room.
func (p *Pool) grantLocked() {
	for w := p.blocked.first; w != nil && p.refusalLocked() == nil; w = p.blocked.first {
		switch {
		case p.queue > 0 && p.roomLocked():
			p.promised++
		case p.queue == 0 && p.freeLocked():
			p.reserved++
		default:
			return
		}
		w.granted = true
		p.blocked.wake(w)
	}
}

// roomLocked reports whether there is room in the queue for one more task. If not,
// grantLocked is called when there is.
func (p *Pool) roomLocked() bool {
	room := p.queue - p.waitingLocked() - p.promised
	return room > 1 || room == 1 && !p.asked.heeded() // the task that is asked for takes some
}

// freeLocked reports whether a worker is free, or can be started, for one more task.
func (p *Pool) freeLocked() bool { return p.most == 0 || p.running+p.reserved < p.most }

// pushLocked queues a task.
func (p *Pool) pushLocked(e *entry) {
	if e.call != nil {
		e.call.queued = true
	}
	p.waiting.push(*e)
}

// startLocked hands a task that has its lease to the workers.
func (p *Pool) startLocked(a *admitted) {
	p.running++
	p.ready.push(*a)
}
