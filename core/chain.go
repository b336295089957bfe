package core

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/linked"
)

// ChainedLimiter asks several limiters for the same permits, all or nothing. Make it with
// [Chain].
//
// TryAcquire and Acquire ask each limiter in turn, in the order given; Acquire waits for
// one before it asks the next, so put those that reject for good first, and those whose
// permits are dear to hold last. If one refuses, errs, panics, or the context is done, what
// was taken is refunded, last first, and the refuser's own lease and error come back: its
// [LimiterName] says which limiter it was. What was taken and refunded stays in the limiters'
// own statistics. If all grant, the combined lease releases them last first, and its metadata
// is the union of theirs, the first limiter's value winning.
//
// Available and Statistics.Limit are the smallest of the limiters', Queued is their sum,
// Granted and Rejected count the chain's own answers. Close ends the chain's own waiters
// with [ErrClosed], refunding what they had taken, and closes none of the limiters.
//
// It is a [Limiter], [Reporter], [Idler], [Refunder], [Settler], [Resetter], [Replenisher]
// and [io.Closer], safe for concurrent use, and may be in other chains. The zero value refuses
// with [ErrClosed].
type ChainedLimiter struct {
	limiters []Limiter
	roots    []root

	tickets  sync.Pool             // of tickets that are not in use
	shown    atomic.Pointer[terms] // what the latest lease shows
	granted  atomic.Uint64
	rejected atomic.Uint64
	source   linked.Source // Close ends the waits by it
}

