package partition

import (
	"context"

	"github.com/sluice-go/sluice/core"
)

// composed is a [Limiter] that is composed of others: [Shared], [Translate] and [Chain]. Another limiter, which is bound to
// the request, decides. composed is a [Refunder] and a [Settler].
type composed[R any] struct {
	// of returns the limiter for a request. If once is true, it is for a single call, which ends with done.
	of func(r R, once bool) bound

	statistics func(r R) (core.Statistics, bool) // nil if it has none
	asks       func() []any                      // the limiters that are asked for each request; nil: itself
	title      func() string
}

func (c *composed[R]) TryAcquire(r R, permits int) core.Lease {
	if err := check(background, permits); err != nil {
		return core.Fail(err)
	}
	b := c.of(r, true)
	l := b.TryAcquire(permits)
	done(b)
	return l
}

func (c *composed[R]) Acquire(ctx context.Context, r R, permits int) (core.Lease, error) {
	if err := check(ctx, permits); err != nil {
		return core.Fail(err), err
	}
	b := c.of(r, true)
	l, err := b.Acquire(ctx, permits)
	done(b)
	return l, err
}

func (c *composed[R]) Refund(r R, l core.Lease) {
	if l.Acquired() {
		b := c.of(r, true)
		b.Refund(l)
		done(b)
	}
}

func (c *composed[R]) Settle(r R, l core.Lease, permits int) core.Lease {
	if l.Acquired() {
		b := c.of(r, true)
		l = b.Settle(l, permits)
		done(b)
	}
	return l
}

// done keeps a chain for another call. It is not called if a limiter panics.
func done(b bound) {
	if c, ok := b.(*boundChain); ok && c.pool != nil {
		c.pool.Put(c)
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

func (c *composed[R]) bind(_ Limiter[R], r R) bound { return c.of(r, false) }
