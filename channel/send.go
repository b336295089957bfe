package channel

import (
	"context"

	"github.com/sluice-go/sluice/core"
)

// TrySend queues v if its permits and room are there now. It never blocks.
//
// If not, Overflow decides; under Reject, v was not sent, and the error is the limiter's
// *[core.RejectedError], or one with the reason "capacity reached", the permits refunded.
// So it is refused, too, while others wait in a limiter that serves the oldest first. An
// item that costs more than the limit gets [core.ErrPermitsExceedLimit], one that costs
// less than nothing [core.ErrNegativePermits], under every Overflow. After Close it is
// [ErrClosed].
func (c *LimitedChannel[T]) TrySend(v T) error {
	if c.limiter == nil {
		return c.put(v, 1, hold{})
	}
	n := c.cost(v)
	switch {
	case n < 0:
		return core.ErrNegativePermits
	case !c.open.Load():
		return ErrClosed
	case c.evicts:
		return c.trySendEvicting(v, n)
	}
	h, err := c.try(n)
	if err != nil {
		return c.refused(v, err)
	}
	return c.put(v, n, h)
}

// Send queues v. It waits for the permits in the limiter's queue, as far as the queue's
// limit allows, and then, under Reject, for capacity.
//
// If ctx is done, then or later, it returns ctx.Err(), and nothing is sent or held: so too
// if ctx ended before a receiver made way, whichever this goroutine sees first. Once it has
// been given room, a ctx that ends makes no difference: v is sent. If the limiter refuses,
// Overflow decides; under Reject the error is the limiter's *[core.RejectedError]. After
// Close, and if the channel is closed while it waits, it is [ErrClosed]. Other errors are
// TrySend's.
func (c *LimitedChannel[T]) Send(ctx context.Context, v T) error {
	if c.light && ctx.Err() == nil && c.open.Load() && (c.plain == nil || c.plain.TryTake(1)) {
		if c.putLight(v) {
			return nil
		}
		return c.putWaiting(ctx, v, c.lightHold())
	}
	return c.sendSlow(ctx, v)
}

// putLight queues an item of one plain permit, or of none, if nobody waits for one and
// there is room.
func (c *LimitedChannel[T]) putLight(v T) bool {
	c.mu.Lock()
	ok := c.open.Load() && c.receivers.first == nil && c.items.first == nil && c.roomLocked()
	if ok {
		c.queue.pushItem(v)
	}
	c.mu.Unlock()
	return ok
}

// lightHold returns what an item holds in a channel that is light.
func (c *LimitedChannel[T]) lightHold() hold {
	if c.plain == nil {
		return hold{}
	}
	return hold{permits: 1}
}

// sendSlow is Send for what costs other than one, for what is not there at once, and in
// the drop modes.
func (c *LimitedChannel[T]) sendSlow(ctx context.Context, v T) error {
	return c.sendCosting(ctx, v, c.cost(v))
}

func (c *LimitedChannel[T]) sendCosting(ctx context.Context, v T, n int) error {
	if n < 0 {
		return core.ErrNegativePermits
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.limiter == nil {
		return ErrClosed // the zero value too; else a channel without a limiter is light
	}
	if c.evicts {
		return c.sendEvicting(ctx, v, n)
	}
	h, err := c.acquire(ctx, n)
	switch {
	case err != nil:
		return c.refused(v, err)
	case c.overflow != Reject:
		return c.put(v, n, h)
	}
	return c.putWaiting(ctx, v, h)
}

// WaitToSend waits until a send of one permit would be taken, and nothing dropped: until
// the limiter grants a probe, and there is room. It takes nothing, so another sender may be
// first; try in a loop. It returns [ErrClosed] after Close, the limiter's error if it
// refuses the probe, and ctx.Err() if ctx is done, even if there is room.
func (c *LimitedChannel[T]) WaitToSend(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.limiter != nil {
			if !c.open.Load() {
				return ErrClosed
			}
			l, err := c.ask(ctx, 0)
			if err != nil {
				return err
			}
			l.Release()
		}
		done := ctx.Done()
		c.mu.Lock()
		open, room := c.open.Load(), c.roomLocked() && c.senders.first == nil
		if !open || room {
			c.mu.Unlock()
			if !open {
				return ErrClosed
			}
			return nil
		}
		if err := c.watchUnlock(ctx, &c.room, done); err != nil {
			return err
		}
	}
}

// put queues an item that cost n permits, which it holds, and does not wait for room.
func (c *LimitedChannel[T]) put(v T, n int, h hold) error {
	c.mu.Lock()
	if !c.open.Load() {
		c.mu.Unlock()
		c.refund(h)
		return ErrClosed
	}
	if !c.roomLocked() {
		return c.overflowUnlock(v, n, h)
	}
	c.putUnlock(v, h)
	return nil
}

// putWaiting queues an item that has its permits, and waits for room.
func (c *LimitedChannel[T]) putWaiting(ctx context.Context, v T, h hold) error {
	c.mu.Lock()
	if c.open.Load() && c.roomLocked() {
		c.putUnlock(v, h)
		return nil
	}
	return c.putSlowUnlock(ctx, v, h)
}

// putUnlock puts an item for which there is room.
func (c *LimitedChannel[T]) putUnlock(v T, h hold) {
	woken, spent := c.putLocked(v, h)
	c.mu.Unlock()
	if spent {
		c.releaseAndWake(h, woken)
	} else if woken != nil {
		wake(woken)
	}
}

func (c *LimitedChannel[T]) putSlowUnlock(ctx context.Context, v T, h hold) error {
	c.mu.Unlock()
	done := c.doneFor(ctx, h)
	c.mu.Lock()
	for range yields {
		if !c.open.Load() || c.roomLocked() || c.senders.first != nil {
			break
		}
		c.yieldLocked()
		if isDone(done) {
			// It may have ended before room was made; nobody has been given any.
			c.mu.Unlock()
			c.refund(h)
			return errOf(ctx)
		}
	}
	if c.open.Load() && c.roomLocked() {
		c.putUnlock(v, h)
		return nil
	}
	if !c.open.Load() {
		c.mu.Unlock()
		c.refund(h)
		return ErrClosed
	}
	w := c.waiterLocked(done, &c.senders)
	w.item, w.hold = v, h
	c.mu.Unlock()
	o := c.park(w)
	c.recycle(w)
	switch o {
	case ended:
		c.refund(h)
		return ErrClosed
	case cancelled:
		c.refund(h)
		return errOf(ctx)
	}
	return nil
}
