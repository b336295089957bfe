package worker

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// Submit gives the pool a task, and returns nil when the task is accepted: when it has its
// lease or is in the pool's queue. Until then Submit waits: for room in the pool's queue or, if
// the pool has no queue, for a free worker and for the lease. It waits whatever the QueueLimit
// of the limiter is. Two limiters do not let it wait: a rate limiter rejects a task whose
// permits would come after ctx's deadline, and a limiter that is not one of package core may
// reject any task. The error is then a *[core.RejectedError].
//
// ctx bounds only this wait. It is not passed to the task: its deadline stops no accepted
// task. Use a [Group] or [Do] for tasks that end with their caller.
//
// If ctx is done before the call or while Submit waits, Submit returns ctx.Err() unchanged,
// even if permits are available, and the task never runs. Once the task is accepted, the end
// of ctx has no effect. If the pool is closed before or while Submit waits, the error is
// [ErrClosed]. If the limiter is closed, the error is [core.ErrClosed]; a pool with a queue may
// accept the task all the same, and then [Pool.Wait] returns that error. A nil task is an error.
func (p *Pool) Submit(ctx context.Context, t Task) error { return p.SubmitN(ctx, 1, t) }

// SubmitN is Submit for a task whose lease has the given number of permits. The error is
// [core.ErrNegativePermits] if permits < 0, and [core.ErrPermitsExceedLimit] if permits is more
// than the limiter's limit. A task of 0 permits takes none, but waits like the others until
// at least one permit is available.
func (p *Pool) SubmitN(ctx context.Context, permits int, t Task) error {
	return p.submit(ctx, entry{task: t, permits: permits, ctx: p.tasks}, true)
}

// TrySubmit gives the pool a task if the task can start or be queued now. It never blocks. If
// the task can do neither, the error is a *[core.RejectedError]: the limiter's own, or one with
// the reason "all workers busy" or "queue limit reached". After Close the error is [ErrClosed].
func (p *Pool) TrySubmit(t Task) error { return p.TrySubmitN(1, t) }

// TrySubmitN is TrySubmit for a task whose lease has the given number of permits. It returns
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
	if e.permits > 1 {
		if p.closing.Cause() != nil {
			return ErrClosed
		}
		if err := p.exceeds(e.permits); err != nil {
			return err
		}
	}
	if p.order != nil { // without the mutex, because the limiter may be a user's
		if e.order = p.order(); e.order == core.FairShare {
			e.flow, _ = core.FlowFromContext(ctx)
		}
	}
	p.mu.Lock()
	d := p.admitLocked(&e)
	p.mu.Unlock()
	switch {
	case d == refused:
		return ErrClosed
	case d == late:
		return ctx.Err()
	case d == accepted:
		return nil
	case waits:
		return p.submitSlow(ctx, &e)
	}
	return p.tryStart(&e)
}

// exceeds returns the error of a task of n permits that could never get its lease.
func (p *Pool) exceeds(n int) error {
	if n <= hold.Limit(p.limiter.Limiter) {
		return nil
	}
	h, err := p.limiter.Try(n)
	if err == nil { // the limit was raised just now
		p.limiter.Refund(h)
	}
	if errors.Is(err, core.ErrRejected) {
		return nil
	}
	return err
}

// decision is what a pool does with a task that it is given.
type decision uint8

const (
	full     decision = iota // it can neither start without the limiter's help nor be queued
	accepted                 // it has started or is queued
	refused                  // the pool is closed
	late                     // the task's group has ended
)

// admitLocked starts or queues the task, if it can do so without waiting and without calling the limiter.
func (p *Pool) admitLocked(e *entry) decision {
	switch {
	case p.phase != open:
		return refused
	case e.group != nil && e.ctx.Context.Err() != nil: // not the Err of a user's context
		return late // Group.Wait may already have taken the group's tasks back
	case p.firstLocked() && p.limiter.TryPlain(e.permits):
		p.slots++
		p.startLocked(p.jobLocked(e), hold.Hold{Permits: e.permits})
	case p.roomLocked():
		p.queue.push(p.jobLocked(e), e.order)
		p.advanceLocked()
	default:
		return full
	}
	p.spawnLocked()
	return accepted
}

// submitSlow waits until the task has started or is queued. In a pool without a queue the call may be told
// to lead: then it asks the limiter for the lease of its task.
func (p *Pool) submitSlow(ctx context.Context, e *entry) error {
	done := ctx.Done() // without the mutex, because ctx may be user code
	p.mu.Lock()
	d := p.admitLocked(e) // again, because the mutex was free
	var own turn
	var w *wait.Waiter[turn]
	if d == full {
		own.job = p.jobLocked(e)
		if own.leads = p.queueLimit == 0 && p.firstLocked(); own.leads {
			p.slots++
			p.leadLocked(own.job)
		} else {
			w = p.blocked.Push(done, own)
			if p.queueLimit == 0 {
				own.job.caller = w
				p.queue.push(own.job, e.order)
			}
		}
	}
	p.mu.Unlock()
	outcome := wait.Granted
	if w != nil {
		own, outcome = w.Wait(&p.mu)
	}
	switch {
	case d == refused:
		return ErrClosed
	case d == late:
		return ctx.Err()
	case outcome == wait.Ended:
		p.withdraw(own.job)
		return ErrClosed
	case outcome == wait.Cancelled:
		p.withdraw(own.job)
		return ctx.Err()
	case own.leads:
		return p.start(own.job, func() (hold.Hold, error) { return p.limiter.TakeWaiting(ctx, &p.closing, e.permits) })
	}
	return nil
}

// withdraw forgets the job of a call that has ended before its task was accepted.
func (p *Pool) withdraw(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if j.section != nil {
		p.queue.remove(j)
	}
	p.recycleLocked(j)
}

// tryStart starts a task that admitLocked has not accepted, if the limiter grants its permits now.
func (p *Pool) tryStart(e *entry) error {
	p.mu.Lock()
	if p.queueLimit > 0 || !p.freeLocked() {
		p.mu.Unlock()
		return p.busy(e.permits)
	}
	p.slots++
	j := p.jobLocked(e)
	p.mu.Unlock()
	return p.start(j, func() (hold.Hold, error) { return p.limiter.Try(e.permits) })
}

// busy returns the error of a TrySubmit that the pool rejects without asking the limiter.
func (p *Pool) busy(permits int) error {
	if p.queueLimit > 0 {
		return &core.RejectedError{Permits: permits, Reason: "queue limit reached", Detail: "queue is full"}
	}
	return &core.RejectedError{Permits: permits, Reason: "all workers busy"}
}

// start asks the limiter for the lease of a job that has a slot, and starts the job.
func (p *Pool) start(j *job, ask func() (hold.Hold, error)) error {
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
	h, err := ask()
	if err != nil {
		return err
	}
	p.mu.Lock()
	if started = p.phase == open; started {
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
