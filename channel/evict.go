package channel

import (
	"context"
	"errors"
	"runtime"
	"slices"

	"github.com/sluice-go/sluice/core"
)

// refused does what Overflow says with an item that the limiter refused with err, if that
// evicts nothing.
func (c *LimitedChannel[T]) refused(v T, err error) error {
	if c.overflow != DropIncoming || !errors.Is(err, core.ErrRejected) {
		return err
	}
	c.drop(v)
	return nil
}

// evictPatience is how often a sender that finds nothing to evict lets others run, as long
// as some of them may be on their way with the permits. Each is between two swaps there
// and needs to run but once; only one that the system has stopped takes longer, or a
// user's limiter that takes its time, and the sender is refused rather than held up.
const evictPatience = 256

// trySendEvicting is TrySend in a mode that evicts.
func (c *LimitedChannel[T]) trySendEvicting(v T, n int) error {
	h, err := c.tryCounted(n)
	if err != nil {
		return c.evictFor(v, n, err)
	}
	return c.putCounted(v, h)
}

// sendEvicting is Send in a mode that evicts.
func (c *LimitedChannel[T]) sendEvicting(ctx context.Context, v T, n int) error {
	h, err := c.acquireCounted(ctx, n)
	if err != nil {
		return c.evictFor(v, n, err)
	}
	return c.putCounted(v, h)
}

// acquireCounted is acquire, and notes that the permits are on their way. A sender in the
// limiter's queue is not: it has none, and may stay there for long.
func (c *LimitedChannel[T]) acquireCounted(ctx context.Context, n int) (h hold, err error) {
	c.asking.Add(1)
	defer c.asking.Add(-1) // a user's limiter may panic
	h, err = c.acquire(ctx, n)
	if err == nil {
		c.transit.begin()
		c.transit.grant()
	}
	return h, err
}

// tryCounted is try, and notes that the permits are on their way.
func (c *LimitedChannel[T]) tryCounted(n int) (h hold, err error) {
	granted := false
	c.transit.begin()
	defer func() { // a user's limiter may panic
		if !granted {
			c.transit.end()
		}
	}()
	h, err = c.try(n)
	if err == nil {
		granted = true
		c.transit.grant()
	}
	return h, err
}

// putCounted queues an item whose permits are on their way, in a mode that evicts.
func (c *LimitedChannel[T]) putCounted(v T, h hold) error {
	c.mu.Lock()
	var dropped T
	var held hold
	evicted := false
	if c.open.Load() && !c.roomLocked() {
		// If nothing is there to be evicted any more, there is room. While evictLocked waited
		// for an offer to end, others may have come, or Close.
		dropped, held, evicted = c.evictLocked()
	}
	if !c.open.Load() {
		c.mu.Unlock()
		defer c.transit.end()
		c.refund(h)
		return ErrClosed
	}
	woken, spent := c.putLocked(v, h)
	if evicted {
		c.leavingLocked()
	}
	c.mu.Unlock()
	if !spent {
		h = hold{}
	}
	c.settle(h, woken)
	if evicted {
		c.settle(held, nil)
		c.drop(dropped)
	}
	return nil
}

// evictFor drops queued items until the limiter grants n permits for v, or until that frees
// nothing: then v is refused with the limiter's error.
func (c *LimitedChannel[T]) evictFor(v T, n int, err error) error {
	if !errors.Is(err, core.ErrRejected) || c.exceeds(n) {
		return err
	}
	patience := evictPatience
	for {
		before, asking := c.transit.load(), c.asking.Load() > 0
		evicted, freed, open := c.evict()
		if !open {
			return ErrClosed
		}
		elsewhere := before.busy() || asking
		if !evicted && elsewhere && patience > 0 {
			patience--
			runtime.Gosched()
		}
		h, err := c.tryCounted(n)
		if err == nil {
			return c.putCounted(v, h)
		}
		if !errors.Is(err, core.ErrRejected) {
			return err
		}
		after := c.transit.load()
		switch {
		case evicted && freed, after.grants() != before.grants():
			// What was freed, or was there, others got: they bring it to the queue.
			patience = evictPatience
		case evicted:
			if c.othersGot(before) {
				continue
			}
			return err
		case !elsewhere && !after.busy(), patience <= 0:
			// The queue was empty, nobody was on the way, and nobody has got anything since: the
			// permits are held by strangers.
			return err
		}
	}
}

