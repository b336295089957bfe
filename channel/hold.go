package channel

import (
	"context"
	"errors"
	"runtime"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/acquire"
	"github.com/sluice-go/sluice/internal/direct"
	"github.com/sluice-go/sluice/internal/limiter"
	"github.com/sluice-go/sluice/internal/linked"
)

// hold is what an item holds of the limiter: plain permits or a lease. The zero hold is nothing.
//
// A channel gives back what an item holds exactly once, so plain permits do where the limiter offers
// them. A lease, which any copy may release, is made of them only for the callers of ReceiveLease.
type hold struct {
	permits int
	lease   core.Lease
}

// ways lead to a concurrency limiter's plain permits.
var ways = direct.Core[core.Lease]()

// cost returns the permits that v costs.
func (c *LimitedChannel[T]) cost(v T) int {
	if c.permits == nil {
		return 1
	}
	return c.permits(v)
}

// try takes n permits if they are available now.
func (c *LimitedChannel[T]) try(n int) (hold, error) {
	switch {
	case c.limiter == nil:
		return hold{}, nil
	case c.plain != nil && n > 0:
		return c.tryPlain(n)
	}
	l := c.limiter.TryAcquire(n)
	if !l.Acquired() {
		return hold{}, l.Err()
	}
	return c.holdOf(l), nil
}

func (c *LimitedChannel[T]) tryPlain(n int) (hold, error) {
	for !c.plain.TryTake(n) {
		// The limiter says why not, and counts the refusal. If it grants, the permits have come back
		// this instant, and can be taken without a lease.
		l := c.limiter.TryAcquire(n)
		if !l.Acquired() {
			return hold{}, l.Err()
		}
		l.Release()
	}
	return hold{permits: n}, nil
}

// acquire takes n permits. It waits in the limiter's queue until the channel is closed.
func (c *LimitedChannel[T]) acquire(ctx context.Context, n int) (hold, error) {
	switch {
	case c.limiter == nil:
		return hold{}, nil
	case c.plain != nil && n > 0:
		if !c.plain.TryTake(n) {
			return c.acquireSlow(ctx, n)
		}
		return hold{permits: n}, nil
	}
	l, err := acquire.Acquire(ctx, &c.closing, c.limiter, n)
	if err != nil {
		return hold{}, err
	}
	return c.holdOf(l), nil
}

// acquireSlow lets others run once before it waits: a receiver that is about to run gives back many
// permits, where a waiter is woken for each. BenchmarkChannel/pairs=4 of bench/channels takes 1.6 of a native
// channel's time without that, and 1.2 with it.
func (c *LimitedChannel[T]) acquireSlow(ctx context.Context, n int) (hold, error) {
	runtime.Gosched()
	if ctx.Err() == nil && c.plain.TryTake(n) {
		return hold{permits: n}, nil
	}
	call := c.closing.Begin(ctx)
	defer call.End()
	if err := c.plain.Take(call, n); err != nil { //nolint:contextcheck // call is ctx, until it ends
		return hold{}, explain(call, err)
	}
	return hold{permits: n}, nil
}

// explain returns why a wait has ended that the limiter says was cancelled: the caller's error comes
// before that of the source, and unchanged.
func explain(call *linked.Call, err error) error {
	if why := call.Ended(); why != nil && errors.Is(err, context.Canceled) {
		return why
	}
	return err
}

// holdOf returns what an item holds whose lease the limiter granted. A limiter with plain permits grants
// a lease only to an item of no permits, which holds nothing.
func (c *LimitedChannel[T]) holdOf(l core.Lease) hold {
	if c.plain != nil {
		return hold{}
	}
	return hold{lease: l}
}

// refund undoes a grant whose item was not sent.
func (c *LimitedChannel[T]) refund(h hold) {
	switch {
	case h.permits > 0:
		c.plain.Give(h.permits)
	case h.lease.Acquired():
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

// leaseOf returns what an item held as a lease, for a caller that keeps it.
func (c *LimitedChannel[T]) leaseOf(h hold) core.Lease {
	switch {
	case h.permits > 0:
		return ways.Lease(c.plain, h.permits)
	case c.limiter == nil:
		return core.Grant(1, c.returnRoom)
	case c.plain != nil:
		return core.Grant(0, nil) // the item cost nothing
	}
	return h.lease
}
