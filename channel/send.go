package channel

import (
	"context"
	"errors"
	"runtime"

	"github.com/sluice-go/sluice/core"
)

// TrySend queues v if its permits and room are there now. It never blocks.
//
// If not, Overflow decides; under Reject, v was not sent, and the error is the limiter's
// *[core.RejectedError], or one with the reason "capacity reached", the permits refunded.
// After Close it is [ErrClosed].
func (c *LimitedChannel[T]) TrySend(v T) error {
	if c.limiter == nil {
		return c.put(v, core.Lease{})
	}
	n, err := c.cost(v)
	if err != nil {
		return err
	}
	if !c.open.Load() {
		return ErrClosed
	}
	l := c.limiter.TryAcquire(n)
	if !l.Acquired() {
		return c.refused(v, n, l.Err())
	}
	return c.put(v, l)
}

// Send queues v. It waits for the permits in the limiter's queue, as far as the queue's
// limit allows, and then, under Reject, for capacity.
//
// If ctx is done, then or later, it returns ctx.Err(), and nothing is sent or held: so too
// if ctx was done before a receiver made way, whichever this goroutine sees first. If the
// limiter refuses, Overflow decides; under Reject the error is the limiter's
// *[core.RejectedError]. After Close, and if the channel is closed while it waits, it is
// [ErrClosed].
func (c *LimitedChannel[T]) Send(ctx context.Context, v T) error {
	n, err := c.cost(v)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.limiter == nil {
		return c.putWaiting(ctx, v, core.Lease{})
	}
	l, err := c.acquire(ctx, n)
	switch {
	case err != nil:
		return c.refused(v, n, err)
	case c.overflow != Reject:
		return c.put(v, l)
	}
	return c.putWaiting(ctx, v, l)
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
			l, err := c.acquire(ctx, 0)
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

// cost returns the permits that v costs.
func (c *LimitedChannel[T]) cost(v T) (int, error) {
	if c.permits == nil {
		return 1, nil
	}
	n := c.permits(v)
	if n < 0 {
		return n, core.ErrNegativePermits
	}
	return n, nil
}

// acquire takes n permits, waiting in the limiter's queue till the channel is closed.
func (c *LimitedChannel[T]) acquire(ctx context.Context, n int) (core.Lease, error) {
	if !c.open.Load() {
		return core.Lease{}, ErrClosed
	}
	// To let others run and try again is far cheaper than to wait and be woken.
	for range c.tries {
		if l, ok := core.TryQuietly(c.limiter, n); ok {
			return l, nil
		}
		runtime.Gosched()
	}
	p := newPatience(ctx, &c.closing)
	l, err := c.limiter.Acquire(p, n) //nolint:contextcheck // p is ctx, and done on Close too
	p.end(c.own)
	if err == nil {
		return l, l.Err() // nil, if the limiter is as careful as it should be
	}
	if !c.open.Load() && errors.Is(err, context.Canceled) && ctx.Err() == nil {
		err = ErrClosed
	}
	return l, err
}

// put queues an item that has its permits, and does not wait for room.
func (c *LimitedChannel[T]) put(v T, l core.Lease) error {
	c.mu.Lock()
	if !c.open.Load() {
		c.mu.Unlock()
		c.giveBack(l)
		return ErrClosed
	}
	if !c.roomLocked() {
		return c.overflowUnlock(v, l)
	}
	c.putUnlock(v, l)
	return nil
}

// putWaiting queues an item that has its permits, and waits for room.
func (c *LimitedChannel[T]) putWaiting(ctx context.Context, v T, l core.Lease) error {
	c.mu.Lock()
	if c.open.Load() && c.roomLocked() {
		c.putUnlock(v, l)
		return nil
	}
	return c.putSlowUnlock(ctx, v, l)
}

// putUnlock puts an item for which there is room.
func (c *LimitedChannel[T]) putUnlock(v T, l core.Lease) {
	woken, spent := c.putLocked(v, l)
	c.mu.Unlock()
	if spent {
		l.Release()
	}
	if woken != nil {
		wake(woken)
	}
}

func (c *LimitedChannel[T]) putSlowUnlock(ctx context.Context, v T, l core.Lease) error {
	c.mu.Unlock()
	done := ctx.Done()
	c.mu.Lock()
	for range spins {
		if !c.open.Load() || c.roomLocked() || c.senders.first != nil {
			break
		}
		c.yieldLocked()
	}
	if c.open.Load() && c.roomLocked() {
		c.putUnlock(v, l)
		return nil
	}
	if !c.open.Load() {
		c.mu.Unlock()
		c.giveBack(l)
		return ErrClosed
	}
	w := c.waiterLocked(done, &c.senders)
	w.item, w.lease = v, l
	c.mu.Unlock()
	o := c.park(w)
	c.recycle(w)
	switch o {
	case closed:
		c.giveBack(l)
		return ErrClosed
	case cancelled:
		c.giveBack(l)
		return ctx.Err()
	}
	return nil
}
