package channel

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/closed"
)

// ErrClosed is returned by sends after Close, and by receives when the channel is closed and empty. It
// matches [core.ErrClosed].
var ErrClosed = closed.Error("channel", core.ErrClosed)

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
// closed by Close. If releasing a lease has panicked in the goroutine of a Chan, the next call of Err,
// Close or CloseWithError panics with that value, once.
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
	defer c.dropAll(items) // even if a foreign limiter's release panics
	c.finishAll(&a, leases)
	return len(items)
}

// finishAll is finish for several items, with the leases of items that hold leases.
func (c *LimitedChannel[T]) finishAll(a *after[T], leases []core.Lease) {
	defer c.finish(a)
	core.ReleaseAll(leases)
}

// dropAll calls OnDrop with each item, even if some of the calls panic.
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
