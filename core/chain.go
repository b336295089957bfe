package core

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/ending"
)

// ChainedLimiter asks several limiters for the same permits, all or nothing. Make it with
// [Chain].
//
// TryAcquire and Acquire ask each limiter in turn, in the order given; Acquire waits for
// one before it asks the next, so put those that reject for good first, and those whose
// permits are dear to hold last. If one refuses, errs, panics, or the context is done, what
// was taken is undone, last first, and the refuser's own lease and error come back: its
// [LimiterName] says who it was. If all grant, the combined lease releases them last
// first, and its metadata is the union of theirs, the first limiter's value winning.
//
// Available and Statistics.Limit are the smallest of the limiters', Queued is their sum,
// Granted and Rejected count the chain's own answers. Close ends the chain's own waiters
// with [ErrClosed], undoing what they had taken, and closes none of the limiters.
//
// It is a [Limiter], [Reporter], [Idler], [Refunder], [Replenisher] and [io.Closer], safe
// for concurrent use, and may be in other chains. The zero value refuses with [ErrClosed].
type ChainedLimiter struct {
	links   []link
	foreign bool   // a part runs somebody else's code, which may panic
	step    uint64 // a ticket's generations per lease; see ticketPool

	tickets  atomic.Pointer[ticketPool] // of the terms that the latest lease showed
	released atomic.Pointer[quarantine] // nil: no lease was released that a refund may follow
	granted  atomic.Uint64
	rejected atomic.Uint64
	source   ending.Source // Close ends the waits by it
}

