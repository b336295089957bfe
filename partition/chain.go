package partition

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/direct"
)

// Chain returns a limiter that asks each of ls for the same permits, all or nothing, as
// [core.Chain] does: for example a limit per client and a limit for all clients together.
//
// The limiters are asked in the order given; Acquire waits for one before it asks the next. If
// a limiter rejects or fails, or ctx is done, the permits already taken are given back, last
// first, and that limiter's own lease and error are returned. A combined lease releases its
// parts last first. Its metadata is the union of theirs; if several have a value of one name,
// the first limiter's is taken. The chain is a [Refunder] and a [Settler]; a part whose limiter
// is not a Settler keeps what it holds. The chain closes none of its limiters. Chain returns an
// error if ls is empty or a limiter is nil.
func Chain[R any](ls ...Limiter[R]) (Limiter[R], error) {
	if len(ls) == 0 {
		return nil, errors.New("partition: Chain of 0 limiters, want at least 1")
	}
	var errs []error
	for i, l := range ls {
		if argument.IsNil(l) {
			errs = append(errs, fmt.Errorf("partition: Chain limiter %d is nil", i))
		}
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return &chain[R]{slices.Clone(ls), ways.NewJoiner(len(ls))}, nil
}

type chain[R any] struct {
	limiters []Limiter[R]
	joiner   direct.Joiner[core.Lease]
}

func (c *chain[R]) TryAcquire(r R, permits int) core.Lease {
	if err := check(none, permits); err != nil {
		return core.Refuse(err)
	}
	parts, whole := c.joiner.Begin(), false
	defer func() {
		if !whole { // refused, or a limiter has panicked
			c.undo(r, parts)
		}
	}()
	for _, l := range c.limiters {
		lease := l.TryAcquire(r, permits)
		if !lease.Acquired() {
			return lease
		}
		parts.Add(lease)
	}
	whole = true
	return parts.Join(permits)
}

func (c *chain[R]) Acquire(ctx context.Context, r R, permits int) (core.Lease, error) {
	if err := check(ctx, permits); err != nil {
		return refuse(err)
	}
	parts, whole := c.joiner.Begin(), false
	defer func() {
		if !whole {
			c.undo(r, parts)
		}
	}()
	for _, l := range c.limiters {
		lease, err := l.Acquire(ctx, r, permits)
		if err == nil {
			err = lease.Err() // not acquired and no error: the limiter's mistake
		} else if lease.Acquired() {
			refundTo(l, r, lease)
		}
		if err != nil {
			return refusal(lease, err), err
		}
		parts.Add(lease)
		if err := ctx.Err(); err != nil {
			return refuse(err)
		}
	}
	whole = true
	return parts.Join(permits), nil
}

func (c *chain[R]) Refund(r R, l core.Lease) {
	if parts, ok := c.joiner.Split(l); ok {
		c.undo(r, parts)
	}
}

func (c *chain[R]) Settle(r R, l core.Lease, permits int) core.Lease {
	permits = max(permits, 0)
	if !l.Acquired() || permits == l.Permits() {
		return l
	}
	parts, ok := c.joiner.Split(l)
	if !ok {
		return l
	}
	whole := false
	defer func() {
		if !whole { // a limiter has panicked
			c.undo(r, parts)
		}
	}()
	leases := parts.Leases()
	for i, part := range slices.Backward(leases) {
		leases[i] = settleTo(c.limiters[i], r, part, permits)
	}
	whole = true
	return parts.Rejoin(l, permits)
}

// undo refunds the parts, last first.
func (c *chain[R]) undo(r R, parts direct.Parts[core.Lease]) {
	c.refund(r, parts.Leases())
	parts.Drop()
}

// refund refunds leases of the first limiters, last first, even if a limiter panics.
func (c *chain[R]) refund(r R, leases []core.Lease) {
	if len(leases) == 0 {
		return
	}
	last := len(leases) - 1
	defer c.refund(r, leases[:last])
	settleTo(c.limiters[last], r, leases[last], 0)
}

func (c *chain[R]) String() string {
	parts := make([]string, len(c.limiters))
	for i, l := range c.limiters {
		parts[i] = describe(l)
	}
	return "chain of " + strings.Join(parts, ", ")
}

func (c *chain[R]) bind(_ Limiter[R], r R) boundLimiter {
	b := &boundChain{parts: make([]boundLimiter, len(c.limiters))}
	b.chain.limiters, b.chain.joiner = make([]Limiter[struct{}], len(c.limiters)), c.joiner
	for i, l := range c.limiters {
		b.parts[i] = bind(l, r)
		b.chain.limiters[i] = &shared[struct{}]{b.parts[i]}
	}
	return b
}

// boundChain is a chain for one request: a chain of limiters that know the request, so that
// each Key is asked once.
type boundChain struct {
	chain    chain[struct{}]
	parts    []boundLimiter
	granted  atomic.Uint64
	rejected atomic.Uint64
}

func (b *boundChain) TryAcquire(permits int) core.Lease {
	l := b.chain.TryAcquire(struct{}{}, permits)
	b.count(l.Err())
	return l
}

func (b *boundChain) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	l, err := b.chain.Acquire(ctx, struct{}{}, permits)
	b.count(err)
	return l, err
}

func (b *boundChain) count(err error) {
	if err == nil {
		b.granted.Add(1)
	} else if errors.Is(err, core.ErrRejected) {
		b.rejected.Add(1)
	}
}

func (b *boundChain) Refund(l core.Lease) { b.chain.Refund(struct{}{}, l) }

func (b *boundChain) Settle(l core.Lease, permits int) core.Lease {
	return b.chain.Settle(struct{}{}, l, permits)
}

func (b *boundChain) Available() int {
	available := math.MaxInt
	for _, l := range b.parts {
		available = min(available, l.Available())
	}
	return available
}

// Statistics returns what [core.ChainedLimiter] returns; Granted and Rejected count the
// answers of this limiter.
func (b *boundChain) Statistics() core.Statistics {
	all := core.Statistics{Available: math.MaxInt}
	for _, l := range b.parts {
		s := l.Statistics()
		all.Available = min(all.Available, s.Available)
		all.Queued += min(s.Queued, math.MaxInt-all.Queued)
		if all.Limit == 0 || s.Limit > 0 && s.Limit < all.Limit {
			all.Limit = s.Limit
		}
	}
	all.Granted, all.Rejected = b.granted.Load(), b.rejected.Load()
	return all
}

func (b *boundChain) String() string { return b.chain.String() }
