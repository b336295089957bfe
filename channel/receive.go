package channel

import (
	"context"
	"iter"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// TryReceive returns the oldest item and releases its lease. It returns false if no item is queued, or if
// Chan channels offer all of them. To tell a closed channel from an empty one, use Done. TryReceive never
// waits.
func (c *LimitedChannel[T]) TryReceive() (v T, ok bool) {
	if c.pop(&v) {
		return v, true
	}
	_, ok = c.tryReceive(&v, false)
	return v, ok
}

// TryReceiveLease is like TryReceive but leaves the item's lease to the caller, as
// [LimitedChannel.ReceiveLease] does. If it returns false, the lease is not acquired.
func (c *LimitedChannel[T]) TryReceiveLease() (v T, _ core.Lease, ok bool) {
	h, ok := c.tryReceive(&v, true)
	if !ok {
		return v, core.Lease{}, false
	}
	return v, c.leaseOf(h), true
}

// Receive waits for an item, takes the oldest, and releases its lease.
//
// If ctx is already done, Receive returns ctx.Err() and takes nothing, even if items are queued. If ctx
// ends while Receive waits, it returns ctx.Err(), unless it was given an item first. Waiting receivers
// are served in the order in which they called. When the channel is closed and empty, the error is
// [ErrClosed] or the error given to CloseWithError.
func (c *LimitedChannel[T]) Receive(ctx context.Context) (v T, err error) {
	err = c.receive(ctx, &v)
	return v, err
}

// receive is a function of its own because the compiler then puts Receive into its caller, which saves a copy of the item
// (BenchmarkLargeItems of bench).
func (c *LimitedChannel[T]) receive(ctx context.Context, v *T) error {
	if ctx.Err() == nil && c.pop(v) {
		return nil
	}
	_, err := c.awaitItem(ctx, v, nil)
	return err
}

// ReceiveLease is like Receive but leaves the item's lease to the caller, who must release it when the
// item has been processed. The limiter then bounds the items being processed as well as those queued. The
// lease may be released after Close. If the error is not nil, the lease is not acquired.
//
// The lease has the item's permits. In a [Bounded] channel it has 1 permit, and releasing it makes room
// for another item. Options.Capacity does not count received items.
func (c *LimitedChannel[T]) ReceiveLease(ctx context.Context) (v T, _ core.Lease, _ error) {
	var h hold.Hold
	if _, err := c.awaitItem(ctx, &v, &h); err != nil {
		return v, core.Lease{}, err
	}
	return v, c.leaseOf(h), nil
}

// WaitToReceive waits until an item can be received. It takes nothing, so another receiver may come first;
// call WaitToReceive and TryReceive in a loop. Its errors are those of Receive.
func (c *LimitedChannel[T]) WaitToReceive(ctx context.Context) error {
	for {
		if waited, err := c.awaitItem(ctx, nil, nil); err != nil || !waited {
			return err
		}
	}
}

// TryPeek returns the oldest item without taking it. It returns false if no item is queued, or if Chan
// channels offer all of them. When TryPeek returns, another receiver may already have taken the item.
func (c *LimitedChannel[T]) TryPeek() (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.returnedLocked(false); o != nil {
		return o.item, true
	}
	if c.items.Len() > 0 {
		return *c.items.At(0), true
	}
	var none T
	return none, false
}

// All returns an iterator that receives items until Receive returns an error: until the channel is closed
// and empty, or ctx is done. ctx.Err and [LimitedChannel.Err] tell which. Breaking out of the loop loses
// no item.
//
// If ctx ends first, the items that are still queued stay in the channel. To receive all that was sent, end the source
// of the senders when ctx is done, and close the channel when the senders have returned. Give Send and All a context
// that does not end, such as context.WithoutCancel(ctx). The Drain example shows this.
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

// tryReceive takes the oldest item into *v and releases what it held. If it keeps that, it leaves it to the caller,
// and the item's room in a Bounded channel stays taken.
func (c *LimitedChannel[T]) tryReceive(v *T, keeps bool) (hold.Hold, bool) {
	c.mu.Lock()
	defer c.unlock()
	return c.takeLocked(v, keeps)
}

// awaitItem waits until an item can be received, ctx is done, or the channel is closed and empty, and reports
// whether it had to wait. It takes the item into *v, and what the item holds into *h; a nil h is for a caller that does not
// keep that, and a nil v for a caller that takes no item. The latter may find it gone.
func (c *LimitedChannel[T]) awaitItem(ctx context.Context, v *T, h *hold.Hold) (waited bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	done := ctx.Done()
	var w *wait.Waiter[call[T]]
	outcome := wait.Granted
	c.mu.Lock()
	switch {
	case c.thereLocked() > 0:
		if v != nil {
			held, _ := c.takeLocked(v, h != nil)
			if h != nil {
				*h = held
			}
		}
	case c.overLocked():
		outcome = wait.Ended
	default:
		w = c.receivers.New(done)
		w.Value.moves, w.Value.keeps = v != nil, h != nil
		c.receivers.Append(w)
	}
	c.unlock()
	if w != nil {
		if outcome = w.Park(&c.mu); outcome == wait.Granted {
			if v != nil {
				*v = w.Value.item
			}
			if h != nil {
				*h = w.Value.hold
			}
		}
		c.free(w)
	}
	switch outcome {
	case wait.Ended:
		err = c.endError()
	case wait.Canceled:
		err = ctx.Err()
	}
	return w != nil, err
}

// takeLocked takes the oldest item for a receiver; false if there is none.
func (c *LimitedChannel[T]) takeLocked(v *T, keeps bool) (hold.Hold, bool) {
	h, ok := c.removeLocked(v, false)
	if ok {
		c.passLocked(h, keeps)
		c.leftLocked()
	}
	return h, ok
}

// pop takes the oldest item and returns its plain permits to the limiter, if no sender waits for the room and the channel
// is not closed. It is what most receives need, and takes half the time of takeLocked
// (BenchmarkChannel in bench).
func (c *LimitedChannel[T]) pop(v *T) (ok bool) {
	if !c.plain {
		return false
	}
	c.mu.Lock()
	if ok = c.items.Len() > 0 && c.offers.Len() == c.offered && c.senders.Len() == 0 && c.open.Load(); ok {
		c.items.PopTo(v)
		if n := c.holds.PopPlain(); n > 0 {
			c.limiter.GivePlain(n)
		}
	}
	c.mu.Unlock()
	return ok
}

// removeLocked removes the oldest or the newest item into *v, and returns what it holds; false if there is none.
func (c *LimitedChannel[T]) removeLocked(v *T, newest bool) (h hold.Hold, ok bool) {
	if !newest || c.items.Len() == 0 {
		if h, ok = c.takeReturnedLocked(v, newest); ok {
			return h, true
		}
	}
	switch {
	case c.items.Len() == 0:
		return h, false
	case newest:
		c.items.PopBackTo(v)
		return c.holds.PopBack(), true
	}
	c.items.PopTo(v)
	return c.holds.PopOne(), true
}

// returnRoom is what releasing a lease of a Bounded channel does.
func (c *LimitedChannel[T]) returnRoom() {
	c.mu.Lock()
	c.reserved--
	c.leftLocked()
	c.unlock()
}

// leaseOf turns what a received item held into a lease for the caller.
func (c *LimitedChannel[T]) leaseOf(h hold.Hold) core.Lease {
	switch {
	case c.bounded():
		return core.Grant(1, c.returnRoom)
	case h == (hold.Hold{}): // the item cost nothing
		return core.Grant(0, nil)
	}
	return c.limiter.Lease(h)
}
