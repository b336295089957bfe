package worker

import (
	"context"

	"github.com/sluice-go/sluice/core"
)

// Submit gives the pool a task. It returns nil once the task has its lease or is queued.
// Until then it waits: for room in the pool's queue or, if the pool has none, for a free
// worker and then in the limiter's queue. A limiter that has no queue, or whose queue is
// full, rejects the task with its *[core.RejectedError]; so a pool without a queue needs a
// limiter with a QueueLimit.
//
// ctx bounds this wait alone. It does not reach the task: a deadline of ctx stops no task
// that was accepted. Use a [Group] or [Do] for tasks that end with their caller.
//
// If ctx is done, then or later, Submit returns ctx.Err() unchanged, even if permits are
// available, and the task never runs. Once the task was admitted or given room, ctx makes
// no difference. After Close, and when Close comes while Submit waits, the error is
// [ErrClosed]; a closed limiter's is [core.ErrClosed]. A nil task is an error.
func (p *Pool) Submit(ctx context.Context, t Task) error { return p.SubmitN(ctx, 1, t) }

// SubmitN is Submit for a task whose lease has the given number of permits. Negative permits
// are refused at once with [core.ErrNegativePermits], and more than the limiter's limit with
// [core.ErrPermitsExceedLimit]. Zero permits take nothing: the task is admitted when at
// least one permit is available.
func (p *Pool) SubmitN(ctx context.Context, permits int, t Task) error {
	return p.submit(ctx, entry{task: t, permits: permits}, waits)
}

// TrySubmit gives the pool a task if it can be admitted or queued now. It never blocks. If
// it cannot, the error is a *[core.RejectedError]: the limiter's own, or one with the reason
// "all workers busy" or "queue limit reached". After Close it is [ErrClosed].
func (p *Pool) TrySubmit(t Task) error { return p.TrySubmitN(1, t) }

// TrySubmitN is TrySubmit for a task whose lease has the given number of permits, which are
// checked as by SubmitN.
func (p *Pool) TrySubmitN(permits int, t Task) error {
	return p.submit(p.background, entry{task: t, permits: permits}, tries)
}

// patience is what a submission does when it cannot be admitted or queued now.
type patience uint8

const (
	tries    patience = iota // it is rejected; the context is not used
	waits                    // it waits, by the limiter's rules
	persists                 // it waits, even if the limiter has no queue
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

// enter starts the task or queues it, as soon as there is room, or takes a worker's place
// for it: then the caller has to ask the limiter. The place comes before the lease, as a
// lease that waited for a place would keep permits from others. If there is a queue, enter
// takes a place only if the caller may ask.
func (p *Pool) enter(ctx context.Context, e *entry, how patience, mayAsk bool) (placed bool, err error) {
	var w *waiter
	p.mu.Lock()
	first := p.firstLocked()
	switch {
	case p.phase != open:
		err = ErrClosed
	case e.call != nil && ctx.Err() != nil:
		err = ctx.Err() // the caller may have taken back its tasks already
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

// busy returns the rejection of a TrySubmit that the limiter was not asked for.
func (p *Pool) busy(permits int) error {
	if p.queue > 0 {
		return &core.RejectedError{Permits: permits, Reason: "queue limit reached", Detail: "queue is full"}
	}
	return &core.RejectedError{Permits: permits, Reason: "all workers busy"}
}

// startPlaced asks the limiter and starts a task that has a place. If the task does not
// start its place is vacated: if there is a queue, the task may have to wait there.
func (p *Pool) startPlaced(ctx context.Context, e *entry, how patience) (started bool, err error) {
	defer func() { // the limiter may panic, too
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

// admit gets a task its lease, by the limiter's own queue.
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
