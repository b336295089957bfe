package worker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// Pool runs tasks, each under a lease of its limiter. Make it with [New]; the zero Pool
// refuses with [ErrClosed]. It is safe for concurrent use.
//
// Most callers want [Pool.Submit] and [Pool.Wait], or [Do] and [Map] for results. A task
// may submit to its own pool, but should use TrySubmit for that: one that waits in Submit
// or Do keeps a lease that others, perhaps the very task, wait for. A task that calls Wait
// or Close of its own pool waits for itself.
//
// Tasks that are queued start in the order in which they were accepted.
//
// # The states of a task
//
//	Submit -+-> blocked --> waiting --> asked for --> running --> ended
//	        |                  |            |            ^
//	        +----------------->+            +--> ended   |
//	        +--> asked for --> ready --------------------+
//
// With a queue a task is waiting, after it was blocked for room if there was none, until
// the limiter is asked for its lease; one at a time is, so that nobody overtakes. Without
// a queue the Submit call itself asks, after it was blocked for a worker's place if there
// was none; the task is then ready. With a queue a Submit call asks too if nobody waits.
type Pool struct {
	permits
	onPanic       func(any, []byte)
	cancelOnError bool
	most          int    // workers at most; 0: no bound of the pool's own
	queue         int    // room for tasks that wait
	begin         func() // p.work; made once, for a go statement that allocates nothing
	background    context.Context

	round atomic.Pointer[round] // written under the mutex, when there are no tasks

	// mu guards what follows. Nothing blocks while it is held, and no code of others is
	// called; plain permits are taken and given back under it.
	mu      sync.Mutex
	ready   ring[admitted] // tasks that have a lease and no worker yet
	waiting ring[entry]    // tasks that have none, and those that were dropped
	dropped int            // how many of waiting were
	running int            // tasks that have a lease, ready or not, and the one that is asked for

	// reserved are the places of workers beside those that run tasks, of a pool that bounds
	// them: of Submit calls that ask for a lease, and of calls of OnPanic.
	reserved int
	promised int // room in the queue for Submit calls that were blocked and are on their way
	workers  int // goroutines

	// scouted: one worker, and no other, has been started or stays awake to look for work.
	// Whoever adds work while there is no scout starts one; a scout that finds a task starts
	// the next before it runs it, if there is more. So every task finds a worker however
	// long the others take, and short tasks start few goroutines.
	scouted bool

	asked inquiry // ends without the mutex, as a task that was asked for starts

	blocked waiters // Submit calls that wait for a worker's place or for room in the queue
	idlers  waiters // Wait and Close calls

	closed bool
	ended  error // why nothing more starts in this round: the first error, or a Close; nil: it goes on

	done, failed, panicked uint64
	failures               failures
}

// New returns a pool, or what is wrong with the options, all at once. A pool that has
// nothing to do holds no goroutine.
func New(o Options) (*Pool, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	p := &Pool{
		permits: permitsOf(o.Limiter), onPanic: o.OnPanic, cancelOnError: o.CancelOnError,
		most: o.Workers, queue: o.Queue,
		background: context.Background(), //nolint:forbidigo // tasks outlive every caller's context; their round ends theirs
	}
	p.begin = p.work
	p.round.Store(newRound(p.background))
	return p, nil
}

// Statistics returns the pool's counts. They go on after Close.
func (p *Pool) Statistics() Statistics {
	p.mu.Lock()
	defer p.mu.Unlock()
	running, queued := p.countLocked()
	return Statistics{
		Running: running, Queued: queued,
		Done: p.done, Failed: p.failed, Panicked: p.panicked,
	}
}

// String returns a line for a person: the statistics.
func (p *Pool) String() string { return "pool: " + p.Statistics().String() }

// Wait waits until no task runs or is queued, and returns the errors of those that ended
// since the last Wait that did, joined: returned errors, a *[PanicError] for each panic
// unless Options.OnPanic is set, [ErrGoexit], the refusal that kept a queued task from
// starting. The errors of Do and Map are their callers', unless they cancelled the round.
// It keeps the first 100 errors and says how many more there were. Waits that wait at the
// same time get the same errors.
//
// A done ctx, then or later, ends it with ctx.Err(), unchanged; the errors stay for the
// next. While others keep submitting, there may never be a moment without a task. It can
// be called at any time, after Close too.
func (p *Pool) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	if p.idleLocked() {
		defer p.mu.Unlock()
		return p.takeFailuresLocked()
	}
	w := p.idlers.add()
	w.errors = true
	p.mu.Unlock()
	if !p.awaitRest(ctx, w) {
		return ctx.Err()
	}
	return w.err
}

