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
	v, l, ok := c.oldestLocked()
	if !ok {
		c.mu.Unlock()
		return v, false
	}
	woken := c.leftLocked()
	c.mu.Unlock()
	l.Release()
	if woken != nil {
		wake(woken)
	}
	return v, true
}

// Receive takes the oldest item and releases its lease. It waits for one.
//
// It returns ctx.Err() if ctx is done, even if items are there, and then has taken none.
// Once the channel is closed and empty, it returns [ErrClosed], or CloseWithError's error.
func (c *LimitedChannel[T]) Receive(ctx context.Context) (T, error) {
	v, l, err := c.receive(ctx, false)
	l.Release()
	return v, err
}

// ReceiveLease is Receive that leaves the item's lease to the caller, who releases it when
// his work is done: so what is limited is what is queued and in work, not only what is
// queued. Beside an error the lease is not acquired.
func (c *LimitedChannel[T]) ReceiveLease(ctx context.Context) (T, core.Lease, error) {
	v, l, err := c.receive(ctx, true)
	if c.limiter == nil && err == nil {
		l = core.Grant(1, c.returnRoom)
	}
	return v, l, err
}

// ReceiveBatch takes the oldest items into dst, as many as are there and fit, and releases
// their leases. It waits for the first only. It returns how many, at least one; 0 with an
// error, as Receive has them. An empty dst takes nothing and does not wait.
func (c *LimitedChannel[T]) ReceiveBatch(ctx context.Context, dst []T) (int, error) {
	if len(dst) == 0 {
		return 0, ctx.Err()
	}
	v, err := c.Receive(ctx)
	if err != nil {
		return 0, err
	}
	dst[0] = v
	n := 1
	for n < len(dst) {
		taken := c.takeSome(dst[n:])
		n += taken
		if taken < batch {
			break
		}
	}
	return n, nil
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

// receive takes the oldest item, with its lease. Without a limiter, keep leaves its room
// taken.
func (c *LimitedChannel[T]) receive(ctx context.Context, keep bool) (v T, l core.Lease, err error) {
	if err := ctx.Err(); err != nil {
		return v, l, err
	}
	c.mu.Lock()
	v, l, ok := c.oldestLocked()
	if !ok {
		return c.receiveSlowUnlock(ctx, keep)
	}
	c.takenUnlock(keep)
	return v, l, nil
}

// takenUnlock does what follows when the oldest item was taken.
func (c *LimitedChannel[T]) takenUnlock(keep bool) {
	if keep {
		c.lendLocked()
	}
	woken := c.leftLocked()
	c.mu.Unlock()
	if woken != nil {
		wake(woken)
	}
}

func (c *LimitedChannel[T]) receiveSlowUnlock(ctx context.Context, keep bool) (v T, l core.Lease, err error) {
	c.mu.Unlock()
	done := ctx.Done()
	c.mu.Lock()
	for range spins {
		if c.lenLocked() > 0 || !c.open.Load() || c.receivers.first != nil {
			break
		}
		c.yieldLocked()
	}
	v, l, ok := c.oldestLocked()
	if ok {
		c.takenUnlock(keep)
		return v, l, nil
	}
	if !c.open.Load() {
		c.mu.Unlock()
		return v, l, c.endError()
	}
	w := c.waiterLocked(done, &c.receivers)
	w.keeps = keep
	c.mu.Unlock()
	o := c.park(w)
	v, l = w.item, w.lease
	c.recycle(w)
	switch o {
	case closed:
		err = c.endError()
	case cancelled:
		err = ctx.Err()
	}
	return v, l, err
}

// batch is how many leases takeSome holds at once.
const batch = 16

// takeSome takes at most batch items.
func (c *LimitedChannel[T]) takeSome(dst []T) int {
	var leases [batch]core.Lease
	n, limit := 0, min(len(dst), batch)
	c.mu.Lock()
	for ; n < limit; n++ {
		v, l, ok := c.oldestLocked()
		if !ok {
			break
		}
		dst[n], leases[n] = v, l
	}
	var woken *waiter[T]
	if n > 0 {
		woken = c.leftLocked()
	}
	c.mu.Unlock()
	core.ReleaseAll(leases[:n])
	wake(woken)
	return n
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
func (c *LimitedChannel[T]) oldestLocked() (v T, l core.Lease, ok bool) {
	if len(c.front) > 0 {
		if v, l, ok = c.takeFrontLocked(false); ok {
			return v, l, true
		}
	}
	if c.queue.n == 0 {
		return v, l, false
	}
	v, l = c.queue.pop()
	return v, l, true
}

// newestLocked takes out the newest item; false if there is none.
func (c *LimitedChannel[T]) newestLocked() (v T, l core.Lease, ok bool) {
	for c.queue.n == 0 {
		// While that waits for an offer to end, others may queue items.
		if v, l, ok = c.takeFrontLocked(true); ok || c.queue.n == 0 {
			return v, l, ok
		}
	}
	v, l = c.queue.popBack()
	return v, l, true
}
