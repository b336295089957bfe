package core

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/wait"
)

// ChainedLimiter takes the same permits from several limiters, all or nothing. Create it with
// [Chain].
//
// TryAcquire and Acquire call the limiters one after the other, in the order given. Acquire waits for one limiter
// before it calls the next, and holds the permits of the earlier limiters while it waits. A request for more
// permits than one of the limits fails immediately, before any limiter is called. Put limiters that reject
// permanently first, and limiters whose permits are expensive to hold last. Two chains of the same concurrency
// limiters in opposite orders can wait for each other until a context ends, so use one order in all chains.
//
// If a limiter rejects, fails or panics, or the context is done, the permits already taken are refunded, last first.
// The lease and the error are then those of that limiter, and [LimiterName] in the metadata says which limiter it was.
// The limiters' own statistics still count the grants that were refunded. If all limiters grant, the combined lease
// releases their leases in reverse order. Its metadata is the union of theirs; if several have a value of one name,
// the first limiter's is used. A request for zero permits is granted if every limiter grants it.
//
// Available and Statistics.Limit are the minimum over the limiters, Queued is their sum, and Granted and Rejected
// count the chain's own decisions. Close ends the waits in the chain with [ErrClosed], refunds what those waiters had
// taken, and closes none of the limiters. Leases and reservations stay valid.
//
// It implements [Limiter], [Reporter], [Idler], [Resetter], [Replenisher],
// [Reserver], [QuietTrier] and [io.Closer], is safe for concurrent use, and may be part of other
// chains. Requests to the zero value fail with [ErrClosed].
type ChainedLimiter struct {
	limiters []Limiter
	below    []root // the limiters that it uses in the end

	leases   *joiner // joiner of a chain like it, if package backdoor made it
	granted  atomic.Uint64
	rejected atomic.Uint64
	source   wait.Source // Close uses it to end the waits
}

// Chain returns a limiter that takes the same permits from each of limiters. It returns an error if there are no
// limiters, if one is nil, or if one occurs twice, even inside another chain or below [WithReason] or [Shadow],
// because a request would take permits from it twice and could wait for itself. A limiter may be in several chains.
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
		for _, r := range rootsOf(l) {
			for _, s := range c.below {
				if identical(r.Limiter, s.Limiter) {
					errs = append(errs, fmt.Errorf("core: Chain limiter %d asks the same limiter as limiter %d, %s", i, s.at, describe(r.Limiter)))
				}
			}
			r.at, r.engine = i, engineOf(r.Limiter)
			c.below = append(c.below, r)
		}
		c.limiters = append(c.limiters, l)
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	c.leases = &joiner{size: len(c.limiters)}
	return c, nil
}

// Limiters returns the limiters of the chain, in order.
func (c *ChainedLimiter) Limiters() []Limiter { return append([]Limiter(nil), c.limiters...) }

func (c *ChainedLimiter) itself() Limiter  { return c }
func (c *ChainedLimiter) roots() []root    { return c.below }
func (c *ChainedLimiter) parts() []Limiter { return c.limiters }
func (c *ChainedLimiter) isClosed() bool   { return c.limiters == nil || c.source.Cause() != nil }

// TryAcquire takes the permits from all limiters, or from none. It does not wait for permits.
func (c *ChainedLimiter) TryAcquire(permits int) Lease {
	if l, ok := c.check(permits); !ok {
		return l
	}
	l := c.ask(permits, Limiter.TryAcquire)
	if l.rejected() {
		c.rejected.Add(1)
	}
	return l
}

// TryQuietly is like TryAcquire, but does not count a rejection. It grants only if all limiters are QuietTriers. If
// one of them rejects, the limiters before it have already counted a grant. See the function [TryQuietly].
func (c *ChainedLimiter) TryQuietly(permits int) (Lease, bool) {
	if l, ok := c.check(permits); !ok {
		return l, false
	}
	l := c.ask(permits, quietly)
	return l, l.Acquired()
}

func quietly(l Limiter, permits int) Lease {
	k, _ := TryQuietly(l, permits)
	return k
}

