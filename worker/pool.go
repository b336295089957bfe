package worker

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	"github.com/sluice-go/sluice/internal/linked"
)

// Pool runs tasks, each under a lease of its limiter. Make it with [New]; the zero Pool
// refuses tasks with [ErrClosed]. It is safe for concurrent use.
//
// Most callers want [Pool.Group] for tasks that belong together, or [Do] and [Map] for
// results. Queued tasks start in the order in which they were accepted.
//
// A task may submit to its own pool, but should use TrySubmit: while it waits in Submit, Do
// or Group.Go it keeps a lease that others, perhaps the very task it submits, wait for. A
// task that calls Wait or Close of its own pool waits for itself.
type Pool struct {
	permits
	onPanic    func(any, []byte)
	most       int    // the maximum number of workers; 0: no maximum
	queue      int    // the maximum number of accepted tasks without a lease
	begin      func() // p.work; made once, for a go statement that allocates nothing
	background context.Context

	closing linked.Source // ends as Close begins: for Submit calls that wait in the limiter
	life    linked.Source // ends as Close cancels: for the contexts of Do, Map and Group

	// mu guards all below. No goroutine blocks or calls user code while it holds mu, but for
	// the Err method of a waiting call's context. Plain permits are taken and given back
	// under mu.
	mu      sync.Mutex
	phase   phase
	ready   ring[admitted] // tasks that have a lease and no worker yet
	waiting ring[entry]    // tasks that have no lease, and entries that were dropped
	dropped int            // how many entries of waiting were dropped

	// The leader is the worker that has taken the head of the queue and asks the limiter for
	// its lease. There is one at most, so nobody overtakes. Once it has the lease it starts
	// another worker if work is left, and runs its task.
	leading  bool
	starting bool // a worker was started and has not looked for work yet; one at most
	workers  int  // goroutines
	running  int  // tasks that have a lease, and the leader's

	// places counts the workers' places that are taken: by the tasks of running, each until
	// its OnPanic has returned, and by Submit calls that ask the limiter.
	places int

	blocked list.List // of *waiter: Submit calls that wait for a place or for room in the queue
	rest    *rest     // what Wait and Close calls wait for; nil: there are none

	tasks                  *taskContext // of the tasks that came by Submit; replaced at rest only
	done, failed, panicked uint64
	failures               failures
}

// phase is how far Close has come.
type phase uint8

const (
	open      phase = iota
	draining        // no task is accepted
	cancelled       // no task is started
)

// New returns a pool, or an error that lists every fault of the options.
func New(o Options) (*Pool, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	p := &Pool{
		permits: permitsOf(o.Limiter), onPanic: o.OnPanic, most: o.Workers, queue: o.Queue,
		background: context.Background(), //nolint:forbidigo // tasks outlive every caller's context; Close ends theirs
	}
	p.begin = p.work
	p.tasks = newTaskContext(p.background)
	return p, nil
}

// Statistics returns the pool's counts. It also works after Close.
func (p *Pool) Statistics() Statistics {
	p.mu.Lock()
	defer p.mu.Unlock()
	running, queued := p.countLocked()
	return Statistics{
		Running: running, Queued: queued,
		Done: p.done, Failed: p.failed, Panicked: p.panicked,
	}
}

// String returns the statistics on one line.
func (p *Pool) String() string { return "pool: " + p.Statistics().String() }

// Wait waits until no task runs or is queued. It returns the errors of the tasks given by
// Submit that have ended since an earlier Wait returned, joined: the errors they returned,
// a *[PanicError] for each panic unless Options.OnPanic is set, [ErrGoexit], and the error
// of the limiter for a queued task that it refused. It keeps the first 100 errors and
// reports how many more there were. Concurrent Waits return the same errors. Do, Map and
// Group return their own errors.
//
// If ctx is done, then or later, Wait returns ctx.Err() unchanged, and the errors are kept
// for the next Wait. While others keep submitting, there may never be a moment without a
// task. Wait can be called at any time, also after Close.
func (p *Pool) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.limiter == nil {
		return nil
	}
	_, err := p.awaitRest(ctx, 1)
	return err
}