// othersGot reports whether other senders got permits since before, once those who are on
// their way have arrived.
func (c *LimitedChannel[T]) othersGot(before transitState) bool {
	for range evictPatience {
		now := c.transit.load()
		if now.grants() != before.grants() {
			return true
		}
		if !now.busy() {
			break
		}
		runtime.Gosched()
	}
	return false
}

// exceeds reports whether n permits are more than the limiter ever grants, as far as it
// says: no eviction would help.
func (c *LimitedChannel[T]) exceeds(n int) bool {
	r, ok := c.limiter.(core.Reporter)
	return ok && n > r.Statistics().Limit
}

// evict drops the item that Overflow drops first, if there is one. freed reports whether
// that gave the limiter anything back, or could not have: an item that held no permits.
func (c *LimitedChannel[T]) evict() (evicted, freed, open bool) {
	c.mu.Lock()
	if !c.open.Load() {
		c.mu.Unlock()
		return false, false, false
	}
	dropped, held, ok := c.evictLocked()
	open = c.open.Load()
	if !ok {
		c.mu.Unlock()
		return false, false, open
	}
	woken := c.leftLocked()
	c.leavingLocked()
	c.mu.Unlock()
	freed = c.settleMeasuring(held, woken)
	c.drop(dropped)
	return true, freed, open
}

// settleMeasuring is settle, and reports whether it freed permits, or could not have.
func (c *LimitedChannel[T]) settleMeasuring(h hold, woken *waiter[T]) bool {
	if c.kind > chained || h.lease.Permits() == 0 {
		c.settle(h, woken)
		return c.kind == counted || h.lease.Permits() == 0
	}
	// Of any other limiter the figures tell: what is available, or what waits for it.
	free, queued := c.limiter.Available(), c.queuedAtLimiter()
	c.settle(h, woken)
	return c.limiter.Available() > free || c.queuedAtLimiter() < queued
}

// queuedAtLimiter returns the permits that wait in the limiter's queue, if it says.
func (c *LimitedChannel[T]) queuedAtLimiter() int {
	if r, ok := c.limiter.(core.Reporter); ok {
		return r.Statistics().Queued
	}
	return 0
}

// overflowUnlock does what Overflow says with an item for which there is no room, if that
// evicts nothing.
func (c *LimitedChannel[T]) overflowUnlock(v T, n int, h hold) error {
	c.mu.Unlock()
	c.refund(h)
	switch {
	case c.overflow == DropIncoming:
		c.drop(v)
		return nil
	case c.limiter == nil:
		return &core.RejectedError{Permits: n, Reason: "permits exhausted"}
	}
	return &core.RejectedError{Permits: n, Reason: "capacity reached"}
}

// evictLocked takes out the item that Overflow drops first; false if nothing is queued, or
// the channel was closed while it waited for an offer to end.
func (c *LimitedChannel[T]) evictLocked() (v T, h hold, ok bool) {
	if c.overflow == DropOldest {
		v, h, ok = c.oldestLocked()
	} else {
		v, h, ok = c.newestLocked()
	}
	if !ok || c.open.Load() {
		return v, h, ok
	}
	// What a closed channel holds is the receivers'.
	if c.overflow == DropOldest {
		c.front = slices.Insert(c.front, 0, offered[T]{item: v, hold: h})
	} else {
		c.queue.push(v, h)
	}
	var none T
	return none, hold{}, false
}