// Close stops the pool from accepting tasks, waits until those that it has accepted have
// ended, and returns nil. A caller that waits to submit gets [ErrClosed], as does every
// later one.
//
// When ctx is done first, Close cancels: the tasks' context ends with the cause ErrClosed,
// tasks that have not started fail with ErrClosed, and Close returns at once, with an error
// that says what was cancelled and matches ctx.Err(). Wait then waits for the rest.
//
// It can be called again and by many at once: each waits by its own ctx, and the first
// whose ctx is done cancels. The tasks' errors stay for Wait. The limiter stays open.
func (p *Pool) Close(ctx context.Context) error {
	if p.limiter == nil {
		return nil
	}
	p.mu.Lock()
	p.closed = true
	p.refuseBlockedLocked()
	r := p.round.Load()
	if p.idleLocked() {
		p.mu.Unlock()
		r.end(ErrClosed)
		return nil
	}
	w := p.idlers.add()
	p.mu.Unlock()
	r.admission.End(ErrClosed)
	if p.awaitRest(ctx, w) {
		r.end(ErrClosed)
		return nil
	}
	p.mu.Lock()
	running, queued := p.countLocked()
	err := fmt.Errorf("worker: cancelled %d running and %d queued tasks: %w", running, queued, ctx.Err())
	p.unlockAndCancel(ErrClosed)
	return err
}

// unlockAndCancel cancels the round: it drops what is queued, and ends the contexts of what
// runs. The mutex is held before, not after.
func (p *Pool) unlockAndCancel(cause error) {
	if p.ended == nil {
		p.ended = cause
	}
	var calls []*call
	for ; p.waiting.n > 0; p.waiting.pop() {
		e := p.waiting.front()
		if e.gone() {
			continue
		}
		p.failLocked(e.call, cause)
		if e.call != nil {
			e.call.queued = false
			calls = append(calls, e.call)
		}
	}
	p.dropped = 0
	p.asked.heeded() // so that a task which was asked for starts before this, or not at all
	p.refuseBlockedLocked()
	r := p.round.Load()
	p.restLocked()
	p.mu.Unlock()
	// Now that no task is queued, none can take the place of one that ends.
	r.end(cause)
	for _, c := range calls {
		c.settle(cause)
	}
}

// failLocked counts a task that ended without having started. Its error is its call's, if
// it has one; else it is for Wait, which returns the error that cancelled a round once.
func (p *Pool) failLocked(c *call, err error) {
	p.done++
	p.failed++
	if c == nil && (p.ended == nil || p.ended == ErrClosed) { //nolint:errorlint // that very error
		p.failures.add(err)
	}
}

// refusalLocked returns why no task is accepted now.
func (p *Pool) refusalLocked() error {
	if p.closed {
		return ErrClosed
	}
	return p.ended
}

// refuseBlockedLocked wakes the Submit calls that are blocked, for nothing.
func (p *Pool) refuseBlockedLocked() {
	for w := p.blocked.first; w != nil; w = p.blocked.first {
		w.err = p.refusalLocked()
		p.blocked.wake(w)
	}
}

// waitingLocked returns how many tasks nobody has asked for yet.
func (p *Pool) waitingLocked() int { return p.waiting.n - p.dropped }

// countLocked returns how many tasks run, and how many are queued, at one instant. The one
// that is asked for is queued.
func (p *Pool) countLocked() (running, queued int) {
	running, queued = p.running, p.waitingLocked()
	if p.asked.now() {
		return running - 1, queued + 1
	}
	return running, queued
}

// idleLocked reports whether there is nothing to wait for. A worker that still looks for
// work counts, so that a pool that has been waited for has no goroutine.
func (p *Pool) idleLocked() bool {
	return p.running == 0 && p.workers == 0 && p.waitingLocked() == 0
}

// drained reports whether the pool was closed and all that it had accepted ran.
func (p *Pool) drained() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed && p.ended == nil && p.idleLocked()
}

// restLocked ends the Wait and Close calls if there is nothing to wait for.
func (p *Pool) restLocked() {
	if p.idlers.first == nil || !p.idleLocked() {
		return
	}
	var err error
	for w := p.idlers.first; w != nil; w = w.next {
		if w.errors {
			err = p.takeFailuresLocked()
			break
		}
	}
	for w := p.idlers.first; w != nil; w = p.idlers.first {
		w.err = err
		p.idlers.wake(w)
	}
}

// takeFailuresLocked returns the errors for a Wait. A round that was cancelled is over.
func (p *Pool) takeFailuresLocked() error {
	if p.ended != nil && !p.closed {
		p.ended = nil
		p.round.Store(newRound(p.background))
	}
	return p.failures.take()
}

// awaitRest waits for an idler to be woken. It reports false if ctx was done before.
func (p *Pool) awaitRest(ctx context.Context, w *waiter) bool {
	select {
	case <-w.ready:
		return true
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.woken {
		return true // and has the errors, which no other Wait will get
	}
	p.idlers.remove(w)
	return false
}
