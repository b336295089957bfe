package channel

import (
	"errors"

	"github.com/sluice-go/sluice/core"
)

// refused does what Overflow says with an item that the limiter refused with err.
func (c *LimitedChannel[T]) refused(v T, n int, err error) error {
	if c.overflow == Reject || !errors.Is(err, core.ErrRejected) {
		return err
	}
	if c.overflow == DropIncoming {
		c.drop(v)
		return nil
	}
	return c.evictFor(v, n, err)
}

// evictFor drops queued items until the limiter grants n permits for v, or until that frees
// nothing: then v is refused with the limiter's error.
func (c *LimitedChannel[T]) evictFor(v T, n int, err error) error {
	for {
		before := c.limiter.Available()
		c.mu.Lock()
		dropped, held, ok := c.evictLocked()
		count := c.count
		if !ok {
			c.mu.Unlock()
			return err
		}
		woken := c.leftLocked()
		c.mu.Unlock()
		held.Release()
		wake(woken)
		c.drop(dropped)

		l := c.limiter.TryAcquire(n)
		if l.Acquired() {
			return c.put(v, l)
		}
		if err = l.Err(); !errors.Is(err, core.ErrRejected) {
			return err
		}
		// An item that held no permits could free none; the next may. If other senders got
		// what was freed, it was freed nevertheless.
		if held.Permits() > 0 && c.limiter.Available() <= before && c.sent() == count {
			return err
		}
	}
}

// sent returns the number of items that were ever queued or handed over.
func (c *LimitedChannel[T]) sent() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// overflowUnlock does what Overflow says with an item for which there is no room.
func (c *LimitedChannel[T]) overflowUnlock(v T, l core.Lease) error {
	switch c.overflow {
	case DropOldest, DropNewest:
		if dropped, held, ok := c.evictLocked(); ok {
			// While evictLocked waited for an offer to end, others may have come, or Close.
			if !c.open.Load() {
				woken := c.leftLocked()
				c.mu.Unlock()
				wake(woken)
				c.giveBack(l)
				held.Release()
				c.drop(dropped)
				return ErrClosed
			}
			c.putUnlock(v, l)
			held.Release()
			c.drop(dropped)
			return nil
		}
	case DropIncoming:
		c.mu.Unlock()
		c.giveBack(l)
		c.drop(v)
		return nil
	}
	c.mu.Unlock()
	c.giveBack(l)
	if c.limiter == nil {
		return &core.RejectedError{Permits: 1, Reason: "permits exhausted"}
	}
	return &core.RejectedError{Permits: l.Permits(), Reason: "capacity reached"}
}

// evictLocked takes out the item that Overflow drops first; false if nothing is queued.
func (c *LimitedChannel[T]) evictLocked() (v T, l core.Lease, ok bool) {
	if c.overflow == DropOldest {
		return c.oldestLocked()
	}
	return c.newestLocked()
}
