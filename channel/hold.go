package channel

import (
	"context"
	"runtime"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/direct"
	"github.com/sluice-go/sluice/internal/limiter"
)

// hold is what an item holds of the limiter. The zero hold is nothing.
//
// A channel gives back what an item holds exactly once, so plain permits do where the
// limiter offers them: they cost a swap each. A lease that any copy may release is made of
// them only for those that get it: the callers of ReceiveLease.
type hold struct {
	permits int        // plain permits
	lease   core.Lease // of a limiter that has no plain permits
}

// ways lead to a concurrency limiter's plain permits.
var ways = direct.Core[core.Lease]()

// kind is what the channel knows of its limiter by its very type. A type that embeds one
// of core's is another, and may do what it likes.
type kind uint8

const (
	foreign kind = iota // it may keep its context, and only what it says tells what it does
	chained             // core's chain, of whatever limiters
	timed               // one of core's whose permits come back with time alone
	counted             // a concurrency limiter: its permits come back with each release
)

func kindOf(l core.Limiter) kind {
	switch l.(type) {
	case *core.ConcurrencyLimiter:
		return counted
	case *core.ChainedLimiter:
		return chained
	case *core.TokenBucket, *core.FixedWindow, *core.SlidingWindow:
		return timed
	}
	return foreign
}

// cost returns the permits that v costs.
func (c *LimitedChannel[T]) cost(v T) int {
	if c.permits == nil {
		return 1
	}
	return c.permits(v)
}

// try takes n permits if they are there now.
func (c *LimitedChannel[T]) try(n int) (hold, error) {
	if c.plain != nil && n > 0 {
		if c.plain.TryTake(n) {
			return hold{permits: n}, nil
		}
		return c.tryPlainSlow(n)
	}
	l := c.limiter.TryAcquire(n)
	if !l.Acquired() {
		return hold{}, l.Err()
	}
	return c.holdOf(l), nil
}

// tryPlainSlow asks the limiter for the refusal, which says why and is counted. Should it
// grant instead, the permits came back this instant, and can be taken without a lease.
func (c *LimitedChannel[T]) tryPlainSlow(n int) (hold, error) {
	for {
		l := c.limiter.TryAcquire(n)
		if !l.Acquired() {
			return hold{}, l.Err()
		}
		l.Release()
		if c.plain.TryTake(n) {
			return hold{permits: n}, nil
		}
	}
}

// holdOf returns what a lease that was asked of the limiter holds. Of a limiter with plain
// permits only probes are leases, and hold nothing.
func (c *LimitedChannel[T]) holdOf(l core.Lease) hold {
	if c.plain != nil {
		return hold{}
	}
	return hold{lease: l}
}

// acquire takes n permits, waiting in the limiter's queue until the channel is closed.
func (c *LimitedChannel[T]) acquire(ctx context.Context, n int) (hold, error) {
	if !c.open.Load() {
		return hold{}, ErrClosed
	}
	if c.plain != nil && n > 0 {
		if c.plain.TryTake(n) {
			return hold{permits: n}, nil
		}
		return c.acquirePlainSlow(ctx, n)
	}
	l, err := c.ask(ctx, n)
	if err != nil {
		return hold{}, err
	}
	return c.holdOf(l), nil
}

func (c *LimitedChannel[T]) acquirePlainSlow(ctx context.Context, n int) (hold, error) {
	for range yields {
		runtime.Gosched()
		if err := ctx.Err(); err != nil {
			return hold{}, err // it may have ended before the permits came
		}
		if !c.open.Load() {
			return hold{}, ErrClosed
		}
		if c.plain.TryTake(n) {
			return hold{permits: n}, nil
		}
	}
	x := c.closing.Begin(ctx)
	defer x.Finish(true)                 // ctx may be somebody's own, and panic
	err := x.Explain(c.plain.Take(x, n)) //nolint:contextcheck // x is ctx, and ends on Close too
	if err != nil {
		return hold{}, err
	}
	return hold{permits: n}, nil
}

// ask has the limiter answer as an Acquire should: with a lease or an error.
func (c *LimitedChannel[T]) ask(ctx context.Context, n int) (core.Lease, error) {
	if c.kind == chained && n > 0 {
		// It may have a user's limiter in it; if it has not, this needs no context.
		if l, ok := core.TryQuietly(c.limiter, n); ok {
			return l, nil
		}
	}
	x := c.closing.Begin(ctx)
	defer x.Finish(c.kind > chained)  // a user's limiter may panic, or keep x; and ctx may be somebody's own
	l, err := c.limiter.Acquire(x, n) //nolint:contextcheck // x is ctx, and ends on Close too
	l, err = limiter.Checked(c.limiter, l, err)
	return l, x.Explain(err)
}

// refund undoes a grant whose item was not sent.
func (c *LimitedChannel[T]) refund(h hold) {
	switch {
	case h.permits > 0:
		c.plain.Give(h.permits)
	case c.limiter != nil:
		limiter.Refund(c.limiter, h.lease)
	}
}

// release gives back what an item held that has left.
func (c *LimitedChannel[T]) release(h hold) {
	if h.permits > 0 {
		c.plain.Give(h.permits)
		return
	}
	h.lease.Release()
}

// settle releases what an item held that has left, as leavingLocked returned it, and then
// wakes those that got something by that: so they find the permits free. A user's release
// may panic; they are woken nevertheless.
func (c *LimitedChannel[T]) settle(h hold, woken *waiter[T]) {
	if !c.moves && woken == nil {
		c.release(h)
		return
	}
	defer c.settled(woken)
	c.release(h)
}

// settleAll is settle for items with leases, or with plain permits.
func (c *LimitedChannel[T]) settleAll(h hold, leases []core.Lease, woken *waiter[T]) {
	defer c.settled(woken)
	core.ReleaseAll(leases)
	c.release(h)
}

// releaseAndWake is settle for what never was in the queue.
func (c *LimitedChannel[T]) releaseAndWake(h hold, woken *waiter[T]) {
	if woken != nil {
		defer wake(woken)
	}
	c.release(h)
}

// leavingLocked returns what of h is left for settle to release: an item has left that
// held it.
func (c *LimitedChannel[T]) leavingLocked(h hold) hold {
	switch {
	case !c.evicts:
		return h
	case c.moves:
		c.transit.begin()
		return h
	}
	c.release(h)
	return hold{}
}

func (c *LimitedChannel[T]) settled(woken *waiter[T]) {
	if c.moves {
		c.transit.end()
	}
	wake(woken)
}

// leaseOf returns what an item held as a lease, for a caller that keeps it.
func (c *LimitedChannel[T]) leaseOf(h hold) core.Lease {
	switch {
	case h.permits > 0:
		return ways.Lease(c.plain, h.permits)
	case c.limiter == nil:
		return core.Grant(1, c.returnRoom)
	case c.plain != nil:
		return core.Grant(0, nil) // of a probe
	}
	return h.lease
}
