package channel

import (
	"cmp"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/hold"
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
	c.mu.Lock()
	closes := c.open.Load()
	if closes {
		c.open.Store(false)
		c.err = err
		for c.senders.Len() > 0 {
			if w := c.senders.Pop(); w.Decide(wait.Ended) {
				c.work.decided.Add(w)
			}
		}
		c.endLocked()
	}
	c.unlock()
	if closes {
		c.closing.End(ErrClosed)
	}
	return nil
}

// endLocked ends a closed channel if it is empty.
func (c *LimitedChannel[T]) endLocked() {
	if !c.overLocked() {
		return
	}
	c.receivers.DecideAll(wait.Ended, &c.work.decided)
	if c.done != nil && !isDone(c.done) {
		close(c.done)
	}
}

// overLocked reports whether the channel is closed and empty, as the zero value is.
func (c *LimitedChannel[T]) overLocked() bool { return !c.open.Load() && c.lenLocked() == 0 }

// Done returns a Go channel that is closed when c is closed and empty, so that nothing more will be
// received. Leases returned by ReceiveLease may still be held.
func (c *LimitedChannel[T]) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.overLocked() {
			close(c.done)
		}
	}
	return c.done
}

// Err returns nil until Done is closed. Then it returns the error given to CloseWithError, or nil if c was
// closed by Close.
func (c *LimitedChannel[T]) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.overLocked() {
		return nil
	}
	return c.err
}

// endError returns the error of receives when c is closed and empty.
func (c *LimitedChannel[T]) endError() error { return cmp.Or(c.Err(), ErrClosed) }

// Discard drops all queued items except items that a Chan offers, and returns their number. It releases
// their leases, wakes the senders that wait for the room, and then calls OnDrop with each item, oldest
// first. Discard does not close c, and may be called after Close.
func (c *LimitedChannel[T]) Discard() int {
	c.mu.Lock()
	items := make([]T, c.thereLocked())
	_, leases := c.takeSomeLocked(items, nil)
	c.unlock()
	defer c.drop(items...) // deferred, because a release may panic
	core.ReleaseAll(leases)
	return len(items)
}
