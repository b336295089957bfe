package channel

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// ErrClosed is returned by sends after Close, and by receives when the channel is closed and empty. It
// matches [core.ErrClosed].
var ErrClosed = hold.ErrClosed("channel")

// Close ends sending: waiting and later sends return [ErrClosed], and their items are not sent. Queued items
// can still be received. Close always returns nil, and may be called again.
func (c *LimitedChannel[T]) Close() error { return c.CloseWithError(nil) }

// CloseWithError is like Close, but when the channel is empty, receives return err instead of [ErrClosed].
// A nil err means ErrClosed. Only the first call of Close or CloseWithError has an effect. CloseWithError
// always returns nil.
func (c *LimitedChannel[T]) CloseWithError(err error) error {
	var a after[T]
	c.mu.Lock()
	closes := c.open.Load()
	if closes {
		c.open.Store(false)
		c.err = err
		c.senders.DecideAll(wait.Ended, &a.woken)
		c.roomWaiters.DecideAll(wait.Ended, &a.woken)
		c.endLocked(&a)
	}
	c.mu.Unlock()
	if closes {
		c.closing.End(ErrClosed)
		c.finish(&a)
	}
	return nil
}

// endLocked ends a closed channel if it is empty.
func (c *LimitedChannel[T]) endLocked(a *after[T]) {
	if c.overLocked() || c.lenLocked() > 0 {
		return
	}
	c.over = true
	close(c.done)
	c.receivers.DecideAll(wait.Ended, &a.woken)
	c.itemWaiters.DecideAll(wait.Ended, &a.woken)
}

// overLocked reports whether the channel is closed and empty.
func (c *LimitedChannel[T]) overLocked() bool { return c.over || c.done == nil } // nil: the zero value

// Done returns a Go channel that is closed when c is closed and empty, so that nothing more will be
// received. Leases returned by ReceiveLease may still be held.
func (c *LimitedChannel[T]) Done() <-chan struct{} {
	if c.done == nil { // the zero value
		over := make(chan struct{})
		close(over)
		return over
	}
	return c.done
}

// Err returns nil until Done is closed. Then it returns the error given to CloseWithError, or nil if c was
// closed by Close.
func (c *LimitedChannel[T]) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		return nil
	}
	return c.err
}

// endError returns the error of receives when c is closed and empty.
func (c *LimitedChannel[T]) endError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	return ErrClosed
}

// Discard drops all queued items except items that a Chan offers, and returns their number. It releases
// their leases, wakes the senders that wait for the room, and then calls OnDrop with each item, oldest
// first. Discard does not close c.
func (c *LimitedChannel[T]) Discard() int {
	var a after[T]
	c.mu.Lock()
	items := make([]T, 0, c.thereLocked())
	var permits int
	var leases []core.Lease
	for v, h, ok := c.oldestLocked(); ok; v, h, ok = c.oldestLocked() {
		items = append(items, v)
		permits += h.Permits
		if h.Lease.Acquired() {
			leases = append(leases, h.Lease)
		}
	}
	c.spendLocked(hold.Hold{Permits: permits}, &a)
	if len(items) > 0 {
		c.leftLocked(&a)
	}
	c.mu.Unlock()
	c.finish(&a)
	core.ReleaseAll(leases)
	for _, v := range items {
		c.drop(v)
	}
	return len(items)
}
