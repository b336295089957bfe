package channel

import (
	"context"

	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/list"
)

// Chan returns a Go channel that delivers the items of c one at a time, for use in a select. It takes the
// oldest item out of the queue and offers it until the consumer receives it. The offered item is reserved:
// no other receiver gets it, and no Overflow mode drops it. It counts in Len but not in Capacity, and
// keeps its lease, which is released right after the consumer has received the item.
//
// The returned channel is closed when c is closed and empty, or when ctx is done; c.Done and ctx.Err tell
// which. When ctx is done, the offered item returns to its place in the queue, with its lease. If ctx is
// done before the call, nothing is taken. Each call runs a goroutine until the returned channel is closed,
// so cancel ctx when the consumer stops receiving; until then the offered item stays reserved.
//
// Several channels returned by Chan share the items, and each offers a different one. An item that one of
// them returns to the queue may be received after a newer item that another has already delivered.
func (c *LimitedChannel[T]) Chan(ctx context.Context) <-chan T {
	out := make(chan T)
	go c.offerAll(ctx, out)
	return out
}

// offer is an item that was taken out of the queue for the consumer of a Chan.
type offer[T any] struct {
	item  T
	hold  hold.Hold
	taken bool // a Chan offers it; false: it was returned, and any receiver can take it
	node  list.Node[*offer[T]]
}

func (c *LimitedChannel[T]) offerAll(ctx context.Context, out chan<- T) {
	defer close(out)
	for ctx.Err() == nil {
		o := c.startOffer()
		if o == nil {
			if c.WaitToReceive(ctx) != nil {
				return
			}
			continue
		}
		select {
		case out <- o.item:
			c.endOffer(o)
		case <-ctx.Done():
			c.returnOffer(o)
		}
	}
}

// startOffer takes the oldest item out of the queue; nil if there is none. The item keeps its permits.
// Options.Capacity no longer counts it, but the capacity of a Bounded channel does.
func (c *LimitedChannel[T]) startOffer() *offer[T] {
	c.mu.Lock()
	defer c.unlock()
	o := c.returnedLocked(false)
	if o == nil {
		o = new(offer[T])
		var ok bool
		if o.hold, ok = c.removeLocked(&o.item, false); !ok {
			return nil
		}
		o.node.Value = o
		c.offers.Push(&o.node)
	}
	o.taken = true
	c.offered++
	c.leftLocked()
	return o
}

// endOffer is called when the consumer has received the item.
func (c *LimitedChannel[T]) endOffer(o *offer[T]) {
	c.mu.Lock()
	defer c.unlock()
	o.node.Remove()
	c.offered--
	c.passLocked(o.hold, false)
	c.leftLocked()
}

// returnOffer gives the item to a waiting receiver, or puts it back in its place.
func (c *LimitedChannel[T]) returnOffer(o *offer[T]) {
	c.mu.Lock()
	defer c.unlock()
	o.taken = false
	c.offered--
	if c.handLocked(&o.item, o.hold) {
		o.node.Remove()
		c.leftLocked()
	}
}

// returnedLocked returns the oldest or the newest item that a Chan has returned; nil if there is none. There are no
// more offers than Chans that run or have run.
func (c *LimitedChannel[T]) returnedLocked(newest bool) (found *offer[T]) {
	if c.offers.Len() == c.offered {
		return nil
	}
	for n := c.offers.First(); n != nil && (newest || found == nil); n = n.Next() {
		if !n.Value.taken {
			found = n.Value
		}
	}
	return found
}

// takeReturnedLocked takes such an item.
func (c *LimitedChannel[T]) takeReturnedLocked(v *T, newest bool) (h hold.Hold, ok bool) {
	o := c.returnedLocked(newest)
	if o == nil {
		return h, false
	}
	o.node.Remove()
	*v = o.item
	return o.hold, true
}
