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

// How often a sender that is refused and finds nothing to evict lets others run, as long as
// some of them may have what it lacks. They are a few instructions from putting it where
// it belongs, but the system may have stopped them.
const (
	// Some milliseconds of this goroutine's own running: longer than the system stops a
	// thread for another. It ends at all only for the sake of a user's limiter that sends to
	// the channel that it limits, or takes its time.
	patience = 1 << 16
	// It can't be told whether those have anything: enough for whoever is about to run.
	patienceInDoubt = 1 << 8
)

// trySendEvicting is TrySend in a mode that evicts.
func (c *LimitedChannel[T]) trySendEvicting(v T, n int) error {
	if c.plain != nil {
		return c.trySendCounted(v, n)
	}
	h, err := c.tryMoving(n)
	if err != nil {
		return c.evictFor(v, n, err)
	}
	return c.putMoving(v, h)
}

// sendEvicting is Send in a mode that evicts.
func (c *LimitedChannel[T]) sendEvicting(ctx context.Context, v T, n int) error {
	if c.plain != nil {
		return c.sendCounted(ctx, v, n)
	}
	h, err := c.acquireMoving(ctx, n)
	if err != nil {
		return c.evictFor(v, n, err)
	}
	return c.putMoving(v, h)
}

// acquireMoving is acquire, and notes that the permits are on their way. A sender in the
// limiter's queue is not: it has none, and may stay there for long.
func (c *LimitedChannel[T]) acquireMoving(ctx context.Context, n int) (h hold, err error) {
	c.asking.Add(int64(max(n, 1)))
	defer c.asking.Add(-int64(max(n, 1))) // a user's limiter may panic
	h, err = c.acquire(ctx, n)
	if err == nil {
		c.transit.begin()
		c.transit.grant()
	}
	return h, err
}

// tryMoving is try, and notes that the permits are on their way.
func (c *LimitedChannel[T]) tryMoving(n int) (h hold, err error) {
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

// putMoving queues an item whose permits are on their way.
func (c *LimitedChannel[T]) putMoving(v T, h hold) error {
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
		c.transit.begin()
	}
	c.mu.Unlock()
	if !spent {
		h = hold{}
	}
	if evicted {
		defer c.drop(dropped)
		defer c.settle(held, nil)
	}
	c.settle(h, woken)
	return nil
}

// evictFor drops queued items until the limiter grants n permits for v, or until that frees
// nothing: then v is refused with the limiter's error.
func (c *LimitedChannel[T]) evictFor(v T, n int, err error) error {
	if !errors.Is(err, core.ErrRejected) || c.exceeds(n) {
		return err
	}
	for waited := 0; ; {
		evicted, freed, before, open := c.evict()
		if !open {
			return ErrClosed
		}
		h, err := c.tryMoving(n)
		if err == nil {
			return c.putMoving(v, h)
		}
		if !errors.Is(err, core.ErrRejected) {
			return err
		}
		asking := c.asking.Load() // before the transit: that is where they go on
		after := c.transit.load()
		switch {
		case evicted && freed, c.kind != timed && after.grants() != before.grants():
			// What was freed, or was there, others got: they bring it to the queue.
			waited = 0
		case evicted:
			if c.kind == timed || !c.othersGot(before) {
				return err
			}
		case waited >= c.patienceFor(before, after, asking):
			// The queue was empty, nobody was on the way, and nobody has got anything since: the
			// permits are held by strangers.
			return err
		default:
			waited++
			runtime.Gosched()
		}
	}
}

// patienceFor returns how often to let others run before it is sure that none of them has
// what is missing: none was on the way before or after, and none asks in Send.
func (c *LimitedChannel[T]) patienceFor(before, after transitState, asking int64) int {
	switch {
	case c.kind == timed:
		return 0 // what others have got does not come back by eviction
	case before.busy(), after.busy():
		return patience
	case asking > 0 && c.says && asking > int64(c.queuedAtLimiter()):
		return patience // one may have been granted its permits, and not have run since
	case asking > 0:
		return patienceInDoubt
	}
	return 0
}

// othersGot reports whether other senders got permits since before, once those that may
// have had their chance to say so.
func (c *LimitedChannel[T]) othersGot(before transitState) bool {
	for waited := 0; ; waited++ {
		asking := c.asking.Load()
		now := c.transit.load()
		if now.grants() != before.grants() {
			return true
		}
		if waited >= c.patienceFor(now, now, asking) {
			return false
		}
		runtime.Gosched()
	}
}

// exceeds reports whether n permits are more than the limiter ever grants, as far as it
// says: no eviction would help.
func (c *LimitedChannel[T]) exceeds(n int) bool {
	r, ok := c.limiter.(core.Reporter)
	if !ok {
		return false
	}
	limit := r.Statistics().Limit
	return limit > 0 && n > limit // 0: it does not say
}

// evict drops the item that Overflow drops first, if there is one. freed reports whether
// that gave the limiter anything back, or could not have: an item that held no permits.
// before says what was on the way at that instant.
func (c *LimitedChannel[T]) evict() (evicted, freed bool, before transitState, open bool) {
	c.mu.Lock()
	if !c.open.Load() {
		c.mu.Unlock()
		return false, false, 0, false
	}
	dropped, held, ok := c.evictLocked()
	open, before = c.open.Load(), c.transit.load()
	if !ok {
		c.mu.Unlock()
		return false, false, before, open
	}
	woken := c.leftLocked()
	held = c.leavingLocked(held)
	c.mu.Unlock()
	defer c.drop(dropped)
	return true, c.settleMeasuring(held, woken), before, open
}

// settleMeasuring is settle, and reports whether it freed permits, or could not have.
func (c *LimitedChannel[T]) settleMeasuring(h hold, woken *waiter[T]) bool {
	if c.kind > chained || h.lease.Permits() == 0 {
		c.settle(h, woken)
		return h.lease.Permits() == 0
	}
	// Of any other limiter the figures tell: what is available, or what waits for it.
	told := false
	defer func() {
		if !told { // it panicked
			c.settle(h, woken)
		}
	}()
	free, queued := c.limiter.Available(), c.queuedAtLimiter()
	told = true
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
