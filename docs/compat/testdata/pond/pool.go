// Package pond has the pools of github.com/alitto/pond/v2 over a worker.Pool; pond's groups, futures and results are
// built on them.
package pond

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/alitto/pond/v2/internal/future"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// Unbounded is a queue size.
const Unbounded = math.MaxInt

// The errors of pools.
var (
	ErrQueueFull   = errors.New("queue is full")
	ErrPoolStopped = errors.New("pool stopped")
)

// BasePool is what all pools have.
type BasePool interface {
	RunningWorkers() int64
	SubmittedTasks() uint64
	WaitingTasks() uint64
	FailedTasks() uint64
	SuccessfulTasks() uint64
	CompletedTasks() uint64
	DroppedTasks() uint64
	CanceledTasks() uint64
	MaxConcurrency() int
	QueueSize() int
	NonBlocking() bool
	Context() context.Context
	Stop() Task
	StopAndWait()
	Stopped() bool
	Resize(maxConcurrency int)
}

// Pool runs functions.
type Pool interface {
	BasePool

	Go(task func()) error
	Submit(task func()) Task
	SubmitErr(task func() error) Task
	TrySubmit(task func()) (Task, bool)
	TrySubmitErr(task func() error) (Task, bool)
	NewSubpool(maxConcurrency int, options ...Option) Pool
	NewGroup() TaskGroup
	NewGroupContext(ctx context.Context) TaskGroup
}

type pool struct {
	ctx           context.Context
	cancel        context.CancelCauseFunc
	queueSize     int
	nonBlocking   bool
	panicRecovery bool

	limiter   *core.ConcurrencyLimiter
	pool      *worker.Pool
	parent    *pool // runs the tasks of a subpool
	resizing  sync.Mutex
	closed    atomic.Bool
	submitted atomic.Uint64
	dropped   atomic.Uint64
	failed    atomic.Uint64
	canceled  atomic.Uint64
}

// NewPool returns a pool that runs at most maxConcurrency functions at a time; 0 means no limit.
func NewPool(maxConcurrency int, options ...Option) Pool {
	return newPool(maxConcurrency, nil, options...)
}

func newPool(maxConcurrency int, parent *pool, options ...Option) *pool {
	p := &pool{ctx: context.Background(), queueSize: Unbounded, panicRecovery: true, parent: parent}
	if parent != nil {
		if maxConcurrency > parent.MaxConcurrency() {
			panic(fmt.Errorf("maxConcurrency cannot be greater than the parent pool's maxConcurrency (%d)", parent.MaxConcurrency()))
		}
		if maxConcurrency == 0 {
			maxConcurrency = parent.MaxConcurrency()
		}
		p.ctx, p.queueSize, p.nonBlocking, p.panicRecovery = parent.ctx, parent.queueSize, parent.nonBlocking, parent.panicRecovery
	}
	for _, o := range options {
		o(p)
	}
	p.ctx, p.cancel = context.WithCancelCause(p.ctx)
	p.limiter = core.Must(core.NewConcurrencyLimiter(limit(maxConcurrency)))
	p.pool = core.Must(worker.New(worker.Options{Limiter: p.limiter, Queue: p.queueSize}))
	return p
}

func limit(maxConcurrency int) core.ConcurrencyLimiterOptions {
	if maxConcurrency < 0 {
		panic(errors.New("maxConcurrency must be greater than or equal to 0"))
	}
	if maxConcurrency == 0 {
		maxConcurrency = math.MaxInt
	}
	return core.ConcurrencyLimiterOptions{PermitLimit: maxConcurrency, QueueLimit: math.MaxInt}
}

func (p *pool) Context() context.Context { return p.ctx }
func (p *pool) Stopped() bool            { return p.closed.Load() || p.ctx.Err() != nil }
func (p *pool) MaxConcurrency() int      { return p.limiter.Options().PermitLimit }
func (p *pool) QueueSize() int           { return p.queueSize }
func (p *pool) NonBlocking() bool        { return p.nonBlocking }
func (p *pool) WaitingTasks() uint64     { return uint64(p.pool.Statistics().Queued) }
func (p *pool) SubmittedTasks() uint64   { return p.submitted.Load() }
func (p *pool) DroppedTasks() uint64     { return p.dropped.Load() }
func (p *pool) CanceledTasks() uint64    { return p.canceled.Load() }

