package worker

import (
	"cmp"
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// Submit gives the pool a task, and returns nil when the task is accepted: when it has its lease or
// is in the pool's queue. Until then Submit waits: for room in the pool's queue or, if the pool has
// no queue, for a free worker and for the lease. It waits even if the limiter's QueueLimit is 0.
// The error is a *[core.RejectedError] in two cases: a rate limiter rejects a task whose permits
// would become available after ctx's deadline, and a custom limiter may reject any task; see the
// package comment.
//
// ctx bounds only this wait. ctx is not passed to the task, so its deadline does not stop a task
// that was accepted. Use a [Group] or [Do] for tasks that end with their caller.
//
// If ctx is done before the call or while Submit waits, Submit returns ctx.Err() unchanged,
// even if permits are available, and the task never runs. Once the task is accepted, the end
// of ctx has no effect. If the pool is closed before or while Submit waits, the error is
// [ErrClosed]. If the limiter is closed, the error is [core.ErrClosed]; a pool with a queue may
// accept the task all the same, and then [Pool.Wait] returns that error. A nil task is an error. If several of
// these apply, a nil task or negative permits are reported first, then ctx.Err(), then ErrClosed.
func (p *Pool) Submit(ctx context.Context, t Task) error { return p.SubmitN(ctx, 1, t) }

// SubmitN is like Submit, for a task whose lease has the given number of permits. The error is
// [core.ErrNegativePermits] if permits < 0, and [core.ErrPermitsExceedLimit] if permits is more
// than the limiter's limit. A task of 0 permits takes none, but waits like the others until
// at least one permit is available.
func (p *Pool) SubmitN(ctx context.Context, permits int, t Task) error {
	return p.submit(ctx, job{task: t, permits: permits}, true)
}

// TrySubmit gives the pool a task if the task can start or be queued now. It does not wait for permits or for a
// worker; a limiter of package redislimit may wait for its store. If the task can neither start nor be queued, the
// error is a *[core.RejectedError]. Its reason is [core.ReasonQueueLimit] if the queue is full. If the pool has no
// queue, and no worker is free or a Submit is ahead, the reason is [ReasonBusy]. Otherwise the error is the limiter's
// own.
//
// After Close the error is [ErrClosed]. A closed limiter and a nil task are errors, as for Submit.
func (p *Pool) TrySubmit(t Task) error { return p.TrySubmitN(1, t) }

// TrySubmitN is like TrySubmit, for a task whose lease has the given number of permits. It returns
// the same errors as SubmitN for invalid numbers.
func (p *Pool) TrySubmitN(permits int, t Task) error {
	return p.submit(p.background, job{task: t, permits: permits}, false)
}

// submit gives the pool a task, and waits if it may. The context of a call that does not wait is not used.
func (p *Pool) submit(ctx context.Context, j job, waits bool) error {
	switch {
	case j.task == nil:
		return errNilTask
	case j.permits < 0:
		return core.ErrNegativePermits
	case waits && ctx.Err() != nil:
		return ctx.Err()
	case p.zero():
		return ErrClosed
	}
	if err := p.limiter.Exceeds(j.permits); err != nil {
		return cmp.Or(p.closing.Cause(), err)
	}
	rank := p.limiter.Rank(ctx) // without the mutex, because the limiter may be a user's
	j.turn = turnOf(rank)
	p.mu.Lock()
	entered, err := p.enterLocked(j, rank)
	p.mu.Unlock()
	if entered || err != nil {
		return err
	}
	return p.submitSlow(ctx, j, rank, waits)
}

// submitSlow is submit of a task that has to wait, or for whose lease the limiter has to be called.
func (p *Pool) submitSlow(ctx context.Context, j job, rank hold.Rank, waits bool) error {
	var done <-chan struct{}
	if waits {
		done = ctx.Done() // without the mutex, because ctx may be user code
	}
	var caller *wait.Waiter[turn]
	p.mu.Lock()
	entered, err := p.enterLocked(j, rank)
	asks := !entered && err == nil && p.queueLimit == 0 && p.firstLocked()
	switch {
	case entered || err != nil:
	case asks:
		p.slots++
		p.asking = waits
	case waits:
		caller = p.waiters.New(done)
		caller.Value = turn{rank: rank, caller: caller}
		if p.queueLimit > 0 {
			rank = hold.Rank{} // calls wait in order of arrival
		}
		p.calls.push(job{j.task, j.permits, j.owner, &caller.Value}, rank)
	case p.queueLimit == 0:
		err = &core.RejectedError{Permits: j.permits, Reason: ReasonBusy}
	default:
		err = &core.RejectedError{Permits: j.permits, Reason: core.ReasonQueueLimit, Detail: "queue is full"}
	}
	p.mu.Unlock()
	if caller != nil {
		asks, err = p.await(ctx, caller)
	}
	if asks {
		return p.start(ctx, j, waits)
	}
	return err
}

// enterLocked starts or queues the task, if neither takes a wait or a call of the limiter.
func (p *Pool) enterLocked(j job, rank hold.Rank) (entered bool, _ error) {
	switch {
	case p.closed:
		return false, ErrClosed
	case j.owner != nil && j.owner.group != nil && j.owner.ctx.Context.Err() != nil: // not the Err of a user's context
		return false, j.owner.ctx.Context.Err() // Group.Wait may already have taken the group's tasks back
	case p.firstLocked() && p.limiter.TryPlain(j.permits):
		p.startLocked(j, core.Lease{})
		p.slots++
	case p.roomLocked():
		p.queue.push(j, rank)
		if p.queue.n > 1 {
			return true, nil // it is not alone: whoever looks after the first job takes it in its turn
		}
	default:
		return false, nil
	}
	p.advanceLocked()
	return true, nil
}

// await waits until the task of a blocked call has started or is queued. In a pool without a queue the call may have to
// ask for the lease itself instead.
func (p *Pool) await(ctx context.Context, caller *wait.Waiter[turn]) (asks bool, _ error) {
	outcome := caller.Park(&p.mu)
	if outcome == wait.Canceled {
		p.mu.Lock()
		p.calls.takeBack(&caller.Value.queued)
		p.mu.Unlock()
		return false, ctx.Err()
	}
	asks = caller.Value.asks
	caller.Free()
	if outcome == wait.Ended {
		return false, ErrClosed
	}
	return asks, nil
}

// start asks the limiter for the lease of a job that has a slot, and starts the job.
func (p *Pool) start(ctx context.Context, j job, waits bool) (err error) {
	var h hold.Hold
	granted := false
	defer func() { // deferred, because the limiter may panic
		p.mu.Lock()
		p.asking = p.asking && !waits
		started := granted && !p.closed
		if started {
			p.startLocked(j, h.Lease)
		} else {
			p.slots--
		}
		p.advanceLocked()
		p.mu.Unlock()
		if granted && !started {
			err = ErrClosed
			p.limiter.Refund(h)
		}
	}()
	if waits {
		h, err = p.limiter.Take(ctx, &p.closing, j.permits)
	} else {
		h, err = p.limiter.Try(j.permits)
	}
	granted = err == nil
	return err
}
