// Package errgroup has the API of golang.org/x/sync/errgroup over a worker.Pool, so that its tests can run with ours.
package errgroup

import (
	"context"
	"math"
	"sync"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// Group is a set of functions of which the first error counts. It submits them one by one: a worker.Group starts nothing
// after an error or after Wait, as errgroup does.
type Group struct {
	cancel context.CancelCauseFunc
	pool   *worker.Pool
	closed bool // a limit of 0
	first  sync.Once
	err    error
}

// WithContext returns a group whose first error cancels the context.
func WithContext(ctx context.Context) (*Group, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{cancel: cancel}, ctx
}

// SetLimit bounds how many functions run at a time; a negative n is no limit.
func (g *Group) SetLimit(n int) {
	g.pool, g.closed = nil, n == 0
	if n > 0 {
		g.pool = newPool(core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: n, QueueLimit: math.MaxInt})))
	}
}

// Go runs f, and waits until it may start.
func (g *Group) Go(f func() error) {
	if err := g.group().Submit(context.Background(), g.task(f)); err != nil {
		panic(err)
	}
}

// TryGo runs f if it may start immediately, and reports whether it may.
func (g *Group) TryGo(f func() error) bool { return !g.closed && g.group().TrySubmit(g.task(f)) == nil }

// Wait waits for all functions, and returns the first error.
func (g *Group) Wait() error {
	if err := g.group().Wait(context.Background()); err != nil {
		panic(err)
	}
	if g.cancel != nil {
		g.cancel(g.err)
	}
	return g.err
}

func (g *Group) task(f func() error) worker.Task {
	return func(context.Context) error {
		if err := f(); err != nil {
			g.first.Do(func() {
				g.err = err
				if g.cancel != nil {
					g.cancel(err)
				}
			})
		}
		return nil
	}
}

func (g *Group) group() *worker.Pool {
	if g.pool == nil {
		g.pool = newPool(core.Unlimited())
	}
	return g.pool
}

func newPool(l core.Limiter) *worker.Pool { return core.Must(worker.New(worker.Options{Limiter: l})) }
