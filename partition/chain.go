package partition

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
)

// Chain returns a limiter that asks each of ls for the same permits, all or nothing, as
// [core.Chain] does: per client and for all together, say.
//
// Each is asked in turn, in the order given; Acquire waits for one before it asks the next.
// If one refuses, errs, or the context is done, what was taken is undone, last first, and the
// refuser's own lease and error come back. The lease of all releases them last first, and its
// metadata is the union of theirs, the first limiter's value winning. The chain is a
// [Refunder]; it closes nothing. No limiter, or a nil one, is an error.
func Chain[R any](ls ...Limiter[R]) (Limiter[R], error) {
	if len(ls) == 0 {
		return nil, errors.New("partition: Chain of 0 limiters, want at least 1")
	}
	var errs []error
	for i, l := range ls {
		if isNil(l) {
			errs = append(errs, fmt.Errorf("partition: Chain limiter %d is nil", i))
		}
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	b, err := newBundler(len(ls))
	if err != nil {
		return nil, err
	}
	return &chain[R]{slices.Clone(ls), b}, nil
}

type chain[R any] struct {
	limiters []Limiter[R]
	leases   *bundler
}

func (c *chain[R]) TryAcquire(r R, permits int) core.Lease {
	return tryAll(links[R]{c.limiters, r}, c.leases, permits)
}

func (c *chain[R]) Acquire(ctx context.Context, r R, permits int) (core.Lease, error) {
	return acquireAll(ctx, links[R]{c.limiters, r}, c.leases, permits)
}

func (c *chain[R]) Refund(r R, l core.Lease) { refundAll(links[R]{c.limiters, r}, c.leases, l) }

func (c *chain[R]) bind(_ Limiter[R], r R) boundLimiter {
	b := &boundChain{leases: c.leases}
	for _, l := range c.limiters {
		b.limiters = append(b.limiters, For(l, r).(boundLimiter))
	}
	return b
}

// boundChain is a chain for one request.
type boundChain struct {
	limiters boundLinks
	leases   *bundler
	granted  atomic.Uint64
	rejected atomic.Uint64
}

func (b *boundChain) TryAcquire(permits int) core.Lease {
	l := tryAll(b.limiters, b.leases, permits)
	b.count(l.Err())
	return l
}

func (b *boundChain) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	l, err := acquireAll(ctx, b.limiters, b.leases, permits)
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

func (b *boundChain) Refund(l core.Lease) { refundAll(b.limiters, b.leases, l) }

func (b *boundChain) Available() int {
	available := math.MaxInt
	for _, l := range b.limiters {
		available = min(available, l.Available())
	}
	return available
}

// Statistics are as a [core.ChainedLimiter] has them; Granted and Rejected count what this
// limiter answered.
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

// members are the limiters of a chain for one request.
type members interface {
	len() int
	try(i, permits int) core.Lease
	acquire(ctx context.Context, i, permits int) (core.Lease, error)
	refund(i int, l core.Lease)
}

// links are limiters and the request that they are asked for.
type links[R any] struct {
	limiters []Limiter[R]
	r        R
}

func (k links[R]) len() int { return len(k.limiters) }

func (k links[R]) try(i, permits int) core.Lease { return k.limiters[i].TryAcquire(k.r, permits) }

func (k links[R]) acquire(ctx context.Context, i, permits int) (core.Lease, error) {
	return k.limiters[i].Acquire(ctx, k.r, permits)
}

func (k links[R]) refund(i int, l core.Lease) { refundTo(k.limiters[i], k.r, l) }

// boundLinks are limiters that know their request.
type boundLinks []boundLimiter

func (k boundLinks) len() int { return len(k) }

func (k boundLinks) try(i, permits int) core.Lease { return k[i].TryAcquire(permits) }

func (k boundLinks) acquire(ctx context.Context, i, permits int) (core.Lease, error) {
	return k[i].Acquire(ctx, permits)
}

func (k boundLinks) refund(i int, l core.Lease) { k[i].Refund(l) }

// usualLinks is for how many limiters a chain's leases stand on the stack.
const usualLinks = 4

func tryAll[M members](m M, b *bundler, permits int) core.Lease {
	if err := check(none, permits); err != nil {
		return core.Refuse(err)
	}
	var buffer [usualLinks]core.Lease
	taken := buffer[:0]
	defer func() { undoAll(m, taken) }() // a limiter may panic
	for i := range m.len() {
		l := m.try(i, permits)
		if !l.Acquired() {
			return l
		}
		taken = append(taken, l)
	}
	all := b.bundle(taken, permits)
	taken = nil
	return all
}

func acquireAll[M members](ctx context.Context, m M, b *bundler, permits int) (core.Lease, error) {
	if err := check(ctx, permits); err != nil {
		return refuse(err)
	}
	var buffer [usualLinks]core.Lease
	taken := buffer[:0]
	defer func() { undoAll(m, taken) }()
	for i := range m.len() {
		l, err := m.acquire(ctx, i, permits)
		if err == nil {
			err = l.Err() // not acquired and no error: somebody's mistake
		} else if l.Acquired() {
			m.refund(i, l)
		}
		if err != nil {
			return refusal(l, err), err
		}
		taken = append(taken, l)
		if err := ctx.Err(); err != nil {
			return refuse(err)
		}
	}
	all := b.bundle(taken, permits)
	taken = nil
	return all, nil
}

// undoAll refunds what was taken, last first, even if a limiter panics over it.
func undoAll[M members](m M, taken []core.Lease) {
	if len(taken) == 0 {
		return
	}
	last := len(taken) - 1
	defer undoAll(m, taken[:last])
	m.refund(last, taken[last])
}

func refundAll[M members](m M, b *bundler, l core.Lease) {
	var buffer [usualLinks]part
	refundParts(m, b.unbundle(l, buffer[:0]))
}

// refundParts refunds the parts, the first first, even if a limiter panics over it.
func refundParts[M members](m M, parts []part) {
	if len(parts) == 0 {
		return
	}
	defer refundParts(m, parts[1:])
	m.refund(parts[0].link, parts[0].lease)
}
