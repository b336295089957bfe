// Package after runs jobs with a worker.Pool.
package after

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// Pool runs jobs in the background, 8 at once. A hundred more may wait.
type Pool struct{ pool *worker.Pool }

// NewPool returns a pool.
func NewPool() (*Pool, error) {
	limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 8, QueueLimit: 100})
	if err != nil {
		return nil, err
	}
	pool, err := worker.New(worker.Options{Limiter: limiter})
	return &Pool{pool}, err
}

// Run waits until a worker takes the job. It fails if a hundred others are waiting, or if ctx ends.
func (p *Pool) Run(ctx context.Context, job func()) error {
	return p.pool.Submit(ctx, func(context.Context) error { job(); return nil })
}

// Close lets the running jobs end, for at most a minute.
func (p *Pool) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return p.pool.Close(ctx)
}
