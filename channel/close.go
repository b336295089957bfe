package channel

import "github.com/sluice-go/sluice/core"

// ErrClosed is returned by sends after Close, and by receives once the channel is closed
// and empty. It matches [core.ErrClosed].
var ErrClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string { return "channel: closed" }

func (closedError) Is(target error) bool { return target == core.ErrClosed }

// Close ends the sending: senders get [ErrClosed], those who wait too, and nothing of
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
	woken := c.room.decideAll(closed, c.senders.decideAll(closed, nil))
	woken = c.finishLocked(woken)
	c.mu.Unlock()
	c.closing.end()
	wake(woken)
	return nil
}

// Done returns a channel that is closed once c is closed and empty.
func (c *LimitedChannel[T]) Done() <-chan struct{} {
	if c.done == nil { // the zero value
		over := make(chan struct{})
		close(over)
		return over
	}
	return c.done
}

// Discard drops what is queued and returns how many items that was; their leases are
// released, and OnDrop is told of each. Senders who wait then go on. It does not close c.
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
		c.settled.Broadcast()
	}
	front, queue := c.front, c.queue
	c.front, c.queue = nil, ring[T]{bare: queue.bare}
	woken := c.leftLocked()
	c.mu.Unlock()

	for _, f := range front {
		f.lease.Release()
	}
	leases := queue.leases
	for i := range queue.n {
		if leases != nil {
			leases[(queue.head+i)&(len(leases)-1)].Release()
		}
	}
	wake(woken)
	for _, f := range front {
		c.drop(f.item)
	}
	for i := range queue.n {
		c.drop(queue.items[(queue.head+i)&(len(queue.items)-1)])
	}
	return len(front) + queue.n
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
