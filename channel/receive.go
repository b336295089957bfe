package channel

import (
	"context"
	"iter"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// TryReceive returns the oldest item and releases its lease. It returns false if no item is queued, or if
// Chan channels offer all of them. To tell a closed channel from an empty one, use Done. TryReceive never
// waits.
func (c *LimitedChannel[T]) TryReceive() (T, bool) {
	if v, ok := c.pop(); ok {
		return v, true
	}
	v, _, ok := c.tryReceive(false)
	return v, ok
}

// TryReceiveLease is like TryReceive but leaves the item's lease to the caller, as
// [LimitedChannel.ReceiveLease] does. If it returns false, the lease is not acquired.
func (c *LimitedChannel[T]) TryReceiveLease() (T, core.Lease, bool) {
	v, h, ok := c.tryReceive(true)
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
func (c *LimitedChannel[T]) Receive(ctx context.Context) (T, error) {
	if ctx.Err() == nil {
		if v, ok := c.pop(); ok {
			return v, nil
		}
	}
	v, _, err := c.receive(ctx, false)
	return v, err
}

// ReceiveLease is like Receive but leaves the item's lease to the caller, who must release it when the
// item has been processed. The limiter then bounds the items being processed as well as those queued. The
// lease may be released after Close. If the error is not nil, the lease is not acquired.
//
// The lease has the item's permits. In a [Bounded] channel it has 1 permit, and releasing it makes room
// for another item. Options.Capacity does not count received items.
func (c *LimitedChannel[T]) ReceiveLease(ctx context.Context) (T, core.Lease, error) {
	v, h, err := c.receive(ctx, true)
	if err != nil {
		return v, core.Lease{}, err
	}
	return v, c.leaseOf(h), nil
}

// WaitToReceive waits until an item can be received. It takes nothing, so another receiver may come first;
// call WaitToReceive and TryReceive in a loop. Its errors are those of Receive.
func (c *LimitedChannel[T]) WaitToReceive(ctx context.Context) error {
	for {
		if _, waited, err := c.awaitItem(ctx, handoff[T]{}); err != nil || !waited {
			return err
		}
	}
}

// TryPeek returns the oldest item without taking it. It returns false if no item is queued, or if Chan
// channels offer all of them. When TryPeek returns, another receiver may already have taken the item.
func (c *LimitedChannel[T]) TryPeek() (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.returned) > 0:
		return c.returned[0].item, true
	case c.items.Len() > 0:
		return *c.items.At(0), true
	}
	var none T
	return none, false
}

// All returns an iterator that receives items until Receive returns an error: until the channel is closed
// and empty, or ctx is done. ctx.Err and [LimitedChannel.Err] tell which. Breaking out of the loop loses
// no item.
//
// If ctx ends first, the items that are still queued stay in the channel. To receive all that was sent, let
// the senders watch ctx, close the channel when they have returned, and give All a context that does not end,
// such as context.WithoutCancel(ctx). The Drain example shows this.
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

// tryReceive takes the oldest item and releases what it held. With keep, it leaves that to the caller,
// and the item's room in a Bounded channel stays taken.
func (c *LimitedChannel[T]) tryReceive(keep bool) (v T, h hold.Hold, ok bool) {
	var d deferredWork[T]
	c.mu.Lock()
	v, h, ok = c.takeLocked(keep, &d)
	c.mu.Unlock()
	c.finish(&d)
	return v, h, ok
}

// receive waits for an item and takes it.
func (c *LimitedChannel[T]) receive(ctx context.Context, keep bool) (T, hold.Hold, error) {
	r, _, err := c.awaitItem(ctx, handoff[T]{moves: true, keeps: keep})
	return r.item, r.hold, err
}

// awaitItem waits until an item can be received, ctx is done, or the channel is closed and empty, and reports
// whether it had to wait. A receiver is given the item. A call that moves none may find it gone.
func (c *LimitedChannel[T]) awaitItem(ctx context.Context, r handoff[T]) (given handoff[T], waited bool, err error) {
	if err := ctx.Err(); err != nil {
		return given, false, err
	}
	done := ctx.Done()
	var w *wait.Waiter[handoff[T]]
	var d deferredWork[T]
	outcome := wait.Granted
	c.mu.Lock()
	switch {
	case isDone(done):
		outcome = wait.Cancelled
	case c.thereLocked() > 0:
		if r.moves {
			given.item, given.hold, _ = c.takeLocked(r.keeps, &d)
		}
	case c.overLocked():
		outcome = wait.Ended
	default:
		w = c.receivers.Push(done, r)
	}
	c.mu.Unlock()
	c.finish(&d)
	if w != nil {
		given, outcome = w.Wait(&c.mu)
	}
	switch outcome {
	case wait.Ended:
		err = c.endError()
	case wait.Cancelled:
		err = ctx.Err()
	}
	return given, w != nil, err
}

// takeLocked takes the oldest item for a receiver; false if there is none.
func (c *LimitedChannel[T]) takeLocked(keep bool, d *deferredWork[T]) (v T, h hold.Hold, ok bool) {
	v, h, ok = c.oldestLocked()
	if !ok {
		return v, h, false
	}
	if keep {
		c.holdRoomLocked()
	} else {
		c.releaseLocked(h, d)
	}
	c.leftLocked(d)
	return v, h, true
}

// pop takes the oldest item and returns its plain permits to the limiter, if no sender waits for the room and the channel
// is not closed. It is what most receives need, and takes half the time of takeLocked
// (BenchmarkChannel in bench).
func (c *LimitedChannel[T]) pop() (v T, ok bool) {
	if !c.plain {
		return v, false
	}
	c.mu.Lock()
	if ok = c.items.Len() > 0 && len(c.returned) == 0 && c.senders.Empty() && c.open.Load(); ok {
		v = c.items.Pop()
		if n := c.holds.PopPlain(); n > 0 {
			c.limiter.GivePlain(n)
		}
	}
	c.mu.Unlock()
	return v, ok
}

// oldestLocked removes and returns the oldest item; false if there is none.
func (c *LimitedChannel[T]) oldestLocked() (v T, h hold.Hold, ok bool) {
	switch {
	case len(c.returned) > 0:
		v, h = c.takeReturnedLocked(0)
	case c.items.Len() > 0:
		v, h = c.items.Pop(), c.holds.PopOne()
	default:
		return v, h, false
	}
	return v, h, true
}

// newestLocked removes and returns the newest item; false if there is none.
func (c *LimitedChannel[T]) newestLocked() (v T, h hold.Hold, ok bool) {
	switch {
	case c.items.Len() > 0:
		v, h = c.items.PopBack(), c.holds.PopBack()
	case len(c.returned) > 0:
		v, h = c.takeReturnedLocked(len(c.returned) - 1)
	default:
		return v, h, false
	}
	return v, h, true
}

// returnRoom is what releasing a lease of a Bounded channel does.
func (c *LimitedChannel[T]) returnRoom() {
	var d deferredWork[T]
	c.mu.Lock()
	c.returnRoomLocked()
	c.leftLocked(&d)
	c.mu.Unlock()
	c.finish(&d)
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