// ask asks each limiter with try, and refunds the permits taken so far if one rejects or panics.
func (c *ChainedLimiter) ask(permits int, try func(Limiter, int) Lease) Lease {
	j, whole := c.leases.begin(), false
	defer func() {
		if !whole {
			j.undo()
		}
	}()
	for _, l := range c.limiters {
		k := try(l, permits)
		if !k.Acquired() {
			return k
		}
		j.Add(k)
	}
	whole = true
	return c.join(j, permits)
}

// Acquire takes the permits from one limiter after the other, and waits where a limiter's Acquire waits.
// If ctx is done before or during the wait, Acquire returns ctx.Err(), unchanged, and keeps no permits. If
// a limiter rejects, the error is that limiter's. After Close it is [ErrClosed].
func (c *ChainedLimiter) Acquire(ctx context.Context, permits int) (Lease, error) {
	l, _, err := c.acquireUnder(ctx, permits, nil, bounded)
	return l, err
}

func (c *ChainedLimiter) acquireUnder(ctx context.Context, permits int, s *wait.Source, q queueing) (l Lease, waited bool, err error) {
	if err := ctx.Err(); err != nil && permits >= 0 {
		return Fail(err), false, err
	}
	if l, ok := c.check(permits); !ok {
		l, err = l.asError()
		return l, false, err
	}
	j, whole := c.leases.begin(), false
	defer func() {
		if !whole {
			j.undo()
		}
	}()
	for _, l := range c.limiters {
		k, ok := TryQuietly(l, permits)
		if ok {
			j.Add(k)
			continue
		}
		k, w, err := acquireUnderBoth(ctx, l, permits, &c.source, s, q)
		waited = waited || w
		if err == nil {
			j.Add(k) // before ctx is asked again, whose Err may panic
		}
		if k, err = c.ended(ctx, k, err); err != nil {
			return k, waited, err
		}
	}
	whole = true
	return c.join(j, permits), waited, nil
}

// ended returns the answer of one limiter, or why the request has ended: the context's own error,
// unchanged, or ErrClosed if the chain was closed.
func (c *ChainedLimiter) ended(ctx context.Context, k Lease, err error) (Lease, error) {
	own, why := ctx.Err(), c.source.Ended(ctx)
	switch {
	case err == nil && why == nil:
		return k, nil
	case err == nil: // the limiter did not notice
		return Fail(why), why
	case own != nil && same(err, own):
		return k, err
	case errors.Is(err, ErrRejected):
		c.rejected.Add(1)
		return k, err
	}
	if explained := c.source.Explain(ctx, err); !same(explained, err) {
		return Fail(explained), explained
	}
	return k, err
}

// check answers requests for which no limiter, or only the one that fails, has to be called.
func (c *ChainedLimiter) check(permits int) (l Lease, ask bool) {
	switch {
	case permits < 0:
		return Lease{bits: uint64(negative)}, false
	case c.isClosed():
		return Lease{bits: uint64(closed)}, false
	}
	// More than a later limiter's limit fails before an earlier one is taken from.
	l, exceeds := c.exceeding(permits)
	return l, !exceeds
}

// join counts and returns the lease of all parts.
func (c *ChainedLimiter) join(j *chainLease, permits int) Lease {
	c.granted.Add(1)
	return j.Join(permits)
}

// exceeding returns the answer of the first limiter whose limit is less than permits; false if
// there is none. It considers only limiters of this package.
func (c *ChainedLimiter) exceeding(permits int) (Lease, bool) {
	for _, r := range c.below {
		if r.engine != nil && !r.shadowed {
			if s := r.engine.settings.Load(); s != nil && permits > s.Most() {
				failed := r.Limiter.TryAcquire(permits)
				failed.Refund() // an Update may have come between
				return failed, failed.outcome() == exceeds
			}
		}
	}
	return Lease{}, false
}

// Available returns the minimum of the limiters' Available.
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

// Statistics returns the minimum of the limiters' Limit and Available, the sum of their Queued,
// and the chain's own counts. Limit is 0 if no limiter is a [Reporter], or if one is [Blocked] or [Paused].
func (c *ChainedLimiter) Statistics() Statistics {
	s := Statistics{Available: c.Available(), Granted: c.granted.Load(), Rejected: c.rejected.Load()}
	for _, l := range c.limiters {
		if r, ok := As[Reporter](l); ok {
			k := r.Statistics()
			s.Queued += min(k.Queued, math.MaxInt-s.Queued)
			if s.Limit == 0 || k.Limit > 0 && k.Limit < s.Limit {
				s.Limit = k.Limit
			}
		}
	}
	for _, r := range c.below {
		if _, none := As[*shut](r.Limiter); none {
			s.Limit = 0 // and it is known
		}
	}
	return s
}

