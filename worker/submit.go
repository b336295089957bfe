package worker

import (
	"cmp"
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// Submit gives the pool a task, and returns nil when the task is accepted: when it has its
// lease or is in the pool's queue. Until then Submit waits: for room in the pool's queue or, if
// the pool has no queue, for a free worker and for the lease. It waits even if the limiter's
// QueueLimit is 0. The error is a *[core.RejectedError] in two cases: a rate limiter rejects a task
// whose permits would come after ctx's deadline, and a limiter of your own may reject any task; see
// the package comment.
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
	return p.submit(ctx, entry{task: t, permits: permits, ctx: p.tasks}, true)
}

// TrySubmit gives the pool a task if the task can start or be queued now. It does not wait for
// permits or for a worker; a limiter of package redislimit may wait for its store. If the task can
// neither start nor be queued, the error is a *[core.RejectedError]: the limiter's own, one with the reason
// [ReasonBusy] if the pool has no queue and no worker is free or a Submit is ahead, or one with the reason
// [core.ReasonQueueLimit] if the queue is full. After Close the error is [ErrClosed]. A closed limiter and a nil
// task are errors, as for Submit.
func (p *Pool) TrySubmit(t Task) error { return p.TrySubmitN(1, t) }

// TrySubmitN is like TrySubmit, for a task whose lease has the given number of permits. It returns
// the same errors as SubmitN for invalid numbers.
func (p *Pool) TrySubmitN(permits int, t Task) error {
	return p.submit(p.background, entry{task: t, permits: permits, ctx: p.tasks}, false)
}

// submit gives the pool a task, and waits if it may. The context of a call that does not wait is not used.
func (p *Pool) submit(ctx context.Context, e entry, waits bool) error {
	switch {
	case e.task == nil:
		return errNilTask
	case e.permits < 0:
		return core.ErrNegativePermits
	case waits && ctx.Err() != nil:
		return ctx.Err()
	case p.zero():
		return ErrClosed
	}
	if err := p.limiter.Exceeds(e.permits); err != nil {
		return cmp.Or(p.closing.Cause(), err)
	}
	e.rank = p.limiter.Rank(ctx) // without the mutex, because the limiter may be a user's
	var done <-chan struct{}
	if waits {
		done = ctx.Done() // without the mutex, because ctx may be user code
	}
	p.mu.Lock()
	asking, blocked, err := p.admitLocked(&e, waits, done)
	p.mu.Unlock()
	if blocked != nil {
		asking, err = p.await(ctx, blocked)
	}
	if asking != nil {
		return p.start(ctx, asking, waits)
	}
	return err
}

// admitLocked starts or queues the task, if neither takes a wait or a call of the limiter. Otherwise it returns
// the task's job if the caller has to ask the limiter for its lease, or the waiter of a call that has to wait, or
// the reason of a rejection.
func (p *Pool) admitLocked(e *entry, waits bool, done <-chan struct{}) (asking *job, blocked *wait.Waiter[*job], _ error) {
	switch {
	case p.closed:
		return nil, nil, ErrClosed
	case e.group != nil && e.ctx.Context.Err() != nil: // not the Err of a user's context
		return nil, nil, e.ctx.Context.Err() // Group.Wait may already have taken the group's tasks back
	case p.firstLocked() && p.limiter.TryPlain(e.permits):
		p.slots++
		p.startLocked(p.jobLocked(e), hold.Hold{Permits: e.permits})
	case p.roomLocked():
		p.acceptLocked(p.jobLocked(e))
		p.advanceLocked()
	case waits && p.queueLimit == 0 && p.firstLocked():
		p.slots++
		p.leader = p.jobLocked(e)
		p.leader.asking = true
		return p.leader, nil, nil
	case waits:
		j := p.jobLocked(e)
		if p.queueLimit > 0 {
			return nil, p.blocked.Push(done, j), nil
		}
		j.caller = p.blocked.New(done)
		j.caller.Value = j
		p.queue.Push(&j.place, j.permits, j.rank)
		return nil, j.caller, nil
	case p.queueLimit > 0:
		return nil, nil, &core.RejectedError{Permits: e.permits, Reason: core.ReasonQueueLimit, Detail: "queue is full"}
	case !p.firstLocked():
		return nil, nil, &core.RejectedError{Permits: e.permits, Reason: ReasonBusy}
	default:
		p.slots++
		return p.jobLocked(e), nil, nil
	}
	p.spawnLocked()
	return nil, nil, nil
}

// await waits until the task of a blocked call has started or is queued. In a pool without a queue the call may
// become the leader instead: then await returns the job, for whose lease the caller has to ask.
func (p *Pool) await(ctx context.Context, blocked *wait.Waiter[*job]) (*job, error) {
	j, outcome := blocked.Wait(&p.mu)
	switch outcome {
	case wait.Granted:
		return j, nil
	case wait.Ended:
		p.withdraw(j)
		return nil, ErrClosed
	default:
		p.withdraw(j)
		return nil, ctx.Err()
	}
}

// withdraw forgets the job of a call that has ended before its task was accepted.
func (p *Pool) withdraw(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j.leaveQueue()
	p.recycleLocked(j)
}

// start asks the limiter for the lease of a job that has a slot, and starts the job.
func (p *Pool) start(ctx context.Context, j *job, waits bool) (err error) {
	started := false
	defer func() { // deferred, because the limiter may panic
		if !started {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.endLeadLocked(j)
			p.slots--
			p.recycleLocked(j)
			p.advanceLocked()
			p.spawnLocked()
		}
	}()
	var h hold.Hold
	if waits {
		h, err = p.limiter.Take(ctx, &p.closing, j.permits)
	} else {
		h, err = p.limiter.Try(j.permits)
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	if started = !p.closed; started {
		p.endLeadLocked(j)
		p.startLocked(j, h)
		p.advanceLocked()
		p.spawnLocked()
	}
	p.mu.Unlock()
	if !started {
		p.limiter.Refund(h)
		return ErrClosed
	}
	return nil
}

// endLeadLocked lets another job lead, if j does.
func (p *Pool) endLeadLocked(j *job) {
	if p.leader == j {
		p.leader = nil
	}
}
