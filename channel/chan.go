package channel

import (
	"context"
	"slices"

	"github.com/sluice-go/sluice/core"
)

// Chan returns a channel that offers the items, one at a time, for use in a select. An
// item that is offered stays the channel's: it counts in Len, keeps its place and its
// lease, and another receiver may take it, until the consumer does. Then its lease is
// released, an instant after.
//
// The returned channel is closed once c is closed and empty. When ctx ends, it falls
// silent and is not closed, so select on ctx.Done() too; an item not taken then is as if
// it had never been offered. Until either happens, each call has one goroutine.
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
	item  T
	lease core.Lease
	by    *offer // nil: it was given back, and is anybody's
}

// offer is what a Chan has of its item. The channel's mutex guards it.
type offer struct {
	recall   chan struct{} // of capacity 1: ends the offer
	recalled bool          // recall has an element, or had
	out      bool          // the item is on offer
}

func (c *LimitedChannel[T]) offerAll(ctx context.Context, out chan<- T) {
	o := &offer{recall: make(chan struct{}, 1)}
	for ctx.Err() == nil {
		done := ctx.Done()
		c.mu.Lock()
		for c.recalls > 0 {
			c.settled.Wait()
		}
		v, ok := c.claimLocked(o)
		if !ok {
			if c.over || c.done == nil {
				c.mu.Unlock()
				close(out)
				return
			}
			_ = c.watchUnlock(ctx, &c.items, done) // a ctx that is done ends the loop
			continue
		}
		c.mu.Unlock()
		select {
		case out <- v:
			c.settle(o, true)
		case <-o.recall:
			c.settle(o, false)
		case <-done:
			c.settle(o, false)
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
		item, lease := c.queue.pop()
		c.front = append(c.front, offered[T]{item: item, lease: lease})
	}
	c.front[i].by, o.out = o, true
	return c.front[i].item, true
}

// settle ends an offer: the item was taken, or is given back to its place.
func (c *LimitedChannel[T]) settle(o *offer, taken bool) {
	var l core.Lease
	var woken *waiter[T]
	c.mu.Lock()
	i := slices.IndexFunc(c.front, func(f offered[T]) bool { return f.by == o })
	if taken {
		l = c.front[i].lease
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
		c.settled.Broadcast()
	}
	c.mu.Unlock()
	l.Release()
	wake(woken)
}

// takeFrontLocked takes out the oldest item in front of the queue, or the newest; false if
// there is none. It lets go of the mutex while it recalls an offer: only for as long as
// the Chan's goroutine takes to say whether the item is gone.
func (c *LimitedChannel[T]) takeFrontLocked(newest bool) (v T, l core.Lease, ok bool) {
	for len(c.front) > 0 {
		i := 0
		if newest {
			i = len(c.front) - 1
		}
		if f := c.front[i]; f.by == nil {
			c.front = slices.Delete(c.front, i, i+1)
			return f.item, f.lease, true
		}
		c.recallLocked(c.front[i].by)
	}
	return v, l, false
}

// recallLocked ends an offer and waits until it has. New offers begin only when all who
// recall have had their turn.
func (c *LimitedChannel[T]) recallLocked(o *offer) {
	c.recalls++
	if !o.recalled {
		o.recalled = true
		o.recall <- struct{}{} // has room: settle empties it
	}
	for o.out {
		c.settled.Wait()
	}
	c.recalls--
	if c.recalls == 0 {
		c.settled.Broadcast()
	}
}
