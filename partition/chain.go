package partition

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
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
// error if ls is empty, if a limiter is nil, or if one occurs twice, even inside another chain or [Shared]: it could wait for
// itself.
func Chain[R any](ls ...Limiter[R]) (Limiter[R], error) {
	if len(ls) == 0 {
		return nil, errors.New("partition: Chain of 0 limiters, want at least 1")
	}
	var errs []error
	asked := make([][]any, len(ls))
	for i, l := range ls {
		if backdoor.IsNil(l) {
			errs = append(errs, fmt.Errorf("partition: Chain limiter %d is nil", i))
			continue
		}
		asked[i] = asks(l)
		for at, others := range asked[:i] {
			for _, a := range asked[i] {
				if slices.ContainsFunc(others, func(b any) bool { return backdoor.Same(a, b) }) {
					errs = append(errs, fmt.Errorf("partition: Chain limiter %d asks the same limiter as limiter %d, %s", i, at, backdoor.Describe(a)))
				}
			}
		}
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return &chain[R]{slices.Clone(ls), ways.NewJoiner(len(ls))}, nil
}

// asks returns the limiters that l asks for each request, through the chains and shared limiters of this package.
// Two translations of one limiter may be for two keys.
func asks[R any](l Limiter[R]) (all []any) {
	switch l := l.(type) {
	case *shared[R]:
		if c, ok := l.l.(*completed); ok {
			return ways.Roots(c.Limiter)
		}
		return ways.Roots(l.l)
	case *chain[R]:
		for _, link := range l.limiters {
			all = append(all, asks(link)...)
		}
		return all
	}
	return []any{l}
}

type chain[R any] struct {
	limiters []Limiter[R]
	joiner   backdoor.Joiner[core.Lease]
}

func (c *chain[R]) TryAcquire(r R, permits int) core.Lease {
	if err := check(background, permits); err != nil {
		return core.Fail(err)
	}
	var b boundChain[R]
	return b.init(c, r).TryAcquire(permits)
}

func (c *chain[R]) Acquire(ctx context.Context, r R, permits int) (core.Lease, error) {
	if err := check(ctx, permits); err != nil {
		return core.Fail(err), err
	}
	var b boundChain[R]
	return b.init(c, r).Acquire(ctx, permits)
}

func (c *chain[R]) Refund(r R, l core.Lease) {
	if l.Acquired() {
		var b boundChain[R]
		b.init(c, r).Refund(l)
	}
}

func (c *chain[R]) Settle(r R, l core.Lease, permits int) core.Lease {
	if !l.Acquired() {
		return l
	}
	var b boundChain[R]
	return b.init(c, r).Settle(l, permits)
}

func (c *chain[R]) String() string {
	parts := make([]string, len(c.limiters))
	for i, l := range c.limiters {
		parts[i] = backdoor.Describe(l)
	}
	return "chain of " + strings.Join(parts, ", ")
}

func (c *chain[R]) bind(_ Limiter[R], r R) bound {
	b := &boundChain[R]{answers: new(answers)}
	return b.init(c, r)
}

// boundChain is a chain for one request, so that each Key is asked once. It is what For returns; a
// request of the chain makes one that is not allocated.
type boundChain[R any] struct {
	chain   *chain[R]
	few     [4]bound
	many    []bound  // if there are too many for few
	answers *answers // nil: nobody can ask for its statistics
}

// answers counts what a bound chain has answered. It is apart from boundChain, because with 64-bit
// atomics in it each request would allocate one where words have 32 bits.
type answers struct{ granted, rejected atomic.Uint64 }

func (b *boundChain[R]) init(c *chain[R], r R) *boundChain[R] {
	b.chain = c
	if len(c.limiters) > len(b.few) {
		b.many = make([]bound, len(c.limiters))
	}
	links := b.links()
	for i, l := range c.limiters {
		links[i] = bind(l, r)
	}
	return b
}

// links returns the chain's limiters, bound to the request.
func (b *boundChain[R]) links() []bound {
	if b.many != nil {
		return b.many
	}
	return b.few[:len(b.chain.limiters)]
}

func (b *boundChain[R]) TryAcquire(permits int) core.Lease {
	if err := check(background, permits); err != nil {
		return core.Fail(err)
	}
	l := b.join(background, permits, func(link bound) core.Lease { return link.TryAcquire(permits) })
	b.count(l)
	return l
}

// Reserve reserves in all limiters, or in none; the Delay is the largest of theirs.
func (b *boundChain[R]) Reserve(permits int) core.Lease {
	if err := check(background, permits); err != nil {
		return core.Fail(err)
	}
	longest, known := time.Duration(0), true
	l := b.join(background, permits, func(link bound) core.Lease {
		l := ways.Reserve(link, permits)
		d, ok := core.Delay.From(l)
		longest, known = max(longest, d), known && ok
		return l
	})
	b.count(l)
	if l.Acquired() && known {
		l = l.With(core.Delay.With(longest))
	}
	return l
}

func (b *boundChain[R]) TryQuietly(permits int) (core.Lease, bool) {
	if permits < 0 {
		return core.Lease{}, false
	}
	l := b.join(background, permits, func(link bound) core.Lease {
		l, _ := core.TryQuietly(link, permits)
		return l
	})
	if l.Acquired() {
		b.count(l)
	}
	return l, l.Acquired()
}

func (b *boundChain[R]) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	return b.acquire(ctx, permits, core.Limiter.Acquire)
}

