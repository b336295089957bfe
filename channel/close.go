package channel

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/closed"
)

// ErrClosed is returned by sends after Close, and by receives once the channel is closed
// and empty. It matches [core.ErrClosed].
var ErrClosed = closed.Error("channel", core.ErrClosed)

// Close ends the sending: senders get [ErrClosed], those that wait too, and nothing of
// theirs is sent. What is queued can still be received. It returns nil, however often it
// is called.
func (c *LimitedChannel[T]) Close() error { return c.CloseWithError(nil) }

// CloseWithError is Close, after which receivers, once the channel is empty, get err
// instead of [ErrClosed]; nil is ErrClosed. The first close decides; it returns nil.
func (c *LimitedChannel[T]) CloseWithError(err error) error {
	c.mu.Lock()
	if !c.open.Load() {
		c.mu.Unlock()
		return nil
	}
	c.open.Store(false)
	c.err = err
	woken := c.room.decideAll(ended, c.senders.decideAll(ended, nil))
	woken = c.finishLocked(woken)
	c.mu.Unlock()
	c.closing.End(ErrClosed)
	wake(woken)
	return nil
}

// Done returns a channel that is closed once c is closed and empty: nothing more will be
// received. Leases that receivers keep may still be out.
func (c *LimitedChannel[T]) Done() <-chan struct{} {
	if c.done == nil { // the zero value
		over := make(chan struct{})
		close(over)
		return over
	}
	return c.done
}

// Err returns nil until Done is closed. From then on it says why: nil after Close, after
// CloseWithError its error.
func (c *LimitedChannel[T]) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		return nil
	}
	return c.err
}

// Discard drops what is queued and returns how many items that was; their leases are
// released, and OnDrop is told of each, the oldest first. Senders that wait then go on. It does not close c.
func (c *LimitedChannel[T]) Discard() int {
	c.mu.Lock()
	c.recalls++
	for i := 0; i < len(c.front); {
		if by := c.front[i].by; by != nil {
			c.recallLocked(by) // c.front may be another now, but has no new offer
			i = 0
			continue
		}
		i++
	}
	c.recalls--
	if c.recalls == 0 {
		c.recallEnded.Broadcast()
	}
	front, queue := c.front, c.queue
	c.front, c.queue = nil, ring[T]{holds: queue.holds}
	woken := c.leftLocked()
	if c.moves {
		c.transit.begin()
	}
	c.mu.Unlock()

	items := make([]T, 0, len(front)+queue.n)
	var all hold
	var leases []core.Lease
	gone := func(v T, h hold) {
		items = append(items, v)
		all.permits += h.permits
		if h.lease.Acquired() {
			leases = append(leases, h.lease)
		}
	}
	for _, f := range front {
		gone(f.item, f.hold)
	}
	for queue.n > 0 {
		gone(queue.pop())
	}
	defer c.dropAll(items) // a user's release may panic
	c.settleAll(all, leases, woken)
	return len(items)
}

// dropAll tells OnDrop of all the items, even if it panics over some.
func (c *LimitedChannel[T]) dropAll(items []T) {
	told := 0
	defer func() {
		if told < len(items) {
			c.dropAll(items[told:])
		}
	}()
	for told < len(items) {
		told++
		c.drop(items[told-1])
	}
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
