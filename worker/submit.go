package worker

import (
	"container/list"
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
	if p.queue > 0 {
		return p.submitQueued(ctx, &e, how)
	}
	return p.submitAdmitted(ctx, &e, how)
}

// submitAdmitted is submit without a queue: a place, a lease, a worker. The place comes first,
// as a lease that waited for a place would keep permits from others.
func (p *Pool) submitAdmitted(ctx context.Context, e *entry, how patience) error {
	started, err := p.takePlace(ctx, e, how)
	if started || err != nil {
		return err
	}
	defer func() { // the limiter may panic, too
		if !started {
			p.vacate()
		}
	}()
	lease, err := p.admit(ctx, e.permits, how)
	if err != nil {
		return err
	}
	err = p.start(e, lease)
	started = err == nil
	return err
}

// takePlace takes a worker's place for the task, and starts the task if plain permits are
// available.
func (p *Pool) takePlace(ctx context.Context, e *entry, how patience) (started bool, err error) {
	var w *waiter
	p.mu.Lock()
	switch {
	case p.phase != open:
		err = ErrClosed
	case p.freeLocked() && p.blocked.Len() == 0:
		p.places++
		if started = p.tryPlain(e.permits); started {
			p.startLocked(&admitted{entry: *e, plain: true})
		}
	case how == tries:
		err = &core.RejectedError{Permits: e.permits, Reason: "all workers busy"}
	default:
		w = p.blockLocked(ctx, e)
	}
	p.mu.Unlock()
	if w != nil {
		err = p.await(w)
	}
	return started, err
}

// admit gets the lease of a task that has a place, by the limiter's own queue.
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
	acquire := p.ask
	if how == persists {
		acquire = p.persist
	}
	l, err := acquire(call.Context, n) //nolint:contextcheck // it is ctx, until the pool is closed
	return l, call.Explain(err)
}

// submitQueued is submit with a queue. If no task is ahead it asks the limiter, so that a
// task which can be admitted takes no room in the queue.
func (p *Pool) submitQueued(ctx context.Context, e *entry, how patience) error {
	p.mu.Lock()
	if p.phase == open && p.firstLocked() && !p.hasPlain(e.permits) {
		p.places++
		p.mu.Unlock()
		if started, err := p.startNow(e); started || err != nil {
			return err
		}
		p.mu.Lock()
	}
	var err error
	var w *waiter
	switch {
	case p.phase != open:
		err = ErrClosed
	case e.call != nil && ctx.Err() != nil:
		err = ctx.Err() // its caller, who has taken back what was queued, must find nothing later
	case p.firstLocked() && p.tryPlain(e.permits):
		p.places++
		p.startLocked(&admitted{entry: *e, plain: true})
	case p.roomLocked():
		p.pushLocked(e)
		p.spawnLocked()
	case how == tries:
		err = &core.RejectedError{Permits: e.permits, Reason: "queue limit reached", Detail: "queue is full"}
	default:
		w = p.blockLocked(ctx, e)
	}
	p.mu.Unlock()
	if w != nil {
		return p.await(w)
	}
	return err
}

// startNow starts a task that has a place if it can have its lease now; else it vacates the
// place.
func (p *Pool) startNow(e *entry) (started bool, err error) {
	defer func() { // the limiter may panic, too
		if !started {
			p.vacate()
		}
	}()
	lease, ok, err := p.try(e.permits)
	if !ok || err != nil {
		return false, err
	}
	err = p.start(e, lease)
	return err == nil, err
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

// pushLocked queues a task.
func (p *Pool) pushLocked(e *entry) {
	if e.call != nil {
		e.call.inQueue = queued
	}
	p.waiting.push(*e)
}

// waiter is a Submit call that waits for room in the queue or, if there is no queue, for a
// place.
type waiter struct {
	ctx      context.Context
	entry    entry
	position *list.Element
	ready    chan struct{} // closed when its task is queued, it has a place, or err says why not
	err      error         // set before ready is closed
}

// blockLocked adds a Submit call to those that wait.
func (p *Pool) blockLocked(ctx context.Context, e *entry) *waiter {
	w := &waiter{ctx: ctx, entry: *e, ready: make(chan struct{})}
	w.position = p.blocked.PushBack(w)
	return w
}

// await waits for room in the queue, where the task then is, or for a place.
func (p *Pool) await(w *waiter) error {
	select {
	case <-w.ready:
		return w.err
	case <-w.ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-w.ready: // that was decided first, under the mutex
		return w.err
	default:
		p.blocked.Remove(w.position)
		return w.ctx.Err()
	}
}

// wakeFirstLocked wakes the first blocked Submit call.
func (p *Pool) wakeFirstLocked(err error) {
	w := p.blocked.Remove(p.blocked.Front()).(*waiter) //nolint:forcetypeassert // there are no others
	w.err = err
	close(w.ready)
}

// grantLocked gives free room, or free places, to the blocked Submit calls. A call whose
// context is done gets none.
func (p *Pool) grantLocked() {
	for p.blocked.Len() > 0 {
		w := p.blocked.Front().Value.(*waiter) //nolint:forcetypeassert // there are no others
		err := w.ctx.Err()
		switch {
		case err != nil:
		case p.queue > 0 && p.roomLocked():
			p.pushLocked(&w.entry)
		case p.queue == 0 && p.freeLocked():
			p.places++
		default:
			return
		}
		p.wakeFirstLocked(err)
	}
}

// vacate gives up a place.
func (p *Pool) vacate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.vacateLocked()
	p.spawnLocked()
}

func (p *Pool) vacateLocked() {
	p.places--
	if p.queue == 0 {
		p.grantLocked()
	}
}

// freeLocked reports whether a place is free for one more task.
func (p *Pool) freeLocked() bool { return p.most == 0 || p.places < p.most }

// firstLocked reports whether a new task would be the first to get a lease and has a place.
func (p *Pool) firstLocked() bool {
	return !p.leading && p.queuedLocked() == 0 && p.freeLocked()
}

// roomLocked reports whether there is room in the queue. The leader's task takes some.
func (p *Pool) roomLocked() bool {
	_, queued := p.countLocked()
	return queued < p.queue
}

// takeBack takes tasks out of the queue whose callers have given up, so that their room is
// free at once: that of the call c, or all of the group g. It returns their number. The
// caller settles them.
func (p *Pool) takeBack(c *call, g *Group, err error) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c != nil && c.inQueue == queued {
		p.dropLocked(c, err)
		n = 1
	}
	for i := 0; g != nil && i < p.waiting.n; i++ {
		if c := p.waiting.at(i).call; c != nil && c.group == g && c.inQueue == queued {
			p.dropLocked(c, err)
			n++
		}
	}
	// Each pass over the queue is paid for by as many entries as it removes.
	if p.dropped > p.waiting.n/2 {
		var kept ring[entry]
		for p.waiting.n > 0 {
			if e := p.waiting.pop(); e.call == nil || e.call.inQueue == queued {
				kept.push(e)
			}
		}
		p.waiting, p.dropped = kept, 0
	}
	p.grantLocked()
	p.spawnLocked()
	p.restLocked()
	return n
}

func (p *Pool) dropLocked(c *call, err error) {
	c.inQueue = dropped
	p.dropped++
	p.failLocked(c, err)
}