func (b *boundChain[R]) AcquireWaiting(ctx context.Context, permits int, _ backdoor.Asked) (core.Lease, error) {
	return b.acquire(ctx, permits, acquireWaiting)
}

func (b *boundChain[R]) acquire(ctx context.Context, permits int, acquire acquireFunc) (core.Lease, error) {
	if err := check(ctx, permits); err != nil {
		return core.Fail(err), err
	}
	var err error
	l := b.join(ctx, permits, func(link bound) core.Lease {
		var l core.Lease
		l, err = acquire(link, ctx, permits)
		l, err = backdoor.Checked(link, l, err)
		return l
	})
	if err == nil {
		err = l.Err() // of ctx
	}
	b.count(l)
	return l, err
}

func (b *boundChain[R]) count(answer core.Lease) {
	switch {
	case b.answers == nil:
	case answer.Acquired():
		b.answers.granted.Add(1)
	case errors.Is(answer.Err(), core.ErrRejected):
		b.answers.rejected.Add(1)
	}
}

// join asks each limiter and joins their leases. If one answers with a lease that is not acquired, or
// ctx is done, join undoes the others.
func (b *boundChain[R]) join(ctx context.Context, permits int, ask func(link bound) core.Lease) core.Lease {
	parts, whole := b.chain.joiner.Begin(), false
	defer func() {
		if !whole { // not granted, or a limiter has panicked
			b.undo(parts)
		}
	}()
	for _, link := range b.links() {
		l := ask(link)
		if !l.Acquired() {
			return l
		}
		parts.Add(l)
		if err := ctx.Err(); err != nil {
			return core.Fail(err)
		}
	}
	whole = true
	return parts.Join(permits)
}

// undo refunds the parts, last first, even if a limiter panics.
func (b *boundChain[R]) undo(parts backdoor.Parts[core.Lease]) {
	defer parts.Drop()
	b.refundAll(parts.Leases())
}

func (b *boundChain[R]) refundAll(leases []core.Lease) {
	if n := len(leases) - 1; n >= 0 {
		defer b.refundAll(leases[:n])
		b.links()[n].Refund(leases[n])
	}
}

func (b *boundChain[R]) Refund(l core.Lease) {
	if l.Acquired() {
		if parts, ok := b.chain.joiner.Split(l); ok {
			b.undo(parts)
		}
	}
}

// Asks makes it a [backdoor.Asker].
func (b *boundChain[R]) Asks() []core.Limiter {
	all := make([]core.Limiter, len(b.links()))
	for i, link := range b.links() {
		all[i] = link
	}
	return all
}

func (b *boundChain[R]) Settle(l core.Lease, permits int) core.Lease {
	permits = max(permits, 0)
	if !l.Acquired() || permits == l.Permits() {
		return l
	}
	parts, ok := b.chain.joiner.Split(l)
	if !ok {
		return l
	}
	whole := false
	defer func() {
		if !whole { // a limiter has panicked
			b.undo(parts)
		}
	}()
	leases := parts.Leases()
	for i, part := range slices.Backward(leases) {
		leases[i] = b.links()[i].Settle(part, permits)
	}
	whole = true
	return parts.Rejoin(l, permits)
}

func (b *boundChain[R]) Available() int {
	available := math.MaxInt
	for _, link := range b.links() {
		available = min(available, link.Available())
	}
	return available
}

// Statistics returns what [core.ChainedLimiter] returns; Granted and Rejected count the
// answers of this limiter.
func (b *boundChain[R]) Statistics() core.Statistics {
	all := core.Statistics{Available: math.MaxInt}
	for _, link := range b.links() {
		s := link.Statistics()
		all.Available = min(all.Available, s.Available)
		all.Queued += min(s.Queued, math.MaxInt-all.Queued)
		if all.Limit == 0 || s.Limit > 0 && s.Limit < all.Limit {
			all.Limit = s.Limit
		}
	}
	all.Granted, all.Rejected = b.answers.granted.Load(), b.answers.rejected.Load()
	return all
}

func (b *boundChain[R]) String() string { return b.chain.String() }
