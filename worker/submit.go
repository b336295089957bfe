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
	return p.submit(ctx, entry{task: t, permits: permits}, true)
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
	return p.submit(p.background, entry{task: t, permits: permits}, false)
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
	rank := p.limiter.Rank(ctx) // without the mutex, because the limiter may be a user's
	p.mu.Lock()
	entered, err := p.enterLocked(&e, rank)
	p.mu.Unlock()
	if entered || err != nil {
		return err
	}
	var done <-chan struct{}
	if waits {
		done = ctx.Done() // without the mutex, because ctx may be user code
	}
	p.mu.Lock()
	asking, blocked, err := p.admitLocked(&e, rank, waits, done)
	p.mu.Unlock()
	if blocked != nil {
		asking, err = p.await(ctx, blocked)
	}
	if asking != nil {
		return p.start(ctx, asking, waits)
	}
	return err
}

// enterLocked starts or queues the task, if neither takes a wait or a call of the limiter.
func (p *Pool) enterLocked(e *entry, rank hold.Rank) (entered bool, _ error) {
	switch {
	case p.closed:
		return false, ErrClosed
	case e.owner != nil && e.owner.group != nil && e.owner.ctx.Context.Err() != nil: // not the Err of a user's context
		return false, e.owner.ctx.Context.Err() // Group.Wait may already have taken the group's tasks back
	case p.firstLocked() && p.limiter.TryPlain(e.permits):
		p.slots++
		p.startLocked(p.jobLocked(e))
	case p.roomLocked():
		p.acceptLocked(p.jobLocked(e), rank)
		if p.leader != nil {
			return true, nil // the leader will ask whether there are permits
		}
		p.advanceLocked()
	default:
		return false, nil
	}
	p.spawnLocked()
	return true, nil
}

// admitLocked is enterLocked of a task that could not enter before. Otherwise it returns the task's job if the caller has
// to call the limiter for its lease, or the waiter of a call that has to wait, or the reason of a rejection.
func (p *Pool) admitLocked(
	e *entry, rank hold.Rank, waits bool, done <-chan struct{},
) (asking *job, blocked *wait.Waiter[*job], _ error) {
	entered, err := p.enterLocked(e, rank)
	switch {
	case entered || err != nil:
		return nil, nil, err
	case p.queueLimit == 0 && p.firstLocked():
		p.slots++
		j := p.jobLocked(e)
		if waits {
			j.asking, p.leader = true, j
		}
		return j, nil, nil
	case !waits && p.queueLimit == 0:
		return nil, nil, &core.RejectedError{Permits: e.permits, Reason: ReasonBusy}
	case !waits:
		return nil, nil, &core.RejectedError{Permits: e.permits, Reason: core.ReasonQueueLimit, Detail: "queue is full"}
	}
	j, w := p.jobLocked(e), p.blocked.New(done)
	w.Value = j
	if p.queueLimit > 0 {
		j.extra().rank = rank
		p.blocked.Append(w)
	} else {
		j.extra().caller = w
		p.queue.Push(&j.place, j, j.permits, rank)
	}
	return nil, w, nil
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
	p.leaveQueueLocked(j)
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
		j.keep(h)
		p.startLocked(j)
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
