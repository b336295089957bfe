// Package before runs jobs with github.com/panjf2000/ants.
package before

import (
	"time"

	"github.com/panjf2000/ants/v2"
)

// Pool runs jobs in the background, 8 at once. A hundred more may wait.
type Pool struct{ pool *ants.Pool }

// NewPool returns a pool.
func NewPool() (*Pool, error) {
	pool, err := ants.NewPool(8, ants.WithMaxBlockingTasks(100))
	return &Pool{pool}, err
}

// Run waits until a worker takes the job. It fails if a hundred others are waiting.
func (p *Pool) Run(job func()) error {
	return p.pool.Submit(job)
}

// Close lets the running jobs end, for at most a minute.
func (p *Pool) Close() error {
	return p.pool.ReleaseTimeout(time.Minute)
}
