// Package pool has the Pool of github.com/sourcegraph/conc over a worker.Pool; conc's other pools are built on it.
package pool

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
	"github.com/sourcegraph/conc"
	"github.com/sourcegraph/conc/panics"
)

// New returns a Pool.
func New() *Pool { return new(Pool) }

// Pool runs functions, a limited number of them at once.
type Pool struct {
	limit    int // 0: no limit
	once     sync.Once
	pool     *worker.Pool
	panicked atomic.Pointer[panics.Recovered]
}

// Go runs f, and waits until it may start.
func (p *Pool) Go(f func()) {
	err := p.started().Submit(context.Background(), func(context.Context) error {
		f()
		return nil
	})
	if err != nil {
		panic(err)
	}
}

// Wait ends the pool, waits for all functions, and panics if one did.
func (p *Pool) Wait() {
	if err := p.started().Close(context.Background()); err != nil {
		panic(err)
	}
	if r := p.panicked.Load(); r != nil {
		panic(r)
	}
}

// MaxGoroutines returns the limit.
func (p *Pool) MaxGoroutines() int { return p.limit }

// WithMaxGoroutines sets the limit.
func (p *Pool) WithMaxGoroutines(n int) *Pool {
	p.panicIfInitialized()
	if n < 1 {
		panic("max goroutines in a pool must be greater than zero")
	}
	p.limit = n
	return p
}

// WithErrors returns a pool of functions that return an error.
func (p *Pool) WithErrors() *ErrorPool { return &ErrorPool{pool: p.deref()} }

// WithContext returns a pool of functions that take a context.
func (p *Pool) WithContext(ctx context.Context) *ContextPool {
	ctx, cancel := context.WithCancel(ctx)
	return &ContextPool{errorPool: p.WithErrors().deref(), ctx: ctx, cancel: cancel}
}

func (p *Pool) panicIfInitialized() {
	if p.pool != nil {
		panic("pool can not be reconfigured after calling Go() for the first time")
	}
}

func (p *Pool) deref() Pool {
	p.panicIfInitialized()
	return Pool{limit: p.limit} //nolint:govet // not used yet
}

func (p *Pool) started() *worker.Pool {
	p.once.Do(func() {
		limiter := core.Unlimited()
		if p.limit > 0 {
			limiter = core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: p.limit, QueueLimit: math.MaxInt}))
		}
		p.pool = conc.NewPool(limiter, &p.panicked)
	})
	return p.pool
}
