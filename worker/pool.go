package worker

import (
	"cmp"
	"context"
	"fmt"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/ring"
	"github.com/sluice-go/sluice/internal/wait"
)

// Pool runs tasks, each under a lease of its limiter. Create it with [New]; submitting to the zero
// Pool returns [ErrClosed]. A Pool is safe for concurrent use.
//
// Most callers want [Pool.Group] for tasks that belong together, or [Do] and [Map] for results. Tasks start in the
// order in which the calls were made, unless the limiter has another order. With [core.NewestFirst] the newest task
// starts first. With [core.FairShare] the order depends on the [core.Flow] of the context that was given to Submit,
// Do, Map or Pool.Group, and a task of 0 permits counts as one of 1 permit.
//
// The pool reads the limiter's order for each task, even through a [core.Switch] or a key of package partition. If the
// order changes, later tasks are served in the new order, after the tasks that wait already. A task whose lease is
// being requested keeps its turn. Calls that wait for room in the queue are served in order of arrival.
//
// A task that submits to its own pool should use TrySubmit. In Submit, Do, Map or Group.Go it
// would keep its lease and its goroutine while it waits, and the new task may be waiting for those.
// A second pool with a limiter of its own avoids that. A task that calls Wait or Close on its own
// pool deadlocks.
type Pool struct {
	limiter    hold.Limiter
	onPanic    func(any, []byte)
	crashes    bool // Options.WithoutPanicRecovery
	maxWorkers int  // Options.Workers; 0: no maximum
	queueLimit int  // Options.Queue
	background context.Context
	newWorker  func() // p.work; stored once, so that the go statement allocates nothing

	closing wait.Source // ended at the start of Close; ends waits for the limiter in Submit and Go
	life    wait.Source // ended when Close cancels; ends the contexts of tasks
	tasks   *wait.Call  // the context of the tasks given to Submit; ends with life, and when Close returns

	// mu guards the fields below. No goroutine blocks or calls user code while it holds mu.
	// Plain permits (see package hold) are taken and returned under mu.
	mu     wait.Mutex
	closed bool // no task is accepted

	queue  queue                 // accepted jobs that wait for their leases
	ready  ring.Ring[job]        // jobs that wait for a worker alone
	leases ring.Ring[core.Lease] // leases of the jobs in ready that have no plain permits

	// asking means that the limiter is being called for the lease of a job that is no longer in the queue: by a worker
	// or, in a pool without a queue, by the job's caller. No other job gets a lease meanwhile, so no task overtakes
	// another.
	asking  bool
	scouted bool // a worker looks after the first job in the queue

	// A slot is the right to use one of Options.Workers goroutines. slots counts those taken: by
	// each call of the limiter, and by each task that has a lease until its OnPanic has returned.
	slots int

	starting bool // a new worker has not looked for work yet; there is at most one
	workers  int  // goroutines
	running  int  // tasks that have a lease

	// calls has the jobs of the calls that wait: in a pool with a queue for room, in order of arrival, and otherwise for
	// the start of their tasks, in the limiter's order. waiters makes their waiters.
	calls   queue
	waiters wait.List[turn]

	idle wait.List[idleCall] // the Wait and Close calls that wait until the pool is idle

	counts   Statistics // without Running and Queued
	failures failures
}

// New returns a pool, or an error that lists all invalid options.
func New(o Options) (*Pool, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	p := &Pool{
		limiter: hold.Of(o.Limiter), onPanic: o.OnPanic, crashes: o.WithoutPanicRecovery, maxWorkers: o.Workers, queueLimit: o.Queue,
		background: context.Background(), //nolint:forbidigo // tasks outlive every caller's context; Close ends theirs
	}
	p.newWorker = p.work
	p.tasks = p.life.Begin(p.background)
	return p, nil
}

// zero reports whether the pool is the zero Pool.
func (p *Pool) zero() bool { return p.limiter.Limiter == nil }

// Statistics returns the pool's counts. It may be called after Close.
func (p *Pool) Statistics() Statistics {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.counts
	s.Running, s.Queued = p.countLocked()
	return s
}

// String returns a human-readable line: the statistics.
func (p *Pool) String() string { return "pool: " + p.Statistics().String() }

