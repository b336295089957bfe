package worker

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
)

// Task is what a pool runs. Its context ends when Close cancels what runs, and when the
// pool is closed and drained; the context given to Submit does not reach it.
type Task func(ctx context.Context) error

// Pool runs tasks, each under a lease of its limiter. Make it with [New]; the zero Pool
// refuses with [ErrClosed]. It is safe for concurrent use.
//
// Most callers want [Pool.Submit] and [Pool.Wait], or [Do] and [Map] for results. A task
// may submit to its own pool, but should use TrySubmit for that: one that waits in Submit
// or Do keeps a lease that others, perhaps the very task, wait for. A task that calls Wait
// or Close of its own pool waits for itself.
//
// Tasks that are queued start in the order in which they were accepted.
type Pool struct {
	limiter core.Limiter
	onPanic func(any, []byte)
	most    int    // workers at most; 0: no bound of the pool's own
	queue   int    // room of waiting
	rated   bool   // permits come with time, so that what is held says nothing
	begin   func() // p.work; made once, for a go statement that allocates nothing

	ctx     context.Context // the tasks'; ends when they are cancelled
	cancel  context.CancelCauseFunc
	closing context.Context // ends when Close begins
	shut    context.CancelFunc

	// These are read without the mutex too, as hints.
	limit  atomic.Int64 // the limiter's, when last looked at; as good as infinite if unknown
	closed atomic.Bool  // written under the mutex

	// caution is above 0 for some admissions after the limiter refused what, by held, it
	// should have had: others use it too, or a lease was just on its way back.
	caution atomic.Int32

	// mu guards what follows. It is a leaf: neither the limiter nor anybody else's code is
	// called while it is held, and nothing blocks.
	mu       sync.Mutex
	ready    ring[admitted] // tasks that have a lease and no worker yet
	waiting  ring[entry]    // tasks that have none, and those that were dropped
	dropped  int            // how many of waiting were
	running  int            // tasks that have a lease, ready or not
	queued   int            // tasks that have none: waiting less dropped, and the leader's
	reserved int            // workers that Submit calls and the leader have reserved
	room     int            // room in the queue that Submit calls have reserved
	workers  int            // goroutines
	held     int64          // the weight of what runs, or is about to

	// searching: one worker, and no other, has been started or stays awake to look for
	// work. Whoever adds work while nobody searches starts one; a searcher that finds a
	// task starts the next before it runs it, if there is more. So every task finds a
	// worker however long the others take, and short tasks start few goroutines.
	searching bool

	// leading: one worker waits in the limiter for the task at the head of the queue. The
	// others leave the queue alone till then: so one goroutine waits, whatever is queued,
	// and nobody overtakes.
	leading bool

	blocked waiters // Submit calls that wait for a worker or for room in the queue
	idlers  waiters // Wait and Close calls

	done, failed, panicked uint64
	failures               failures
}

// New returns a pool, or what is wrong with the options, all at once. A pool that has
// nothing to do holds no goroutine.
func New(o Options) (*Pool, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	p := &Pool{limiter: o.Limiter, onPanic: o.OnPanic, most: o.Workers, queue: o.Queue}
	p.begin = p.work
	//nolint:forbidigo // tasks outlive every caller's context; Close ends theirs
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	//nolint:forbidigo // it is no caller's either
	p.closing, p.shut = context.WithCancel(context.Background())
	if r, ok := o.Limiter.(core.Replenisher); ok {
		p.rated = r.ReplenishmentPeriod() > 0
	}
	p.look()
	return p, nil
}

// look notes the limiter's limit.
func (p *Pool) look() {
	limit := math.MaxInt
	if r, ok := p.limiter.(core.Reporter); ok {
		if l := r.Statistics().Limit; l > 0 {
			limit = l
		}
	}
	p.limit.Store(int64(limit))
}

// Statistics returns the pool's counts. They go on after Close.
func (p *Pool) Statistics() Statistics {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Statistics{
		Running: p.running, Queued: p.queued,
		Done: p.done, Failed: p.failed, Panicked: p.panicked,
	}
}

// String returns a line for a person: the statistics.
func (p *Pool) String() string { return "pool: " + p.Statistics().String() }

// Wait waits until no task runs or is queued, and returns the errors of those that ended
// since the last Wait that did, joined: returned errors, a *[PanicError] for each panic
// unless Options.OnPanic is set, [ErrGoexit], the refusal that kept a queued task from
// starting. The errors of Do and Map are their callers'. It keeps the first 100 errors and
// says how many more there were. Waits that wait at the same time get the same errors.
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
		return p.failures.take()
	}
	w := p.idlers.add()
	w.errors = true
	p.mu.Unlock()
	if !p.await(ctx, w) {
		return ctx.Err()
	}
	return w.err
}

// Close stops the pool from accepting tasks, waits until those that it has accepted have
// ended, and returns nil. Who waits to submit gets [ErrClosed], as does every later caller.
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
	p.closed.Store(true)
	for p.blocked.first != nil {
		p.blocked.wake(p.blocked.first)
	}
	if p.idleLocked() {
		p.mu.Unlock()
		p.shut()
		p.cancel(ErrClosed)
		return nil
	}
	w := p.idlers.add()
	p.mu.Unlock()
	p.shut() // ends the Submit calls that wait in the limiter
	if p.await(ctx, w) {
		p.cancel(ErrClosed)
		return nil
	}
	return p.cut(ctx.Err())
}

// cut drops what is queued, cancels what runs, and returns that it did.
func (p *Pool) cut(err error) error {
	p.mu.Lock()
	cancelled := fmt.Errorf("worker: cancelled %d running and %d queued tasks: %w", p.running, p.queued, err)
	var calls []*call
	for ; p.waiting.n > 0; p.waiting.pop() {
		e := p.waiting.front()
		if e.gone() {
			continue
		}
		p.queued--
		p.failLocked(e.call, ErrClosed)
		if e.call != nil {
			e.call.queued = false
			calls = append(calls, e.call)
		}
	}
	p.dropped = 0
	p.restLocked()
	p.mu.Unlock()
	// Now that no task is queued, none can take the place of one that ends.
	p.cancel(ErrClosed)
	for _, c := range calls {
		c.settle(ErrClosed)
	}
	return cancelled
}

// failLocked counts a task that ended without having started. Its error is its call's, if
// it has one; else it is for Wait.
func (p *Pool) failLocked(c *call, err error) {
	p.done++
	p.failed++
	if c == nil {
		p.failures.add(err)
	}
}

// idleLocked reports whether there is nothing to wait for. A worker that still looks for
// work counts, so that a pool that has been waited for has no goroutine.
func (p *Pool) idleLocked() bool { return p.running == 0 && p.queued == 0 && p.workers == 0 }

// restLocked ends the Wait and Close calls if there is nothing to wait for.
func (p *Pool) restLocked() {
	if p.idlers.first == nil || !p.idleLocked() {
		return
	}
	var err error
	for w := p.idlers.first; w != nil; w = w.next {
		if w.errors {
			err = p.failures.take()
			break
		}
	}
	for w := p.idlers.first; w != nil; w = p.idlers.first {
		w.err = err
		p.idlers.wake(w)
	}
}

// await waits for an idler to be woken. It reports false if ctx was done before.
func (p *Pool) await(ctx context.Context, w *waiter) bool {
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
