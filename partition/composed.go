package partition

import (
	"context"
	"sync"

	"github.com/sluice-go/sluice/core"
)

// composed is a [Limiter] that is made of others: [Shared], [Translate] and [Chain]. Another limiter, which is bound to
// the request, decides. composed is a [Refunder] and a [Settler].
type composed[R any] struct {
	// bound returns the limiter for a request, as For does.
	bound func(r R) bound

	// borrow is bound for a single call. What it returns is put in the pool after the call, if the pool is not nil.
	borrow func(r R) (bound, *sync.Pool)

	statistics func(r R) (core.Statistics, bool) // nil: none
	asks       func() []any                      // the limiters that are asked for each request; nil: itself
	title      func() string
}

func (c *composed[R]) TryAcquire(r R, permits int) core.Lease {
	if err := check(background, permits); err != nil {
		return core.Fail(err)
	}
	b, pool := c.borrow(r)
	l := b.TryAcquire(permits)
	putBack(pool, b)
	return l
}

func (c *composed[R]) Acquire(ctx context.Context, r R, permits int) (core.Lease, error) {
	if err := check(ctx, permits); err != nil {
		return core.Fail(err), err
	}
	b, pool := c.borrow(r)
	l, err := b.Acquire(ctx, permits)
	putBack(pool, b)
	return l, err
}

func (c *composed[R]) Refund(r R, l core.Lease) {
	if l.Acquired() {
		b, pool := c.borrow(r)
		b.Refund(l)
		putBack(pool, b)
	}
}

func (c *composed[R]) Settle(r R, l core.Lease, permits int) core.Lease {
	if !l.Acquired() {
		return l
	}
	b, pool := c.borrow(r)
	l = b.Settle(l, permits)
	putBack(pool, b)
	return l
}

// putBack keeps b for another call, unless its limiter panics.
func putBack(pool *sync.Pool, b bound) {
	if pool != nil {
		pool.Put(b)
	}
}

// Statistics returns the statistics of the limiter for r, and whether it has any.
func (c *composed[R]) Statistics(r R) (core.Statistics, bool) {
	if c.statistics == nil {
		return core.Statistics{}, false
	}
	return c.statistics(r)
}

func (c *composed[R]) String() string { return c.title() }

func (c *composed[R]) bind(_ Limiter[R], r R) bound { return c.bound(r) }
