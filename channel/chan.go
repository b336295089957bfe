package channel

import (
	"context"
	"slices"
)

// Chan returns a channel that offers the items, one at a time, for use in a select. An
// item that is offered stays the channel's: it counts in Len, keeps its place and its
// lease, and another receiver may take it, until the consumer does. Then its lease is
// released, an instant after.
//
// The returned channel is closed once c is closed and empty, and when ctx ends: c.Done and
// ctx.Err tell which. An item not taken by then is as if it had never been offered: it
// keeps its place and its lease. A ctx that is done already takes nothing. Until either
// happens, each call has one goroutine, so end ctx when the consumer goes away; a consumer
// that merely stops receiving holds back no other receiver.
//
// Several such channels share the items. Each offers another, so that none waits for the
// consumer of the next; what one gives back may come after what another has delivered.
func (c *LimitedChannel[T]) Chan(ctx context.Context) <-chan T {
	out := make(chan T)
	go c.offerAll(ctx, out)
	return out
}

// offered is an item in front of the queue.
type offered[T any] struct {
	item T
	hold hold
	by   *offer // nil: it was given back, and is anybody's
}

// offer is what a Chan has of its item. The channel's mutex guards it.
type offer struct {
	recall   chan struct{} // of capacity 1: ends the offer
	recalled bool          // recall has an element, or had
	out      bool          // the item is on offer
}

func (c *LimitedChannel[T]) offerAll(ctx context.Context, out chan<- T) {
	defer close(out)
	o := &offer{recall: make(chan struct{}, 1)}
	for ctx.Err() == nil {
		done := ctx.Done()
		c.mu.Lock()
		for c.recalls > 0 {
			c.recallEnded.Wait()
		}
		v, ok := c.claimLocked(o)
		if !ok {
			if c.over || c.done == nil {
				c.mu.Unlock()
				return
			}
			_ = c.watchUnlock(ctx, &c.items, done) // a ctx that is done ends the loop
			continue
		}
		c.mu.Unlock()
		select {
		case out <- v:
			c.endOffer(o, true)
		case <-o.recall:
			c.endOffer(o, false)
		case <-done:
			c.endOffer(o, false)
		}
	}
}

// claimLocked makes the oldest item that is not on offer o's.
func (c *LimitedChannel[T]) claimLocked(o *offer) (v T, ok bool) {
	i := slices.IndexFunc(c.front, func(f offered[T]) bool { return f.by == nil })
	if i < 0 {
		if c.queue.n == 0 {
			return v, false
		}
		i = len(c.front)
		item, h := c.queue.pop()
		c.front = append(c.front, offered[T]{item: item, hold: h})
	}
	c.front[i].by, o.out = o, true
	return c.front[i].item, true
}

// endOffer ends an offer: the item was taken, or is given back to its place.
func (c *LimitedChannel[T]) endOffer(o *offer, taken bool) {
	var h hold
	var woken *waiter[T]
	c.mu.Lock()
	i := slices.IndexFunc(c.front, func(f offered[T]) bool { return f.by == o })
	if taken {
		h = c.front[i].hold
		c.front = slices.Delete(c.front, i, i+1)
		woken = c.leftLocked()
	} else {
		c.front[i].by = nil
		woken = c.items.decideAll(granted, nil)
	}
	o.out = false
	if o.recalled {
		o.recalled = false
		select {
		case <-o.recall: // nobody heard it
		default:
		}
		c.recallEnded.Broadcast()
	}
	h = c.leavingLocked(h)
	c.mu.Unlock()
	c.settle(h, woken)
}

// takeFrontLocked takes out the oldest item in front of the queue, or the newest; false if
// there is none. It lets go of the mutex while it recalls an offer: only for as long as
// the Chan's goroutine takes to say whether the item is gone.
func (c *LimitedChannel[T]) takeFrontLocked(newest bool) (v T, h hold, ok bool) {
	for len(c.front) > 0 {
		i := 0
		if newest {
			i = len(c.front) - 1
		}
		if f := c.front[i]; f.by == nil {
			c.front = slices.Delete(c.front, i, i+1)
			return f.item, f.hold, true
		}
		c.recallLocked(c.front[i].by)
	}
	return v, h, false
}

// recallLocked ends an offer and waits until it has. New offers begin only when all who
// recall have had their turn.
func (c *LimitedChannel[T]) recallLocked(o *offer) {
	c.recalls++
	if !o.recalled {
		o.recalled = true
		o.recall <- struct{}{} // has room: endOffer empties it
	}
	for o.out {
		c.recallEnded.Wait()
	}
	c.recalls--
	if c.recalls == 0 {
		c.recallEnded.Broadcast()
	}
}
