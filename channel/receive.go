package channel

import (
	"context"
	"iter"

	"github.com/sluice-go/sluice/core"
)

// TryReceive takes the oldest item and releases its lease; false if nothing is queued. It
// never blocks.
func (c *LimitedChannel[T]) TryReceive() (T, bool) {
	c.mu.Lock()
	v, h, ok := c.oldestLocked()
	if !ok {
		c.mu.Unlock()
		return v, false
	}
	c.takenUnlock(h, false)
	return v, true
}

// TryReceiveLease is TryReceive that leaves the item's lease to the caller, as
// [LimitedChannel.ReceiveLease] does; false if nothing is queued, and then the lease is not
// acquired.
func (c *LimitedChannel[T]) TryReceiveLease() (T, core.Lease, bool) {
	c.mu.Lock()
	v, h, ok := c.oldestLocked()
	if !ok {
		c.mu.Unlock()
		return v, core.Lease{}, false
	}
	c.takenUnlock(h, true)
	return v, c.leaseOf(h), true
}

// Receive takes the oldest item and releases its lease. It waits for one.
//
// It returns ctx.Err() if ctx is done, then or before an item came, even if items are there
// by now, and then has taken none. Once it was given an item, a ctx that ends makes no
// difference. Receivers that wait are served in the order in which they came. Once the
// channel is closed and empty, it returns [ErrClosed], or CloseWithError's error.
func (c *LimitedChannel[T]) Receive(ctx context.Context) (T, error) {
	if err := ctx.Err(); err != nil {
		var none T
		return none, err
	}
	c.mu.Lock()
	if !c.light || c.queue.n == 0 || len(c.front) > 0 || c.heldUpLocked() {
		v, _, err := c.receiveUnlock(ctx, false)
		return v, err
	}
	v := c.queue.popItem()
	c.mu.Unlock()
	if c.plain != nil {
		c.plain.Give(1)
	}
	return v, nil
}

// heldUpLocked reports whether something follows when an item leaves.
func (c *LimitedChannel[T]) heldUpLocked() bool {
	return c.senders.first != nil || c.room.first != nil || !c.open.Load()
}

// ReceiveLease is Receive that leaves the item's lease to the caller, to be released when
// the work is done: so what is limited is what is queued and in work, not only what is
// queued. The lease may be released after Close, too. Beside an error it is not acquired.
//
// The permits are the item's: a [Bounded] channel's lease is of one, and gives its room
// back. Capacity counts what is queued alone.
func (c *LimitedChannel[T]) ReceiveLease(ctx context.Context) (T, core.Lease, error) {
	if err := ctx.Err(); err != nil {
		var none T
		return none, core.Lease{}, err
	}
	c.mu.Lock()
	v, h, err := c.receiveUnlock(ctx, true)
	if err != nil {
		return v, core.Lease{}, err
	}
	return v, c.leaseOf(h), nil
}

// WaitToReceive waits until an item is there. It takes none, so another receiver may be
// first; try in a loop. Its errors are Receive's.
func (c *LimitedChannel[T]) WaitToReceive(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		done := ctx.Done()
		c.mu.Lock()
		if c.lenLocked() > 0 {
			c.mu.Unlock()
			return nil
		}
		if !c.open.Load() {
			c.mu.Unlock()
			return c.endError()
		}
		if err := c.watchUnlock(ctx, &c.items, done); err != nil {
			return err
		}
	}
}

// TryPeek returns the oldest item and leaves it; false if nothing is queued. By the time
// it returns, the item may be another's.
func (c *LimitedChannel[T]) TryPeek() (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.front) > 0:
		return c.front[0].item, true
	case c.queue.n > 0:
		return c.queue.items[c.queue.head], true
	}
	var none T
	return none, false
}

// All yields what Receive returns, until that is an error: the channel is closed and
// empty, or ctx is done. A consumer that breaks off loses nothing.
func (c *LimitedChannel[T]) All(ctx context.Context) iter.Seq[T] {
	return func(yield func(T) bool) {
		for {
			v, err := c.Receive(ctx)
			if err != nil || !yield(v) {
				return
			}
		}
	}
}

// receiveUnlock takes the oldest item. What it held is released, or with keep, left to the
// caller: without a limiter its room stays taken.
func (c *LimitedChannel[T]) receiveUnlock(ctx context.Context, keep bool) (v T, h hold, err error) {
	v, h, ok := c.oldestLocked()
	if !ok {
		return c.receiveSlowUnlock(ctx, keep)
	}
	c.takenUnlock(h, keep)
	return v, h, nil
}

// takenUnlock does what follows when the oldest item was taken.
func (c *LimitedChannel[T]) takenUnlock(h hold, keep bool) {
	if keep {
		c.lendLocked()
		woken := c.leftLocked()
		c.mu.Unlock()
		wake(woken)
		return
	}
	woken := c.leftLocked()
	h = c.leavingLocked(h)
	c.mu.Unlock()
	c.settle(h, woken)
}

func (c *LimitedChannel[T]) receiveSlowUnlock(ctx context.Context, keep bool) (v T, h hold, err error) {
	c.mu.Unlock()
	done := ctx.Done()
	c.mu.Lock()
	for range yields {
		if c.lenLocked() > 0 || !c.open.Load() || c.receivers.first != nil {
			break
		}
		c.yieldLocked()
		if isDone(done) {
			// It may have ended before an item came; none has been given to this caller.
			c.mu.Unlock()
			return v, h, errOf(ctx)
		}
	}
	v, h, ok := c.oldestLocked()
	if ok {
		c.takenUnlock(h, keep)
		return v, h, nil
	}
	if !c.open.Load() {
		c.mu.Unlock()
		return v, h, c.endError()
	}
	w := c.waiterLocked(done, &c.receivers)
	w.keeps = keep
	c.mu.Unlock()
	o := c.park(w)
	v, h = w.item, w.hold
	c.recycle(w)
	switch o {
	case ended:
		err = c.endError()
	case cancelled:
		err = errOf(ctx)
	}
	return v, h, err
}

// returnRoom is the release of a lease that ReceiveLease made.
func (c *LimitedChannel[T]) returnRoom() {
	c.mu.Lock()
	c.lent--
	woken := c.leftLocked()
	c.mu.Unlock()
	wake(woken)
}

// oldestLocked takes out the oldest item; false if there is none. An item that a Chan
// offers is taken back first.
func (c *LimitedChannel[T]) oldestLocked() (v T, h hold, ok bool) {
	if len(c.front) > 0 {
		if v, h, ok = c.takeFrontLocked(false); ok {
			return v, h, true
		}
	}
	if c.queue.n == 0 {
		return v, h, false
	}
	v, h = c.queue.pop()
	return v, h, true
}

// newestLocked takes out the newest item; false if there is none.
func (c *LimitedChannel[T]) newestLocked() (v T, h hold, ok bool) {
	for c.queue.n == 0 {
		// While that waits for an offer to end, others may queue items.
		if v, h, ok = c.takeFrontLocked(true); ok || c.queue.n == 0 {
			return v, h, ok
		}
	}
	v, h = c.queue.popBack()
	return v, h, true
}