// Chain returns a limiter that asks each of limiters for the same permits. It is an error
// if there is none, if one is nil, or if one is there twice, be it in a chain among them or
// behind a [WithReason]: it would be asked twice for each request, and wait for itself. A
// limiter may be in several chains.
func Chain(limiters ...Limiter) (*ChainedLimiter, error) {
	if len(limiters) == 0 {
		return nil, errors.New("core: Chain of 0 limiters, want at least 1")
	}
	var errs []error
	var seen []root
	c := new(ChainedLimiter)
	for i, l := range limiters {
		if isNil(l) {
			errs = append(errs, fmt.Errorf("core: Chain limiter %d is nil", i))
			continue
		}
		for _, r := range roots(l) {
			for _, s := range seen {
				if identical(r, s.Limiter) {
					errs = append(errs, fmt.Errorf("core: Chain limiter %d asks the same limiter as limiter %d, %s", i, s.at, describe(r)))
				}
			}
			seen = append(seen, root{r, i})
		}
		c.links = append(c.links, newLink(l))
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	c.step = 1
	for i := range c.links {
		c.foreign = c.foreign || c.links[i].runsForeign()
		if c.links[i].refundable() {
			c.step = 2
		}
	}
	c.tickets.Store(&ticketPool{of: newExtra(extra{chain: c}, nil)})
	return c, nil
}

// root is a limiter that a chain stands on, with its place among Chain's arguments.
type root struct {
	Limiter
	at int
}

// Limiters returns the limiters of the chain, in its order.
func (c *ChainedLimiter) Limiters() []Limiter {
	limiters := make([]Limiter, len(c.links))
	for i := range c.links {
		limiters[i] = c.links[i].Limiter
	}
	return limiters
}

// TryAcquire takes the permits from all limiters, or from none. It never blocks.
func (c *ChainedLimiter) TryAcquire(permits int) Lease {
	if l, ok := c.check(permits); !ok {
		return l
	}
	t := c.ticket()
	if c.foreign {
		whole := false
		defer func() {
			if !whole { // one panicked
				c.unwind(t)
			}
		}()
		l := c.tryAll(t, permits)
		whole = true
		return l
	}
	return c.tryAll(t, permits)
}

// tryAll asks one limiter after the other.
func (c *ChainedLimiter) tryAll(t *cell, permits int) Lease {
	for i := range c.links {
		l := c.links[i].TryAcquire(permits)
		if !l.Acquired() {
			c.unwind(t)
			if l.rejected() {
				c.rejected.Add(1)
			}
			return l
		}
		t.x.links = append(t.x.links, l)
	}
	c.granted.Add(1)
	return c.combine(t, permits)
}

// Acquire takes the permits from each limiter in turn, waiting where it must. A done ctx,
// then or later, ends it with ctx.Err(), unchanged, and leaves nothing taken.
func (c *ChainedLimiter) Acquire(ctx context.Context, permits int) (Lease, error) {
	if err := ctx.Err(); err != nil && permits >= 0 {
		return Refuse(err), err
	}
	if l, ok := c.check(permits); !ok {
		return l.refusal()
	}
	t := c.ticket()
	if !c.takeFrom(t, permits) {
		return c.acquireSlow(ctx, permits, t)
	}
	c.confirm(t)
	return c.combine(t, permits), nil
}

// acquireSlow goes on from the limiter that may have to wait, or is not of this package.
func (c *ChainedLimiter) acquireSlow(ctx context.Context, permits int, t *cell) (Lease, error) {
	c.certainParts(t)
	waiting, whole := c.source.Begin(ctx), false
	defer func() {
		waiting.Finish(!c.foreign)
		if !whole { // refused, or one panicked
			c.unwind(t)
		}
	}()
	for len(t.x.links) < len(c.links) {
		k := &c.links[len(t.x.links)]
		l, err := k.Acquire(waiting, permits) //nolint:contextcheck // it is ctx, until Close
		if l, err = answered(k.Limiter, l, err); err != nil {
			return c.refusal(waiting, l, err)
		}
		t.x.links = append(t.x.links, l)
		if err = waiting.Err(); err != nil {
			return c.refusal(waiting, Refuse(err), err)
		}
	}
	whole = true
	c.granted.Add(1)
	return c.combine(t, permits), nil
}

// refusal tells a limiter's own refusal from the end of the wait, by ctx or by Close.
func (c *ChainedLimiter) refusal(waiting *ending.Context, l Lease, err error) (Lease, error) {
	if errors.Is(err, ErrRejected) {
		c.rejected.Add(1)
		return l, err
	}
	if cause := waiting.EndedBy(err); cause != nil {
		return Refuse(cause), cause
	}
	return l, err
}

// check answers what no limiter needs to be asked for.
func (c *ChainedLimiter) check(permits int) (l Lease, ask bool) {
	switch {
	case permits < 0:
		return Lease{bits: uint64(negative)}, false
	case c.links == nil || c.source.Cause() != nil:
		return Lease{bits: uint64(closed)}, false
	}
	// More than a later limiter's limit fails before an earlier one is taken from.
	for i := range c.links {
		k := &c.links[i]
		if k.fits(permits) {
			continue
		}
		if l = k.TryAcquire(permits); !l.Acquired() {
			return l, false
		}
		k.undo(l) // its limit was raised just now
	}
	return Lease{}, true
}

// takeFrom takes from the limiters whose permits can be had without waiting, and without
// a trace if not; it stops at the first that can't say, and reports whether none did.
func (c *ChainedLimiter) takeFrom(t *cell, permits int) bool {
	for i := range c.links {
		l, ok := c.links[i].tryQuietly(permits)
		if !ok {
			return false
		}
		t.x.links = append(t.x.links, l)
	}
	return true
}

func (c *ChainedLimiter) tryQuietly(permits int) (Lease, bool) {
	if _, ok := c.check(permits); !ok {
		return Lease{}, false
	}
	t := c.ticket()
	if !c.takeFrom(t, permits) {
		c.forgetParts(t)
		return Lease{}, false
	}
	return c.combine(t, permits), true
}

// confirm counts a grant of the chain, and of its parts, that tryQuietly took.
func (c *ChainedLimiter) confirm(t *cell) {
	c.certainParts(t)
	c.granted.Add(1)
}

func (c *ChainedLimiter) certainParts(t *cell) {
	for i := range t.x.links {
		c.links[i].certain()
	}
}

func (c *ChainedLimiter) certain() {
	for i := range c.links {
		c.links[i].certain()
	}
	c.granted.Add(1)
}

func (c *ChainedLimiter) undo(l Lease) { c.Refund(l) }

func (c *ChainedLimiter) forget(l Lease) {
	if t := l.home(); c.claim(t, l.generation()) {
		c.forgetParts(t)
	}
}

func (c *ChainedLimiter) fits(permits int) bool {
	for i := range c.links {
		if !c.links[i].fits(permits) {
			return false
		}
	}
	return true
}

func (c *ChainedLimiter) runsForeign() bool { return c.foreign }

func (c *ChainedLimiter) refundable() bool { return c.step == 2 }

// Available returns the smallest of the limiters' available permits.
func (c *ChainedLimiter) Available() int {
	if c.links == nil {
		return 0
	}
	available := math.MaxInt
	for i := range c.links {
		available = min(available, c.links[i].Available())
	}
	return available
}

// Statistics returns the smallest Limit and Available of the limiters, the sum of their
// queues, and the chain's own counts. Limit is 0 if no limiter is a [Reporter].
func (c *ChainedLimiter) Statistics() Statistics {
	s := Statistics{Available: c.Available(), Granted: c.granted.Load(), Rejected: c.rejected.Load()}
	for i := range c.links {
		if r, ok := c.links[i].Limiter.(Reporter); ok {
			k := r.Statistics()
			s.Queued += min(k.Queued, math.MaxInt-s.Queued)
			if s.Limit == 0 || k.Limit > 0 && k.Limit < s.Limit {
				s.Limit = k.Limit
			}
		}
	}
	return s
}

// IdleFor returns how long all limiters have been idle, and whether all are; one that is
// no [Idler] never is.
func (c *ChainedLimiter) IdleFor() (time.Duration, bool) {
	shortest := time.Duration(math.MaxInt64)
	for i := range c.links {
		k, ok := c.links[i].Limiter.(Idler)
		if !ok {
			return 0, false
		}
		d, idle := k.IdleFor()
		if !idle {
			return 0, false
		}
		shortest = min(shortest, d)
	}
	if c.links == nil {
		return 0, false
	}
	return shortest, true
}

// Close ends the chain's own waiters with [ErrClosed], undoing what they had taken, and
// refuses from then on. The limiters stay open; leases still release. It returns nil.
func (c *ChainedLimiter) Close() error {
	c.source.End(ErrClosed)
	return nil
}

// String returns a line for a person: the number of limiters, and the statistics.
func (c *ChainedLimiter) String() string {
	return fmt.Sprintf("chain of %d: %v", len(c.links), c.Statistics())
}
