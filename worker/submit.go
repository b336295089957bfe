package worker

import (
	"context"

	"github.com/sluice-go/sluice/core"
)

// Submit gives the pool a task, and returns nil when the task is accepted: when it has its
// lease or is in the pool's queue. Until then Submit waits: for room in the pool's queue or,
// if the pool has no queue, for a free worker and then in the limiter's queue. In that case a
// limiter without a queue, or with a full one, rejects the task with a *[core.RejectedError],
// so the limiter of a pool without a queue should have a QueueLimit.
//
// ctx bounds only this wait. It is not passed to the task: its deadline stops no accepted
// task. Use a [Group] or [Do] for tasks that end with their caller.
//
// If ctx is done before the call or while Submit waits, Submit returns ctx.Err() unchanged,
// even if permits are available, and the task never runs. Once the task is accepted, the end
// of ctx has no effect. If the pool is closed before or while Submit waits, the error is
// [ErrClosed]; if the limiter is closed, it is [core.ErrClosed]. A nil task is an error.
func (p *Pool) Submit(ctx context.Context, t Task) error { return p.SubmitN(ctx, 1, t) }

// SubmitN is Submit for a task whose lease has the given number of permits. The error is
// [core.ErrNegativePermits] if permits < 0, and [core.ErrPermitsExceedLimit] if permits is more
// than the limiter's limit. A task of 0 permits takes none, but waits like the others until
// at least one permit is available.
func (p *Pool) SubmitN(ctx context.Context, permits int, t Task) error {
	return p.submit(ctx, entry{task: t, permits: permits}, waits)
}

// TrySubmit gives the pool a task if the task can start or be queued now. It never blocks. If
// the task can do neither, the error is a *[core.RejectedError]: the limiter's own, or one with
// the reason "all workers busy" or "queue limit reached". After Close the error is [ErrClosed].
func (p *Pool) TrySubmit(t Task) error { return p.TrySubmitN(1, t) }

// TrySubmitN is TrySubmit for a task whose lease has the given number of permits. It returns
// the same errors as SubmitN for invalid numbers.
func (p *Pool) TrySubmitN(permits int, t Task) error {
	return p.submit(p.background, entry{task: t, permits: permits}, tries)
}

// patience is what a call does when its task can neither start nor be queued now.
type patience uint8

const (
	tries    patience = iota // it returns a rejection; the context is not used
	waits                    // it waits, unless the limiter rejects the task
	persists                 // it waits, and asks the limiter again if that rejects the task
)

func (p *Pool) submit(ctx context.Context, e entry, how patience) error {
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
	if e.permits > 1 {
		if p.closing.Cause() != nil {
			return ErrClosed
		}
		if err := p.check(e.permits); err != nil {
			return err
		}
	}
	placed, err := p.enter(ctx, &e, how, true)
	if !placed || err != nil {
		return err
	}
	started, err := p.startPlaced(ctx, &e, how)
	if started || err != nil {
		return err
	}
	_, err = p.enter(ctx, &e, how, false)
	return err
}

// enter starts or queues the task, waiting for room if it may. Or it takes a place for the
// task and reports placed: then the caller has to ask the limiter. The place comes before the
// lease, because a lease that waited for a place would keep permits from others. If the pool
// has a queue, enter takes a place only if mayAsk.
func (p *Pool) enter(ctx context.Context, e *entry, how patience, mayAsk bool) (placed bool, err error) {
	var w *waiter
	p.mu.Lock()
	first := p.firstLocked()
	switch {
	case p.phase != open:
		err = ErrClosed
	case e.call != nil && ctx.Err() != nil:
		err = ctx.Err() // Group.Wait may already have called takeBack
	case first && p.tryPlain(e.permits):
		p.places++
		p.startLocked(&admitted{entry: *e, plain: true})
	case first && mayAsk && (p.queue == 0 || !p.hasPlain(e.permits)):
		p.places++
		placed = true
	case p.roomLocked():
		p.pushLocked(e)
		p.spawnLocked()
	case how == tries:
		err = p.busy(e.permits)
	default:
		w = p.blockLocked(ctx, e)
	}
	p.mu.Unlock()
	if w != nil {
		err = p.await(w)
		placed = p.queue == 0 && err == nil
	}
	return placed, err
}

// busy returns the error of a TrySubmit that the pool rejects without asking the limiter.
func (p *Pool) busy(permits int) error {
	if p.queue > 0 {
		return &core.RejectedError{Permits: permits, Reason: "queue limit reached", Detail: "queue is full"}
	}
	return &core.RejectedError{Permits: permits, Reason: "all workers busy"}
}

// startPlaced asks the limiter for the lease of a task that has a place, and starts the task.
// If the task does not start, startPlaced gives up the place. If started is false and err is
// nil, the caller queues the task.
func (p *Pool) startPlaced(ctx context.Context, e *entry, how patience) (started bool, err error) {
	defer func() { // deferred, because the limiter may panic
		if !started {
			p.vacate()
		}
	}()
	var lease core.Lease
	ok := true
	if p.queue > 0 {
		lease, ok, err = p.try(e.permits)
	} else {
		lease, err = p.admit(ctx, e.permits, how)
	}
	if !ok || err != nil {
		return false, err
	}
	err = p.start(e, lease)
	return err == nil, err
}

// admit gets the lease for a task of a pool without a queue, waiting in the limiter's queue.
func (p *Pool) admit(ctx context.Context, n int, how patience) (core.Lease, error) {
	if how == tries { // the rejection is the caller's, and is counted
		l := p.limiter.TryAcquire(n)
		return l, l.Err()
	}
	if l, ok, err := p.try(n); ok || err != nil {
		return l, err
	}
	call := p.closing.Begin(ctx)
	defer call.End()
	ask := p.ask
	if how == persists {
		ask = p.persist
	}
	l, err := ask(call.Context, n) //nolint:contextcheck // it is ctx, until the pool is closed
	return l, call.Explain(err)
}

// start hands a task that has a place and a lease to the workers. If the pool was closed
// meanwhile it refunds the lease.
func (p *Pool) start(e *entry, lease core.Lease) error {
	a := admitted{entry: *e, lease: lease, plain: !lease.Acquired()}
	p.mu.Lock()
	if p.phase == open {
		p.startLocked(&a)
		p.mu.Unlock()
		return nil
	}
	p.mu.Unlock()
	p.refund(&a)
	return ErrClosed
}

// startLocked hands a task that has a place and a lease to the workers.
func (p *Pool) startLocked(a *admitted) {
	p.running++
	p.ready.push(*a)
	p.spawnLocked()
}