// Close stops the pool from accepting tasks, waits until the tasks it has accepted have
// ended, and returns nil. Calls that wait to submit, and later ones, return [ErrClosed].
//
// If ctx is done first, Close cancels: the contexts of running tasks end with the cause
// ErrClosed, tasks that have not started fail with ErrClosed, and Close returns at once. Its
// error reports what was cancelled and matches ctx.Err(). [Pool.Wait] then waits for the
// tasks that still run.
//
// Close can be called again and concurrently: each call waits until its own ctx is done, and
// the first whose ctx is done cancels. The tasks' errors are kept for Wait. The limiter
// stays open.
func (p *Pool) Close(ctx context.Context) error {
	if p.limiter == nil {
		return nil
	}
	p.mu.Lock()
	p.phase = max(p.phase, draining)
	for p.blocked.Len() > 0 {
		p.wakeFirstLocked(ErrClosed)
	}
	p.mu.Unlock()
	p.closing.End(ErrClosed)
	if reached, _ := p.awaitRest(ctx, 0); reached {
		return nil
	}
	running, queued := p.cancel()
	return fmt.Errorf("worker: cancelled %d running and %d queued tasks: %w", running, queued, ctx.Err())
}

// cancel drops what is queued and ends the contexts of what runs. It returns how many tasks
// ran and how many were queued.
func (p *Pool) cancel() (running, queued int) {
	p.mu.Lock()
	p.phase = cancelled
	running, queued = p.countLocked()
	var calls []*call
	for e, ok := p.popLocked(); ok; e, ok = p.popLocked() {
		p.failLocked(e.call, ErrClosed)
		if e.call != nil {
			calls = append(calls, e.call)
		}
	}
	tasks := p.tasks
	p.restLocked()
	p.mu.Unlock()
	p.life.End(ErrClosed)
	tasks.cancel(ErrClosed)
	for _, c := range calls {
		c.settle(ErrClosed)
	}
	return running, queued
}

// failLocked counts a task that ended without having run.
func (p *Pool) failLocked(c *call, err error) {
	p.done++
	p.failed++
	if c == nil {
		p.failures.add(err)
	}
}

// countLocked returns how many tasks run and how many are queued. The leader's is queued.
func (p *Pool) countLocked() (running, queued int) {
	if p.leading {
		return p.running - 1, p.queuedLocked() + 1
	}
	return p.running, p.queuedLocked()
}

// idleLocked reports whether the pool is at rest: there is no task and no goroutine.
func (p *Pool) idleLocked() bool {
	return p.running == 0 && p.workers == 0 && p.queuedLocked() == 0
}

// restLocked notes that the pool is at rest, if it is.
func (p *Pool) restLocked() {
	if !p.idleLocked() {
		return
	}
	if p.phase != open {
		p.tasks.cancel(ErrClosed)
	} else if p.tasks.waited.Load() {
		p.tasks.cancel(nil)
		p.tasks = newTaskContext(p.background)
	}
	if p.rest == nil {
		return
	}
	if p.rest.waits > 0 {
		p.rest.err = p.failures.take()
	}
	close(p.rest.reached)
	p.rest = nil
}

// rest is the next moment at which the pool is at rest, that is, has no task and no worker.
type rest struct {
	reached chan struct{} // closed then
	waits   int           // Wait calls among those that wait for it; Pool.mu guards it
	err     error         // the tasks' errors, for Wait calls; set before reached is closed
}

// awaitRest waits until the pool is at rest, for so many Wait calls. If ctx is done before,
// it reports false.
func (p *Pool) awaitRest(ctx context.Context, waits int) (reached bool, err error) {
	p.mu.Lock()
	if p.rest == nil {
		p.rest = &rest{reached: make(chan struct{})}
	}
	r := p.rest
	r.waits += waits
	p.restLocked()
	p.mu.Unlock()
	select {
	case <-r.reached:
		return true, r.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r == p.rest {
		r.waits -= waits
		return false, ctx.Err()
	}
	return true, r.err // the errors must not be lost: no other Wait gets them
}
