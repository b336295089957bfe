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
	"github.com/sluice-go/sluice/internal/anylimiter"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/hold"
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
		if anylimiter.IsNil(l) {
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
	joiner   joiner
}

// inline is the number of limiters up to which a chain binds them without an allocation.
const inline = 4

// links binds the limiters to r, in buffer if they fit there.
func (c *chain[R]) links(buffer links, r R) links {
	for _, l := range c.limiters {
		buffer = append(buffer, bind(l, r))
	}
	return buffer
}

func (c *chain[R]) TryAcquire(r R, permits int) core.Lease {
	if err := check(background, permits); err != nil {
		return core.Refuse(err)
	}
	var buffer [inline]bound
	return c.links(buffer[:0], r).tryAcquire(c.joiner, permits)
}

func (c *chain[R]) Acquire(ctx context.Context, r R, permits int) (core.Lease, error) {
	if err := check(ctx, permits); err != nil {
		return core.Refuse(err), err
	}
	var buffer [inline]bound
	return c.links(buffer[:0], r).acquire(ctx, c.joiner, permits)
}

func (c *chain[R]) Refund(r R, l core.Lease) {
	if l.Acquired() {
		var buffer [inline]bound
		c.links(buffer[:0], r).refund(c.joiner, l)
	}
}

func (c *chain[R]) Settle(r R, l core.Lease, permits int) core.Lease {
	if !l.Acquired() {
		return l
	}
	var buffer [inline]bound
	return c.links(buffer[:0], r).settle(c.joiner, l, permits)
}

func (c *chain[R]) String() string {
	parts := make([]string, len(c.limiters))
	for i, l := range c.limiters {
		parts[i] = anylimiter.Describe(l)
	}
	return "chain of " + strings.Join(parts, ", ")
}

func (c *chain[R]) bind(_ Limiter[R], r R) bound {
	return &boundChain{limiters: c.links(make(links, 0, len(c.limiters)), r), joiner: c.joiner, name: c.String}
}

// links are the limiters of a chain, bound to a request. The joiner is a parameter of the
// methods, because links in a struct with it would be allocated.
type links []bound

type joiner = backdoor.Joiner[core.Lease]

func (c links) tryAcquire(j joiner, permits int) core.Lease {
	parts, whole := j.Begin(), false
	defer func() {
		if !whole { // refused, or a limiter has panicked
			c.undo(parts)
		}
	}()
	for _, l := range c {
		lease := l.TryAcquire(permits)
		if !lease.Acquired() {
			return lease
		}
		parts.Add(lease)
	}
	whole = true
	return parts.Join(permits)
}

func (c links) tryQuietly(j joiner, permits int) (core.Lease, bool) {
	parts, whole := j.Begin(), false
	defer func() {
		if !whole {
			c.undo(parts)
		}
	}()
	for _, l := range c {
		lease, ok := core.TryQuietly(l, permits)
		if !ok {
			return lease, false
		}
		parts.Add(lease)
	}
	whole = true
	return parts.Join(permits), true
}

func (c links) acquire(ctx context.Context, j joiner, permits int) (core.Lease, error) {
	parts, whole := j.Begin(), false
	defer func() {
		if !whole {
			c.undo(parts)
		}
	}()
	for _, l := range c {
		lease, err := l.Acquire(ctx, permits)
		if lease, err = hold.Checked(l, lease, err); err != nil {
			return lease, err
		}
		parts.Add(lease)
		if err := ctx.Err(); err != nil {
			return core.Refuse(err), err
		}
	}
	whole = true
	return parts.Join(permits), nil
}

func (c links) settle(j joiner, l core.Lease, permits int) core.Lease {
	permits = max(permits, 0)
	if !l.Acquired() || permits == l.Permits() {
		return l
	}
	parts, ok := j.Split(l)
	if !ok {
		return l
	}
	whole := false
	defer func() {
		if !whole { // a limiter has panicked
			c.undo(parts)
		}
	}()
	leases := parts.Leases()
	for i, part := range slices.Backward(leases) {
		leases[i] = c[i].Settle(part, permits)
	}
	whole = true
	return parts.Rejoin(l, permits)
}

func (c links) refund(j joiner, l core.Lease) {
	if parts, ok := j.Split(l); ok {
		c.undo(parts)
	}
}

// undo refunds the parts, last first, even if a limiter panics.
func (c links) undo(parts backdoor.Parts[core.Lease]) {
	defer parts.Drop()
	c.refundAll(parts.Leases())
}

func (c links) refundAll(leases []core.Lease) {
	if n := len(leases) - 1; n >= 0 {
		defer c.refundAll(leases[:n])
		c[n].Settle(leases[n], 0)
	}
}

// boundChain is a chain for one request, so that each Key is asked once.
type boundChain struct {
	limiters links
	joiner   joiner
	name     func() string
	granted  atomic.Uint64
	rejected atomic.Uint64
}

func (b *boundChain) TryAcquire(permits int) core.Lease {
	if err := check(background, permits); err != nil {
		return core.Refuse(err)
	}
	l := b.limiters.tryAcquire(b.joiner, permits)
	b.count(l.Err())
	return l
}

func (b *boundChain) TryQuietly(permits int) (core.Lease, bool) {
	if permits < 0 {
		return core.Lease{}, false
	}
	l, ok := b.limiters.tryQuietly(b.joiner, permits)
	if ok {
		b.granted.Add(1)
	}
	return l, ok
}

func (b *boundChain) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if err := check(ctx, permits); err != nil {
		return core.Refuse(err), err
	}
	l, err := b.limiters.acquire(ctx, b.joiner, permits)
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

func (b *boundChain) Refund(l core.Lease) { b.limiters.refund(b.joiner, l) }

func (b *boundChain) Settle(l core.Lease, permits int) core.Lease {
	return b.limiters.settle(b.joiner, l, permits)
}

func (b *boundChain) Available() int {
	available := math.MaxInt
	for _, l := range b.limiters {
		available = min(available, l.Available())
	}
	return available
}

// Statistics returns what [core.ChainedLimiter] returns; Granted and Rejected count the
// answers of this limiter.
func (b *boundChain) Statistics() core.Statistics {
	all := core.Statistics{Available: math.MaxInt}
	for _, l := range b.limiters {
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

func (b *boundChain) String() string { return b.name() }
