package channel

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/closed"
)

// ErrClosed is returned by sends after Close, and by receives once the channel is closed and empty. It
// matches [core.ErrClosed].
var ErrClosed = closed.Error("channel", core.ErrClosed)

// Close ends sending: sends return [ErrClosed], those that wait too, and nothing of theirs is sent. What is
// queued can still be received. Close returns nil, however often it is called.
func (c *LimitedChannel[T]) Close() error { return c.CloseWithError(nil) }

// CloseWithError is Close, but once the channel is empty, receivers get err instead of [ErrClosed]; a nil
// err means ErrClosed. The first close decides. CloseWithError returns nil.
func (c *LimitedChannel[T]) CloseWithError(err error) error {
	var a after[T]
	c.mu.Lock()
	closes := c.open.Load()
	if closes {
		c.open.Store(false)
		c.err = err
		a.woken = c.room.decideAll(ended, c.senders.decideAll(ended, nil))
		c.endLocked(&a)
	}
	source, panicked := c.askers.source, c.panicked
	c.panicked = nil
	c.mu.Unlock()
	if closes {
		c.closing.End(ErrClosed)
		source.End(ErrClosed)
		c.finish(&a)
	}
	if panicked != nil {
		panic(panicked)
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
	a.woken = c.items.decideAll(ended, c.receivers.decideAll(ended, a.woken))
}

// overLocked reports whether the channel is closed and empty.
func (c *LimitedChannel[T]) overLocked() bool { return c.over || c.done == nil } // nil: the zero value

// Done returns a channel that is closed once c is closed and empty: nothing more will be received. Receivers
// may still hold leases.
func (c *LimitedChannel[T]) Done() <-chan struct{} {
	if c.done == nil { // the zero value
		over := make(chan struct{})
		close(over)
		return over
	}
	return c.done
}

// Err returns nil until Done is closed. After that it returns nil if c was closed by Close, and the error of
// CloseWithError otherwise. It panics if a lease's release has panicked in the goroutine of a Chan, once.
func (c *LimitedChannel[T]) Err() error {
	c.mu.Lock()
	over, err, panicked := c.over, c.err, c.panicked
	c.panicked = nil
	c.mu.Unlock()
	switch {
	case panicked != nil:
		panic(panicked)
	case over:
		return err
	}
	return nil
}

// endError is what receivers get once c is closed and empty.
func (c *LimitedChannel[T]) endError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	return ErrClosed
}

// Discard drops the items that are queued, but for those that a Chan offers, and returns their number. Their
// leases are released, then OnDrop is called with each, the oldest first. Waiting senders go on after
// that. Discard does not close c.
func (c *LimitedChannel[T]) Discard() int {
	var a after[T]
	c.mu.Lock()
	items := make([]T, 0, c.thereLocked())
	var all hold
	var leases []core.Lease
	for v, h, ok := c.oldestLocked(); ok; v, h, ok = c.oldestLocked() {
		items = append(items, v)
		all.permits += h.permits
		if h.lease.Acquired() {
			leases = append(leases, h.lease)
		}
	}
	c.spendLocked(all, &a)
	if len(items) > 0 {
		c.leftLocked(&a)
	}
	c.mu.Unlock()
	defer c.dropAll(items) // a user's release may panic
	c.finishAll(&a, leases)
	return len(items)
}

// finishAll is finish for items with leases too.
func (c *LimitedChannel[T]) finishAll(a *after[T], leases []core.Lease) {
	defer c.finish(a)
	core.ReleaseAll(leases)
}

// dropAll reports all the items to OnDrop, even if it panics over some.
func (c *LimitedChannel[T]) dropAll(items []T) {
	defer func() {
		if len(items) > 0 {
			c.dropAll(items)
		}
	}()
	for len(items) > 0 {
		v := items[0]
		items = items[1:]
		c.drop(v)
	}
}