func (p *pool) FailedTasks() uint64    { return p.failed.Load() }
func (p *pool) CompletedTasks() uint64 { return p.SuccessfulTasks() + p.FailedTasks() }

// RunningWorkers counts a worker that is between two tasks, as pond does.
func (p *pool) RunningWorkers() int64 {
	s := p.pool.Statistics()
	return int64(max(s.Running, min(s.Running+s.Queued, p.MaxConcurrency())))
}

func (p *pool) SuccessfulTasks() uint64 {
	s := p.pool.Statistics()
	return s.Done - s.Failed - s.Panicked
}

// Resize changes how many functions run at a time.
func (p *pool) Resize(maxConcurrency int) {
	p.resizing.Lock()
	defer p.resizing.Unlock()
	if err := p.limiter.Update(limit(maxConcurrency)); err != nil {
		panic(err)
	}
}

func (p *pool) Go(task func()) error { return p.submit(task, p.nonBlocking) }

func (p *pool) Submit(task func()) Task {
	f, _ := p.wrapAndSubmit(task, p.nonBlocking)
	return f
}

func (p *pool) SubmitErr(task func() error) Task {
	f, _ := p.wrapAndSubmit(task, p.nonBlocking)
	return f
}

func (p *pool) TrySubmit(task func()) (Task, bool)          { return p.wrapAndSubmit(task, true) }
func (p *pool) TrySubmitErr(task func() error) (Task, bool) { return p.wrapAndSubmit(task, true) }

func (p *pool) wrapAndSubmit(task any, nonBlocking bool) (Task, bool) {
	f, resolve := future.NewFuture(p.ctx)
	if p.Stopped() {
		f, resolve = future.NewFuture(context.Background())
		resolve(ErrPoolStopped)
		return f, false
	}
	if err := p.submit(wrapTask[struct{}, func(error)](task, resolve, p.ctx, p.panicRecovery), nonBlocking); err != nil {
		resolve(err)
		return f, false
	}
	return f, true
}

// submit gives the pool a task of any of the types that invokeTask knows.
func (p *pool) submit(task any, nonBlocking bool) error {
	p.submitted.Add(1)
	err := p.give(func(context.Context) error { return p.run(task) }, nonBlocking)
	if err != nil {
		p.dropped.Add(1)
	}
	return err
}

func (p *pool) give(task worker.Task, nonBlocking bool) error {
	if p.Stopped() {
		return ErrPoolStopped
	}
	var err error
	if nonBlocking {
		err = p.pool.TrySubmit(task)
	} else {
		err = p.pool.Submit(p.ctx, task)
	}
	switch {
	case errors.Is(err, worker.ErrClosed):
		return ErrPoolStopped
	case errors.Is(err, core.ErrRejected):
		return ErrQueueFull
	}
	return err
}

// run calls the task, or has the parent call it.
func (p *pool) run(task any) (err error) {
	err = worker.ErrGoexit
	defer func() { p.count(err) }()
	if p.parent == nil {
		_, err = invokeTask[any](task, p.panicRecovery)
		return err
	}
	done := make(chan struct{})
	refused := p.parent.submit(func() error {
		defer close(done)
		_, err = invokeTask[any](task, p.panicRecovery)
		return err
	}, false)
	if refused != nil {
		err = errors.Join(ErrContextCanceled, refused)
		p.parent.count(err)
		return err
	}
	<-done
	return err
}

// count counts a task that has not succeeded. Statistics has those that have.
func (p *pool) count(err error) {
	switch {
	case errors.Is(err, ErrContextCanceled):
		p.canceled.Add(1)
	case err != nil:
		p.failed.Add(1)
	}
}

// Stop ends the pool once all of its tasks have ended.
func (p *pool) Stop() Task {
	return Submit(func() {
		p.closed.Store(true)
		_ = p.pool.Close(context.Background())
		p.cancel(ErrPoolStopped)
	})
}

func (p *pool) StopAndWait() { _ = p.Stop().Wait() }

func (p *pool) NewSubpool(maxConcurrency int, options ...Option) Pool {
	return newPool(maxConcurrency, p, options...)
}

func (p *pool) NewGroup() TaskGroup                           { return newTaskGroup(p, p.ctx) }
func (p *pool) NewGroupContext(ctx context.Context) TaskGroup { return newTaskGroup(p, ctx) }
