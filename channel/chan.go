package channel

import (
	"cmp"
	"context"
	"slices"
)

// Chan returns a channel that offers the items, one at a time, for use in a select. An item that is offered
// is the consumer's: no other receiver gets it, and no Overflow drops it. It counts in Len, but not in
// Capacity, and keeps its lease until the consumer takes it. The lease is released right after that.
//
// The returned channel is closed once c is closed and empty, and when ctx ends; c.Done and ctx.Err tell
// which. An item not taken by then goes back to its place, with its lease. A ctx that is done already takes
// nothing. Each call has a goroutine until then, so end ctx when the consumer goes away: one that merely
// stops receiving keeps the item that it is offered.
//
// Several such channels share the items, and each offers another. An item that one gives back may then be
// received after a newer item that another has delivered.
//
// If the lease of a limiter that is not package core's panics when it is released, the returned channel is
// closed, too, and the next call of Err, Close or CloseWithError panics with the same value.
func (c *LimitedChannel[T]) Chan(ctx context.Context) <-chan T {
	out := make(chan T)
	go c.offerAll(ctx, out)
	return out
}

// offer is an item that was taken out of the queue for the consumer of a Chan.
type offer[T any] struct {
	item  T
	hold  hold
	place uint64 // offers begun before it; those that are returned keep this order
}

func (c *LimitedChannel[T]) offerAll(ctx context.Context, out chan<- T) {
	defer close(out)
	defer func() { c.keepPanic(recover()) }()
	for ctx.Err() == nil {
		o, ok := c.beginOffer()
		if !ok {
			if _, over, _ := c.awaitItem(ctx); over {
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

// keepPanic keeps what the calling goroutine has panicked with, for somebody who calls.
func (c *LimitedChannel[T]) keepPanic(p any) {
	if p != nil {
		c.mu.Lock()
		c.panicked = p
		c.mu.Unlock()
	}
}

// beginOffer takes out the oldest item; false if nothing is there. The limiter's permits stay taken; of a
// capacity beside the limiter the item gives its room back.
func (c *LimitedChannel[T]) beginOffer() (o offer[T], ok bool) {
	var a after[T]
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
		c.lendLocked()
		c.leftLocked(&a)
	}
	c.mu.Unlock()
	c.finish(&a)
	return o, ok
}

// endOffer follows when the consumer has taken the item.
func (c *LimitedChannel[T]) endOffer(o *offer[T]) {
	var a after[T]
	c.mu.Lock()
	c.offered--
	c.unlendLocked()
	c.spendLocked(o.hold, &a)
	c.leftLocked(&a)
	c.mu.Unlock()
	c.finish(&a)
}

// returnOffer gives the item to a waiting receiver, or puts it back in its place.
func (c *LimitedChannel[T]) returnOffer(o *offer[T]) {
	var a after[T]
	c.mu.Lock()
	c.offered--
	c.unlendLocked()
	if c.receivers.first != nil && c.handLocked(o.item, o.hold, &a) {
		c.leftLocked(&a)
	} else {
		i, _ := slices.BinarySearchFunc(c.returned, o.place, func(r offer[T], place uint64) int { return cmp.Compare(r.place, place) })
		c.returned = slices.Insert(c.returned, i, *o)
		a.woken = c.items.decideAll(granted, nil)
	}
	c.mu.Unlock()
	c.finish(&a)
}

// takeReturnedLocked takes out an item that was given back.
func (c *LimitedChannel[T]) takeReturnedLocked(i int) (T, hold) {
	o := c.returned[i]
	c.returned = slices.Delete(c.returned, i, i+1)
	return o.item, o.hold
}
