package channel

import (
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/acquire"
)

// TrySend queues v if its permits and room are available now. It never waits for them.
//
// If they are not available, Overflow decides. Under [Reject] v is not sent, and the error is the limiter's
// *[core.RejectedError], or one with the reason "capacity reached", in which case the permits have been
// refunded. A limiter that serves the oldest request first also rejects v while other callers wait in its
// queue. Under every Overflow mode the error is [core.ErrPermitsExceedLimit] if v costs more than the
// limit, [core.ErrNegativePermits] if it costs fewer than 0 permits, and [ErrClosed] after Close.
func (c *LimitedChannel[T]) TrySend(v T) error {
	n := c.cost(v)
	if c.way == fast && c.open.Load() && c.takeFast(n) {
		if c.putFast(v, n) {
			return nil
		}
		return c.put(v, n, c.holdOfTaken(n))
	}
	switch {
	case n < 0:
		return core.ErrNegativePermits
	case !c.open.Load():
		return ErrClosed
	case c.way == exact:
		return c.sendExact(v, n)
	}
	h, err := c.try(n)
	if err != nil {
		return c.refused(v, n, err)
	}
	return c.put(v, n, h)
}

// Send queues v. It waits for permits in the limiter's queue, as far as the queue's limit allows, and
// then, under [Reject], for room.
//
// If ctx is done before or while Send waits, Send returns ctx.Err(), and nothing is sent or held; permits
// that Send already has are refunded. A sender whose ctx ended before a receiver made room does not get
// that room. Once Send has been given room, v is sent, and the end of ctx has no effect. If the limiter
// rejects v, Overflow decides; under Reject the error is the limiter's *[core.RejectedError]. If the
// channel is closed before or while Send waits, the error is [ErrClosed]. The other errors are those of
// TrySend.
func (c *LimitedChannel[T]) Send(ctx context.Context, v T) error {
	n := c.cost(v)
	if c.way == fast && ctx.Err() == nil && c.open.Load() && c.takeFast(n) {
		if c.putFast(v, n) {
			return nil
		}
		return c.putNow(ctx, v, n, c.holdOfTaken(n))
	}
	return c.sendCosting(ctx, v, n)
}

func (c *LimitedChannel[T]) sendCosting(ctx context.Context, v T, n int) error {
	if n < 0 {
		return core.ErrNegativePermits
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case !c.open.Load():
		return ErrClosed
	case c.way == exact:
		return c.sendExactWaiting(ctx, v, n)
	}
	h, err := c.acquire(ctx, n)
	if err != nil {
		return c.refused(v, n, err)
	}
	return c.putNow(ctx, v, n, h)
}

// takeFast takes n plain permits. It reports true without taking any if the channel has no limiter.
func (c *LimitedChannel[T]) takeFast(n int) bool {
	return c.plain == nil || n > 0 && c.plain.TryTake(n)
}

// putFast queues an item that holds n plain permits, or nothing, if there is room and no receiver waits.
// It avoids the copies of holds that put makes, and takes half the time: BenchmarkChannel in bench/channels.
func (c *LimitedChannel[T]) putFast(v T, n int) bool {
	c.mu.Lock()
	ok := c.open.Load() && c.receivers.first == nil && c.items.first == nil && c.roomLocked()
	if ok {
		c.queue.pushPlain(n)
		c.queue.items.push(v)
	}
	c.mu.Unlock()
	return ok
}

// holdOfTaken returns what an item holds after takeFast.
func (c *LimitedChannel[T]) holdOfTaken(n int) hold {
	if c.plain == nil {
		return hold{}
	}
	return hold{permits: n}
}

// putNow queues an item that holds its n permits. Under Reject it waits for room.
func (c *LimitedChannel[T]) putNow(ctx context.Context, v T, n int, h hold) error {
	if c.overflow == Reject {
		return c.putWaiting(ctx, v, h)
	}
	return c.put(v, n, h)
}

// put queues an item that holds its n permits. If there is no room, Overflow decides.
func (c *LimitedChannel[T]) put(v T, n int, h hold) error {
	for {
		var a after[T]
		c.mu.Lock()
		open := c.open.Load()
		placed := open && c.placeLocked(v, h, &a)
		c.mu.Unlock()
		c.finish(&a)
		switch {
		case placed:
			return nil
		case !open:
			c.refund(h)
			return ErrClosed
		case !a.dropped:
			c.refund(h)
			return c.refused(v, n, c.full(n))
		}
	}
}

// full returns the error of an item for which there is no room.
func (c *LimitedChannel[T]) full(n int) error {
	if c.limiter == nil {
		return &core.RejectedError{Permits: n, Reason: "permits exhausted"} // as a concurrency limiter does
	}
	return &core.RejectedError{Permits: n, Reason: "capacity reached"}
}

// putWaiting waits for room and queues an item that holds its permits. If ctx is done or the channel is
// closed before there is room, it refunds the permits.
func (c *LimitedChannel[T]) putWaiting(ctx context.Context, v T, h hold) error {
	done := ctx.Done()
	var w *waiter[T]
	var a after[T]
	c.mu.Lock()
	o := granted
	switch {
	case !c.open.Load():
		o = ended
	case c.roomLocked():
		c.putLocked(v, h, &a)
	default:
		w = newWaiter[T](done)
		w.item, w.hold = v, h
		c.senders.push(w)
	}
	c.mu.Unlock()
	c.finish(&a)
	if w != nil {
		o = c.park(w)
	}
	switch o {
	case ended:
		c.refund(h)
		return ErrClosed
	case cancelled:
		c.refund(h)
		return ctx.Err()
	}
	return nil
}

// WaitToSend waits until an item of one permit could be queued without dropping another: until the limiter
// grants a zero-permit request and there is room. It takes nothing, so another sender may come first; call
// WaitToSend and TrySend in a loop. It returns [ErrClosed] if the channel is closed, the limiter's error if
// the limiter rejects the request, and ctx.Err() if ctx is done, even if there is room.
func (c *LimitedChannel[T]) WaitToSend(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !c.open.Load() {
			return ErrClosed
		}
		if c.limiter != nil {
			l, err := acquire.Acquire(ctx, &c.closing, c.limiter, 0)
			if err != nil {
				return err
			}
			l.Release()
		}
		room, err := c.awaitRoom(ctx)
		if room || err != nil {
			return err
		}
	}
}

// awaitRoom reports whether there is room. If not, it waits until there is or the channel is closed.
func (c *LimitedChannel[T]) awaitRoom(ctx context.Context) (room bool, err error) {
	done := ctx.Done()
	var w *waiter[T]
	c.mu.Lock()
	open, room := c.open.Load(), c.roomLocked()
	if open && !room {
		w = newWaiter[T](done)
		c.room.push(w)
	}
	c.mu.Unlock()
	switch {
	case !open:
		return false, ErrClosed
	case w != nil && c.park(w) == cancelled:
		return false, ctx.Err()
	}
	return room, nil
}