// Wait waits until no task is running or queued. It returns, joined, the errors of the tasks
// given to Submit, TrySubmit, SubmitN and TrySubmitN that have ended since the previous Wait: the errors that they returned, a
// *[PanicError] for each panic unless Options.OnPanic is set, [ErrGoexit] for each
// runtime.Goexit, and the limiter's error for each queued task that it rejected. The pool
// keeps the first 100 errors, and Wait reports the number of the others. Concurrent Wait calls
// return the same errors. Do, Map and Group return the errors of their own tasks.
//
// If ctx is done before or while Wait waits, Wait returns ctx.Err() unchanged, and the errors
// are kept for the next Wait. Wait may never return if other goroutines keep submitting. Wait
// may be called at any time, including after Close.
func (p *Pool) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.zero() {
		return nil
	}
	if idle, err := p.awaitIdle(ctx, true); idle {
		return err
	}
	return ctx.Err()
}

// Close stops the pool from accepting tasks, waits until all accepted tasks have ended, and
// returns nil. Waiting and later calls that submit return [ErrClosed].
//
// If tasks are still running or queued when ctx is done, Close cancels them and returns without
// waiting: the contexts of running tasks end with the cause ErrClosed, and queued tasks fail with
// ErrClosed. The error of Close then reports how many tasks were canceled, and matches ctx.Err().
// Call [Pool.Wait] to wait for the tasks that are still running. If the pool is idle, Close returns
// nil even if ctx is done.
//
// Close may be called again and concurrently. Each call waits until the pool is idle or its
// own ctx is done; the first call whose ctx is done cancels for all. The tasks' errors are
// kept for Wait. Close does not close the limiter.
func (p *Pool) Close(ctx context.Context) error {
	if p.zero() {
		return nil
	}
	p.mu.Lock()
	p.closed = true
	for p.calls.n > 0 {
		if caller := p.calls.pop().turn.caller; caller.Decide(wait.Ended) {
			caller.Wake()
		}
	}
	p.mu.Unlock()
	p.closing.End(ErrClosed)
	if idle, _ := p.awaitIdle(ctx, false); idle {
		p.tasks.Cancel(ErrClosed)
		return nil
	}
	running, queued := p.cancel()
	return fmt.Errorf("worker: closed with %d running and %d queued tasks canceled: %w", running, queued, ctx.Err())
}

// cancel drops the queued tasks and ends the contexts of the running ones. It returns how
// many tasks were running and how many were queued.
func (p *Pool) cancel() (running, queued int) {
	p.mu.Lock()
	running, queued = p.countLocked()
	var owners []*owner
	for p.queue.n > 0 {
		j := p.queue.pop()
		p.counts.Done++
		p.counts.Failed++
		if j.owner == nil {
			p.failures.add(ErrClosed)
		}
		owners = append(owners, j.owner)
	}
	p.idleLocked()
	p.mu.Unlock()
	p.life.End(ErrClosed)
	for _, o := range owners {
		o.finish(ErrClosed)
	}
	return running, queued
}

// countLocked returns how many tasks are running and how many are queued.
func (p *Pool) countLocked() (running, queued int) {
	if p.asking && p.queueLimit > 0 { // otherwise the job is not accepted
		return p.running, p.queue.n + 1
	}
	return p.running, p.queue.n
}

// idleCall is a Wait or Close call that waits until the pool is idle: it has no task and no worker.
type idleCall struct {
	takes bool  // a Wait call, which takes the tasks' errors
	err   error // these errors
}

// awaitIdle waits until the pool is idle, and returns the tasks' errors to a call that takes them. It reports
// false if ctx is done first.
func (p *Pool) awaitIdle(ctx context.Context, takes bool) (idle bool, failures error) {
	done := ctx.Done()
	p.mu.Lock()
	if p.isIdleLocked() {
		done = nil
	}
	w := p.idle.Push(done, idleCall{takes: takes})
	p.idleLocked()
	p.mu.Unlock()
	c, outcome := w.Wait(&p.mu)
	return outcome == wait.Granted, c.err
}

// idleLocked wakes the Wait and Close calls if the pool is idle.
func (p *Pool) idleLocked() {
	if p.idle.Empty() || !p.isIdleLocked() {
		return
	}
	var failures error
	for w := p.idle.Decide(wait.Granted); w != nil; w = p.idle.Decide(wait.Granted) {
		if w.Value.takes {
			failures = cmp.Or(p.failures.take(), failures)
			w.Value.err = failures
		}
		w.Wake()
	}
}

func (p *Pool) isIdleLocked() bool {
	running, queued := p.countLocked()
	return p.workers+running+queued == 0
}
