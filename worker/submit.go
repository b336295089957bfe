package worker

import (
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// Submit gives the pool a task, and returns nil when the task is accepted: when it has its
// lease or is in the pool's queue. Until then Submit waits: for room in the pool's queue or,
// if the pool has no queue, for a free worker and then in the limiter's queue. In that case a
// limiter without a queue, or with a full one, rejects the task with a *[core.RejectedError],
// so the limiter of a pool without a queue should have a QueueLimit. A rate limiter also rejects
// a task whose permits would come after ctx's deadline.
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
	return p.submit(ctx, entry{task: t, permits: permits, ctx: p.tasks}, waits)
}

// TrySubmit gives the pool a task if the task can start or be queued now. It never blocks. If
// the task can do neither, the error is a *[core.RejectedError]: the limiter's own, or one with
// the reason "all workers busy" or "queue limit reached". After Close the error is [ErrClosed].
func (p *Pool) TrySubmit(t Task) error { return p.TrySubmitN(1, t) }

// TrySubmitN is TrySubmit for a task whose lease has the given number of permits. It returns
// the same errors as SubmitN for invalid numbers.
func (p *Pool) TrySubmitN(permits int, t Task) error {
	return p.submit(p.background, entry{task: t, permits: permits, ctx: p.tasks}, tries)
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
	if p.fair != nil && p.fair() { // without the mutex, because the limiter may be a user's
		f, _ := core.FlowFromContext(ctx)
		e.flow = &f
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

// decision is what a pool does with a task that it is given.
type decision uint8

const (
	accepted decision = iota // it has started or is queued
	refused                  // the pool is closed
	late                     // the task's group has ended
	placed                   // it has a place, and the caller asks the limiter for its lease
	full                     // there is neither a place nor room in the queue
)

// enter starts or queues the task, waiting for room if it may. Or it takes a place for the
// task and reports placed: then the caller has to ask the limiter. The place comes before the
// lease, because a lease that waited for a place would keep permits from others. If the pool
// has a queue, enter takes a place only if mayAsk.
func (p *Pool) enter(ctx context.Context, e *entry, how patience, mayAsk bool) (isPlaced bool, err error) {
	p.mu.Lock()
	d := p.decideLocked(e, how, mayAsk)
	p.mu.Unlock()
	var w *wait.Waiter[entry]
	if d == full && how != tries {
		done := ctx.Done() // without the mutex, because ctx may be user code
		p.mu.Lock()
		if d = p.decideLocked(e, how, mayAsk); d == full {
			w = p.blocked.Push(done, *e)
		}
		p.mu.Unlock()
	}
	switch {
	case w != nil:
		return p.queueLimit == 0, await(ctx, p, w)
	case d == full:
		return false, p.busy(e.permits)
	case d == refused:
		return false, ErrClosed
	case d == late:
		return false, ctx.Err()
	}
	return d == placed, nil
}

func (p *Pool) decideLocked(e *entry, how patience, mayAsk bool) decision {
	first := p.firstLocked()
	switch {
	case p.phase != open:
		return refused
	case e.group != nil && e.ctx.Context.Err() != nil: // not the Err of a user's context
		return late // Group.Wait may already have taken the group's tasks back
	case first && (how != persists || !p.asking) && p.limiter.TryPlain(e.permits):
		p.places++
		p.startLocked(*e, hold.Hold{Permits: e.permits})
	case first && mayAsk && (p.queueLimit == 0 || !p.limiter.Plain(e.permits)):
		p.places++
		return placed
	case p.roomLocked():
		p.queue.push(p.acceptLocked(*e))
		p.spawnLocked()
	default:
		return full
	}
	return accepted
}

// await waits until the task is queued or has a place, or ctx is done.
func await[T any](ctx context.Context, p *Pool, w *wait.Waiter[T]) error {
	switch _, o := w.Wait(&p.mu); o {
	case wait.Cancelled:
		return ctx.Err()
	case wait.Ended:
		return ErrClosed
	default:
		return nil
	}
}

// busy returns the error of a TrySubmit that the pool rejects without asking the limiter.
func (p *Pool) busy(permits int) error {
	if p.queueLimit > 0 {
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
	var h hold.Hold
	ok := true
	switch {
	case p.queueLimit > 0:
		h, ok, err = p.try(e.permits)
	case how == tries: // the rejection is the caller's, and is counted
		h, err = p.limiter.Try(e.permits)
	case how == waits:
		h, err = p.limiter.Take(ctx, &p.closing, e.permits)
	default:
		h, err = p.takeInTurn(ctx, e.permits)
	}
	if !ok || err != nil {
		return false, err
	}
	err = p.start(e, h)
	return err == nil, err
}

// takeInTurn is take for a call of Group.Go or Map, after those that came before it.
func (p *Pool) takeInTurn(ctx context.Context, n int) (hold.Hold, error) {
	if err := p.takeTurn(ctx); err != nil {
		return hold.Hold{}, err
	}
	defer p.leaveTurn()
	if h, ok, err := p.try(n); ok || err != nil {
		return h, err
	}
	return p.take(ctx, &p.closing, n)
}

// takeTurn waits until no other call of Group.Go or Map asks the limiter.
func (p *Pool) takeTurn(ctx context.Context) error {
	done := ctx.Done()
	p.mu.Lock()
	if !p.asking {
		p.asking = true
		p.mu.Unlock()
		return nil
	}
	w := p.turns.Push(done, struct{}{})
	p.mu.Unlock()
	return await(ctx, p, w)
}

// leaveTurn gives the turn to the next call.
func (p *Pool) leaveTurn() {
	p.mu.Lock()
	next := p.turns.Decide(wait.Granted)
	p.asking = next != nil
	p.mu.Unlock()
	next.Wake()
}

// start hands a task that has a place and a lease to the workers. If the pool was closed
// meanwhile it refunds the lease.
func (p *Pool) start(e *entry, h hold.Hold) error {
	p.mu.Lock()
	isOpen := p.phase == open
	if isOpen {
		p.startLocked(*e, h)
	}
	p.mu.Unlock()
	if !isOpen {
		p.limiter.Refund(h)
		return ErrClosed
	}
	return nil
}

// startLocked hands a task that has a place and a lease to the workers.
func (p *Pool) startLocked(e entry, h hold.Hold) {
	j := p.acceptLocked(e)
	j.hold = h
	p.running++
	p.ready.Push(j)
	p.spawnLocked()
}
