package channel

import (
	"cmp"
	"context"
	"slices"

	"github.com/sluice-go/sluice/internal/hold"
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
	place uint64 // the number of earlier offers; it orders the returned items
}

func (c *LimitedChannel[T]) offerAll(ctx context.Context, out chan<- T) {
	defer close(out)
	for ctx.Err() == nil {
		o, ok := c.startOffer()
		if !ok {
			if c.WaitToReceive(ctx) != nil {
				return
			}
			continue
		}
		select {
		case out <- o.item:
			c.endOffer(&o)
		case <-ctx.Done():
			c.returnOffer(&o)
		}
	}
}

// startOffer takes the oldest item out of the queue; false if there is none. The item keeps its permits.
// Options.Capacity no longer counts it, but the capacity of a Bounded channel does, by heldRoom.
func (c *LimitedChannel[T]) startOffer() (o offer[T], ok bool) {
	var d deferredWork[T]
	c.mu.Lock()
	if len(c.returned) > 0 {
		o, ok = c.returned[0], true
		c.takeReturnedLocked(0)
	} else if o.item, o.hold, ok = c.oldestLocked(); ok {
		o.place = c.offers
		c.offers++
	}
	if ok {
		c.offered++
		c.holdRoomLocked()
		c.leftLocked(&d)
	}
	c.mu.Unlock()
	c.finish(&d)
	return o, ok
}

// endOffer is called when the consumer has received the item.
func (c *LimitedChannel[T]) endOffer(o *offer[T]) {
	var d deferredWork[T]
	c.mu.Lock()
	c.offered--
	c.returnRoomLocked()
	c.releaseLocked(o.hold, &d)
	c.leftLocked(&d)
	c.mu.Unlock()
	c.finish(&d)
}

// returnOffer gives the item to a waiting receiver, or puts it back in its place.
func (c *LimitedChannel[T]) returnOffer(o *offer[T]) {
	var d deferredWork[T]
	c.mu.Lock()
	c.offered--
	c.returnRoomLocked()
	if c.handLocked(o.item, o.hold, &d) {
		c.leftLocked(&d)
	} else {
		i, _ := slices.BinarySearchFunc(c.returned, o.place, func(r offer[T], place uint64) int { return cmp.Compare(r.place, place) })
		c.returned = slices.Insert(c.returned, i, *o)
	}
	c.mu.Unlock()
	c.finish(&d)
}

// takeReturnedLocked removes and returns the i-th of the returned items.
func (c *LimitedChannel[T]) takeReturnedLocked(i int) (T, hold.Hold) {
	o := c.returned[i]
	c.returned = slices.Delete(c.returned, i, i+1)
	return o.item, o.hold
}
