package channel

import (
	"context"
	"iter"

	"github.com/sluice-go/sluice/core"
)

// TryReceive takes the oldest item and releases its lease. It returns false if nothing is queued. It
// never waits.
func (c *LimitedChannel[T]) TryReceive() (T, bool) {
	if v, n, ok := c.popFast(); ok {
		c.giveFast(n)
		return v, true
	}
	v, _, ok := c.tryReceive(false)
	return v, ok
}

// TryReceiveLease is TryReceive that leaves the item's lease to the caller, as
// [LimitedChannel.ReceiveLease] does. If nothing is queued, it returns false and a lease that is not
// acquired.
func (c *LimitedChannel[T]) TryReceiveLease() (T, core.Lease, bool) {
	v, h, ok := c.tryReceive(true)
	if !ok {
		return v, core.Lease{}, false
	}
	return v, c.leaseOf(h), true
}

// Receive takes the oldest item and releases its lease. It waits for an item.
//
// If ctx is done, then or before an item came, Receive returns ctx.Err() and has taken none, even if items
// are there. Once a waiting Receive has been given an item, ctx makes no difference. Waiting receivers are
// served in the order in which they came. Once the channel is closed and empty, the error is
// [ErrClosed], or that of CloseWithError.
func (c *LimitedChannel[T]) Receive(ctx context.Context) (T, error) {
	if ctx.Err() == nil {
		if v, n, ok := c.popFast(); ok {
			c.giveFast(n)
			return v, nil
		}
	}
	v, _, err := c.receive(ctx, false)
	return v, err
}

// ReceiveLease is Receive that leaves the item's lease to the caller, who releases it when the work is
// done. So the limiter bounds what is queued and in work, not only what is queued. The lease may
// be released after Close, too. Beside an error the lease is not acquired.
//
// The lease has the item's permits. In a [Bounded] channel that is 1, and to release it makes room.
// Options.Capacity does not count received items.
func (c *LimitedChannel[T]) ReceiveLease(ctx context.Context) (T, core.Lease, error) {
	v, h, err := c.receive(ctx, true)
	if err != nil {
		return v, core.Lease{}, err
	}
	return v, c.leaseOf(h), nil
}

// WaitToReceive waits until an item is there. It takes none, so another receiver may come first; call
// TryReceive in a loop. Its errors are those of Receive.
func (c *LimitedChannel[T]) WaitToReceive(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		there, over, err := c.awaitItem(ctx)
		switch {
		case there || err != nil:
			return err
		case over:
			return c.endError()
		}
	}
}

// awaitItem reports whether an item is there, or the channel is closed and empty. If neither, it waits for
// a change of that, and returns the error of a ctx that ends.
func (c *LimitedChannel[T]) awaitItem(ctx context.Context) (there, over bool, err error) {
	done := ctx.Done()
	var w *waiter[T]
	c.mu.Lock()
	there, over = c.thereLocked() > 0, c.overLocked()
	if !there && !over {
		w = newWaiter[T](done)
		c.items.push(w)
	}
	c.mu.Unlock()
	if w != nil && c.park(w) == cancelled {
		err = ctx.Err()
	}
	return there, over, err
}

// TryPeek returns the oldest item and leaves it; false if nothing is queued, or a Chan offers all that
// is. When TryPeek returns, another receiver may have taken the item.
func (c *LimitedChannel[T]) TryPeek() (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.returned) > 0:
		return c.returned[0].item, true
	case c.queue.items.n > 0:
		return c.queue.items.slots[c.queue.items.head], true
	}
	var none T
	return none, false
}

// All returns an iterator over what Receive returns, until that is an error: the channel is closed and
// empty, or ctx is done. ctx.Err and [LimitedChannel.Err] tell which. Breaking out of the loop loses no
// item.
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

// tryReceive takes the oldest item. What it held is given back, or with keep, left to the caller; without
// a limiter its room then stays taken.
func (c *LimitedChannel[T]) tryReceive(keep bool) (v T, h hold, ok bool) {
	var a after[T]
	c.mu.Lock()
	v, h, ok = c.takeLocked(keep, &a)
	c.mu.Unlock()
	c.finish(&a)
	return v, h, ok
}

func (c *LimitedChannel[T]) receive(ctx context.Context, keep bool) (v T, h hold, err error) {
	if err := ctx.Err(); err != nil {
		return v, h, err
	}
	done := ctx.Done()
	var w *waiter[T]
	var a after[T]
	c.mu.Lock()
	v, h, ok := c.takeLocked(keep, &a)
	if !ok && !c.overLocked() {
		w = newWaiter[T](done)
		w.keeps = keep
		c.receivers.push(w)
	}
	c.mu.Unlock()
	c.finish(&a)
	switch {
	case ok:
		return v, h, nil
	case w == nil:
		return v, h, c.endError()
	}
	switch c.park(w) {
	case ended:
		err = c.endError()
	case cancelled:
		err = ctx.Err()
	}
	return w.item, w.hold, err
}

// takeLocked takes the oldest item out for a receiver; false if nothing is there.
func (c *LimitedChannel[T]) takeLocked(keep bool, a *after[T]) (v T, h hold, ok bool) {
	v, h, ok = c.oldestLocked()
	if !ok {
		return v, h, false
	}
	if keep {
		c.lendLocked()
	} else {
		c.spendLocked(h, a)
	}
	c.leftLocked(a)
	return v, h, true
}

// popFast takes out the oldest item with its plain permits, if nothing follows from that: the counterpart
// of putFast.
func (c *LimitedChannel[T]) popFast() (v T, n int, ok bool) {
	if c.way != fast {
		return v, 0, false
	}
	c.mu.Lock()
	if ok = c.queue.items.n > 0 && len(c.returned) == 0 && c.senders.first == nil && c.room.first == nil && c.open.Load(); ok {
		v, n = c.queue.items.pop(), c.queue.popPlain()
	}
	c.mu.Unlock()
	return v, n, ok
}

func (c *LimitedChannel[T]) giveFast(n int) {
	if n > 0 {
		c.plain.Give(n)
	}
}

// oldestLocked takes out the oldest item; false if nothing is there.
func (c *LimitedChannel[T]) oldestLocked() (v T, h hold, ok bool) {
	switch {
	case len(c.returned) > 0:
		v, h = c.takeReturnedLocked(0)
	case c.queue.items.n > 0:
		v, h = c.queue.pop()
	default:
		return v, h, false
	}
	return v, h, true
}

// newestLocked takes out the newest item; false if nothing is there.
func (c *LimitedChannel[T]) newestLocked() (v T, h hold, ok bool) {
	switch {
	case c.queue.items.n > 0:
		v, h = c.queue.popBack()
	case len(c.returned) > 0:
		v, h = c.takeReturnedLocked(len(c.returned) - 1)
	default:
		return v, h, false
	}
	return v, h, true
}

// returnRoom is the release of a lease that ReceiveLease made.
func (c *LimitedChannel[T]) returnRoom() {
	var a after[T]
	c.mu.Lock()
	c.unlendLocked()
	c.leftLocked(&a)
	c.mu.Unlock()
	c.finish(&a)
}