// IdleFor returns how long all limiters have been idle. It returns 0 and false if one is not. A
// limiter that is not an [Idler] is never idle.
func (c *ChainedLimiter) IdleFor() (time.Duration, bool) {
	shortest := time.Duration(math.MaxInt64)
	for _, l := range c.limiters {
		k, ok := As[Idler](l)
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

// Close ends the waits in the chain with [ErrClosed] and refunds what those waiters had taken.
// Later requests fail with ErrClosed. The limiters stay open, and leases can still be released.
// Close always returns nil, and may be called again.
func (c *ChainedLimiter) Close() error {
	c.source.End(ErrClosed)
	return nil
}

// String returns a human-readable line: the number of limiters, and the statistics.
func (c *ChainedLimiter) String() string {
	return fmt.Sprintf("chain of %d: %v", len(c.limiters), c.Statistics())
}

// TryReplenish calls TryReplenish on every limiter that is a [Replenisher], and reports whether permits were returned
// to any of them. It does so even after the chain's Close, because the limiters stay open.
func (c *ChainedLimiter) TryReplenish() bool {
	returned := false
	for r := range c.replenishers() {
		returned = r.TryReplenish() || returned
	}
	return returned
}

// Reset resets every limiter that is a [Resetter].
func (c *ChainedLimiter) Reset() {
	for _, l := range c.limiters {
		if r, ok := As[Resetter](l); ok {
			r.Reset()
		}
	}
}

// ReplenishmentPeriod returns the shortest of the limiters' periods, or 0 if there are none.
func (c *ChainedLimiter) ReplenishmentPeriod() time.Duration {
	shortest := time.Duration(0)
	for r := range c.replenishers() {
		if p := r.ReplenishmentPeriod(); shortest == 0 || p < shortest {
			shortest = p
		}
	}
	return shortest
}

// AutoReplenishing reports whether the chain has limiters whose permits are returned with time, and
// all of these replenish automatically.
func (c *ChainedLimiter) AutoReplenishing() bool {
	replenishes := false
	for r := range c.replenishers() {
		if !r.AutoReplenishing() {
			return false
		}
		replenishes = true
	}
	return replenishes
}

// replenishers yields the limiters whose permits are returned with time. A nested chain without any
// does not count: its period is 0.
func (c *ChainedLimiter) replenishers() iter.Seq[Replenisher] {
	return func(yield func(Replenisher) bool) {
		for _, l := range c.limiters {
			if r, ok := As[Replenisher](l); ok && r.ReplenishmentPeriod() > 0 && !yield(r) {
				return
			}
		}
	}
}

// Reserve reserves the permits in all limiters, or in none: see [TokenBucket.Reserve]. The Delay is the largest of the
// limiters' delays. If a limiter is not a [Reserver], the lease is not acquired, and its error names that limiter.
// After Close the error is [ErrClosed].
//
// The reservations are in the limiters, so the chain's Close does not end them: refund the lease, or close the
// limiters. The chain's Granted counts the lease immediately. Its Queued, the sum of the limiters', counts the
// permits too until they become available.
func (c *ChainedLimiter) Reserve(permits int) Lease {
	if l, ok := c.check(permits); !ok {
		return l
	}
	longest, known := time.Duration(0), true // until a limiter does not say when its permits become available
	for _, l := range c.limiters {
		if _, ok := l.(Reserver); !ok {
			return reserve(l, permits)
		}
	}
	l := c.ask(permits, func(l Limiter, permits int) Lease {
		k := reserve(l, permits)
		d, ok := Delay.From(k)
		longest, known = max(longest, d), known && ok
		return k
	})
	switch {
	case l.rejected():
		c.rejected.Add(1)
	case l.Acquired() && known:
		return l.With(Delay.With(longest))
	case l.Acquired():
		return l.without(Delay.name) // that of one limiter is not that of all
	}
	return l
}
