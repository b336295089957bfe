// Package workerpool has the API of github.com/gammazero/workerpool over a worker.Pool, so that its tests can run with
// ours, with what they look at inside.
package workerpool

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// ErrStopped is the error of tasks that come after Stop, or are in the queue then.
var ErrStopped = errors.New("submitting work to stopped workerpool")

// Option is an option of New. WithIdleTimeout has no effect: an idle worker.Pool has no goroutines.
type Option struct{}

// WithIdleTimeout returns an Option.
func WithIdleTimeout(time.Duration) Option { return Option{} }

// WorkerPool runs functions, maxWorkers of them at once, and queues any number.
type WorkerPool struct {
	maxWorkers   int
	workerQueue  chan func() // to idle workers, of which there are none
	waitingQueue queue

	pool       *worker.Pool
	stop       sync.Once
	stopSignal chan struct{} // closed when a stop begins
	stopped    atomic.Bool
	pausing    sync.Mutex
}

// New returns a pool of maxWorkers, 1 at least.
func New(maxWorkers int, _ ...Option) *WorkerPool {
	maxWorkers = max_(maxWorkers, 1)
	limiter := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: maxWorkers}))
	pool := core.Must(worker.New(worker.Options{Limiter: limiter, Queue: math.MaxInt}))
	return &WorkerPool{maxWorkers: maxWorkers, waitingQueue: queue{pool: pool}, pool: pool, stopSignal: make(chan struct{})}
}

// max_ is max: the tests have a constant of that name.
func max_(a, b int) int {
	if a > b {
		return a
	}
	return b
}

// Size returns the number of workers.
func (p *WorkerPool) Size() int { return p.maxWorkers }

// Stopped reports whether the pool takes no more tasks.
func (p *WorkerPool) Stopped() bool { return p.stopped.Load() }

// WaitingQueueSize returns how many tasks wait; after Stop, how many were abandoned.
func (p *WorkerPool) WaitingQueueSize() int { return p.waitingQueue.Len() }

// Stop abandons the tasks that wait, and waits for the others.
func (p *WorkerPool) Stop() {
	p.end(func() {
		p.waitingQueue.abandoned.Store(int64(p.pool.Statistics().Queued))
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.pool.Close(ended)
	})
}

// StopWait waits for all tasks.
func (p *WorkerPool) StopWait() { p.end(func() {}) }

func (p *WorkerPool) end(abandon func()) {
	p.stop.Do(func() {
		close(p.stopSignal)
		p.pausing.Lock() // a Pause that has begun pauses first
		p.stopped.Store(true)
		p.pausing.Unlock()
		abandon()
	})
	_ = p.pool.Close(context.Background())
}

// Do gives the pool a task.
func (p *WorkerPool) Do(task func()) error {
	if task == nil {
		return nil
	}
	return of(p.pool.Submit(context.Background(), func(context.Context) error {
		task()
		return nil
	}))
}

// DoWait runs a task and waits for it.
func (p *WorkerPool) DoWait(task func()) error {
	if task == nil {
		return nil
	}
	_, err := worker.Do(context.Background(), p.pool, func(context.Context) (struct{}, error) {
		task()
		return struct{}{}, nil
	})
	return of(err)
}

func of(err error) error {
	if errors.Is(err, worker.ErrClosed) {
		return ErrStopped
	}
	return err
}

// Submit is Do, but panics after Stop.
func (p *WorkerPool) Submit(task func()) {
	if err := p.Do(task); err != nil {
		panic(err)
	}
}

// SubmitWait is DoWait, but panics after Stop.
func (p *WorkerPool) SubmitWait(task func()) {
	if err := p.DoWait(task); err != nil {
		panic(err)
	}
}

// Pause keeps all workers busy until ctx is done or the pool is stopped. It returns when they are.
func (p *WorkerPool) Pause(ctx context.Context) {
	p.pausing.Lock()
	defer p.pausing.Unlock()
	if p.stopped.Load() {
		return
	}
	var ready sync.WaitGroup
	ready.Add(p.maxWorkers)
	for range p.maxWorkers {
		p.Submit(func() {
			ready.Done()
			select {
			case <-ctx.Done():
			case <-p.stopSignal:
			}
		})
	}
	ready.Wait()
}

// killIdleWorker ends an idle worker, of which there are none.
func (p *WorkerPool) killIdleWorker() bool { return false }

// queue is what waits in a pool.
type queue struct {
	pool      *worker.Pool
	abandoned atomic.Int64
}

func (q *queue) Len() int { return q.pool.Statistics().Queued + int(q.abandoned.Load()) }
func (q *queue) Cap() int { return q.pool.Statistics().Queued }