// Chain returns a limiter that asks each of limiters for the same permits. It is an error
// if there is none, if one is nil, or if one is there twice, be it in a chain among them or
// behind a [WithReason] or [Shadow]: it would be asked twice for each request, and wait for
// itself. A limiter may be in several chains.
func Chain(limiters ...Limiter) (*ChainedLimiter, error) {
	if len(limiters) == 0 {
		return nil, errors.New("core: Chain of 0 limiters, want at least 1")
	}
	var errs []error
	c := new(ChainedLimiter)
	for i, l := range limiters {
		if isNil(l) {
			errs = append(errs, fmt.Errorf("core: Chain limiter %d is nil", i))
			continue
		}
		for _, r := range roots(l) {
			for _, s := range c.roots {
				if identical(r.Limiter, s.Limiter) {
					errs = append(errs, fmt.Errorf("core: Chain limiter %d asks the same limiter as limiter %d, %s", i, s.at, describe(r.Limiter)))
				}
			}
			r.at = i
			c.roots = append(c.roots, r)
		}
		c.limiters = append(c.limiters, l)
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	c.shown.Store(&terms{label: &unlabelled})
	return c, nil
}

// Limiters returns the limiters of the chain, in its order.
func (c *ChainedLimiter) Limiters() []Limiter { return append([]Limiter(nil), c.limiters...) }

// TryAcquire takes the permits from all limiters, or from none. It never blocks.
func (c *ChainedLimiter) TryAcquire(permits int) Lease {
	if l, ok := c.check(permits); !ok {
		return l
	}
	return c.ask(permits, Limiter.TryAcquire)
}

// tryQuietly is TryAcquire of limiters that are all of this package. A refusal leaves no trace
// but the grants of those that were asked before.
func (c *ChainedLimiter) tryQuietly(permits int) (Lease, bool) {
	if _, ok := c.check(permits); !ok {
		return Lease{}, false
	}
	t, whole := c.draw(), false
	defer func() {
		if !whole {
			c.undo(t)
		}
	}()
	for _, l := range c.limiters {
		k, ok := TryQuietly(l, permits)
		if !ok {
			return Lease{}, false
		}
		t.x.parts = append(t.x.parts, k)
	}
	whole = true
	return c.combine(t, permits), true
}

// ask asks each limiter by try, and undoes what was taken if one refuses or panics.
func (c *ChainedLimiter) ask(permits int, try func(Limiter, int) Lease) Lease {
	t, whole := c.draw(), false
	defer func() {
		if !whole {
			c.undo(t)
		}
	}()
	for _, l := range c.limiters {
		k := try(l, permits)
		if !k.Acquired() {
			if k.rejected() {
				c.rejected.Add(1)
			}
			return k
		}
		t.x.parts = append(t.x.parts, k)
	}
	whole = true
	return c.combine(t, permits)
}

// Acquire takes the permits from each limiter in turn, waiting where it must. If ctx is done,
// now or later, it returns ctx.Err(), unchanged, and nothing stays taken.
func (c *ChainedLimiter) Acquire(ctx context.Context, permits int) (Lease, error) {
	if err := ctx.Err(); err != nil && permits >= 0 {
		return Refuse(err), err
	}
	if l, ok := c.check(permits); !ok {
		return l.refusal()
	}
	t, whole := c.draw(), false
	defer func() {
		if !whole {
			c.undo(t)
		}
	}()
	for _, l := range c.limiters {
		k, err := c.acquire(ctx, l, permits)
		if err != nil {
			return k, err
		}
		t.x.parts = append(t.x.parts, k)
	}
	whole = true
	return c.combine(t, permits), nil
}

// acquire asks a limiter, and waits where it must, until ctx is done or the chain is closed.
func (c *ChainedLimiter) acquire(ctx context.Context, l Limiter, permits int) (Lease, error) {
	k, ok := TryQuietly(l, permits)
	if ok {
		return k, nil
	}
	var err error
	if e := engineOf(l); e != nil {
		k, err = e.acquireUnder(ctx, permits, &c.source)
	} else {
		call := c.source.Begin(ctx)
		defer call.End()
		k, err = l.Acquire(call, permits) //nolint:contextcheck // it is ctx, until Close
		k, err = answered(l, k, err)
	}
	ended := ctx.Err()
	if ended == nil {
		ended = c.source.Cause()
	}
	switch {
	case err == nil && ended != nil: // the limiter did not notice
		settle(l, k, 0)
		return Refuse(ended), ended
	case err == nil:
		return k, nil
	case errors.Is(err, ErrRejected):
		c.rejected.Add(1)
		return k, err
	case ended != nil && errors.Is(err, context.Canceled):
		return Refuse(ended), ended
	}
	return k, err
}

// check answers what no limiter needs to be asked for, or only the one that refuses.
func (c *ChainedLimiter) check(permits int) (l Lease, ask bool) {
	switch {
	case permits < 0:
		return Lease{bits: uint64(negative)}, false
	case c.limiters == nil || c.source.Cause() != nil:
		return Lease{bits: uint64(closed)}, false
	}
	// More than a later limiter's limit fails before an earlier one is taken from.
	l, exceeds := c.exceeding(permits)
	return l, !exceeds
}

// Settle settles the part of each limiter that is a [Settler], last first; the others keep
// theirs, but for a lease that has cost nothing, which is refunded or released. See [Settler].
func (c *ChainedLimiter) Settle(l Lease, permits int) Lease {
	permits = max(permits, 0)
	if l.outcome() != held || l.home().x == nil || l.home().x.chain != c || l.permits() == permits || !l.home().end(l.generation()) {
		return l
	}
	t := l.home()
	if t.word.Load() > maxGeneration { // they are used up
		terms := t.terms
		t = newChainTicket(c, t.x.parts)
		t.terms = terms
	}
	next := l.standIn(t, held, t.word.Load(), permits)
	if permits == 0 {
		next = l.complete(0)
	}
	c.backward(len(t.x.parts), func(i int) { t.x.parts[i] = settle(c.limiters[i], t.x.parts[i], permits) })
	if permits == 0 {
		c.recycle(t)
	}
	return next
}

// Refund undoes a grant of this chain that was not used: it is Settle to no permits.
func (c *ChainedLimiter) Refund(l Lease) { c.Settle(l, 0) }

// Available returns the smallest of the limiters' available permits.
func (c *ChainedLimiter) Available() int {
	if c.limiters == nil {
		return 0
	}
	available := math.MaxInt
	for _, l := range c.limiters {
		available = min(available, l.Available())
	}
	return available
}

// Statistics returns the smallest Limit and Available of the limiters, the sum of their
// queues, and the chain's own counts. Limit is 0 if no limiter is a [Reporter].
func (c *ChainedLimiter) Statistics() Statistics {
	s := Statistics{Available: c.Available(), Granted: c.granted.Load(), Rejected: c.rejected.Load()}
	for _, l := range c.limiters {
		if r, ok := l.(Reporter); ok {
			k := r.Statistics()
			s.Queued += min(k.Queued, math.MaxInt-s.Queued)
			if s.Limit == 0 || k.Limit > 0 && k.Limit < s.Limit {
				s.Limit = k.Limit
			}
		}
	}
	return s
}

// IdleFor returns how long all limiters have been idle, and whether all are; a limiter that is
// no [Idler] never is.
func (c *ChainedLimiter) IdleFor() (time.Duration, bool) {
	shortest := time.Duration(math.MaxInt64)
	for _, l := range c.limiters {
		k, ok := l.(Idler)
		if !ok {
			return 0, false
		}
		d, idle := k.IdleFor()
		if !idle {
			return 0, false
		}
		shortest = min(shortest, d)
	}
	if c.limiters == nil {
		return 0, false
	}
	return shortest, true
}

// Close ends the chain's own waiters with [ErrClosed], refunding what they had taken, and
// refuses from then on. The limiters stay open; leases still release. It returns nil.
func (c *ChainedLimiter) Close() error {
	c.source.End(ErrClosed)
	return nil
}

// String returns a line for a person: the number of limiters, and the statistics.
func (c *ChainedLimiter) String() string {
	return fmt.Sprintf("chain of %d: %v", len(c.limiters), c.Statistics())
}
