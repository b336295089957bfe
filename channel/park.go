package channel

import (
	"context"
	"runtime"
)

// yields is how often a goroutine lets others run before it waits. To wait and to be woken
// costs as much as ten items; under load, what is waited for is mostly there before that.
// BenchmarkChannel of bench/channels is the measure.
const yields = 4

// yieldLocked lets others run once, without the mutex.
func (c *LimitedChannel[T]) yieldLocked() {
	c.mu.Unlock()
	runtime.Gosched()
	c.mu.Lock()
}

// waiterLocked returns a waiter in the line q, for park.
func (c *LimitedChannel[T]) waiterLocked(ctx done, q *line[T]) *waiter[T] {
	w := c.spare
	if w == nil {
		w = &waiter[T]{ready: make(chan struct{}, 1)}
	} else {
		c.spare, w.next = w.next, nil
		c.spares--
	}
	w.outcome, w.done = undecided, ctx
	q.push(w)
	return w
}

// done is a ctx's channel: asked for before the mutex is taken, since a ctx may be
// anybody's code.
type done = <-chan struct{}

// park waits until the outcome of w is decided or its ctx is done: whichever was first,
// whatever select says.
func (c *LimitedChannel[T]) park(w *waiter[T]) outcome {
	if w.done == nil {
		<-w.ready
		return w.outcome
	}
	select {
	case <-w.ready:
		return w.outcome
	case <-w.done:
	}
	c.mu.Lock()
	if w.line != nil {
		w.line.remove(w)
		w.outcome = cancelled
	}
	o := w.outcome
	c.mu.Unlock()
	if o != cancelled {
		<-w.ready
	}
	return o
}

// mostSpares is how many waiters a channel keeps while nobody waits.
const mostSpares = 256

// recycle keeps w, which is no longer referenced, for the next that waits. Those of a crowd
// that has gone are let go of.
func (c *LimitedChannel[T]) recycle(w *waiter[T]) {
	*w = waiter[T]{ready: w.ready}
	c.mu.Lock()
	w.next, c.spare = c.spare, w
	c.spares++
	if c.spares > mostSpares && c.nobodyWaitsLocked() {
		c.spare, c.spares = nil, 0
	}
	c.mu.Unlock()
}

func (c *LimitedChannel[T]) nobodyWaitsLocked() bool {
	return c.senders.first == nil && c.receivers.first == nil && c.room.first == nil && c.items.first == nil
}

// doneFor returns the channel of a ctx with which an item that holds h waits. If the ctx,
// which may be anybody's code, panics, h is given back.
func (c *LimitedChannel[T]) doneFor(ctx context.Context, h hold) (d done) {
	answered := false
	defer func() {
		if !answered {
			c.refund(h)
		}
	}()
	d = ctx.Done()
	answered = true
	return d
}

// isDone reports whether a ctx's channel is closed.
func isDone(d done) bool {
	select {
	case <-d:
		return true
	default:
		return false
	}
}

// errOf returns the error of a ctx that is done; also of one that forgets to have one.
func errOf(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.Canceled
}

// watchUnlock waits in the line q, of those that want to see something, and unlocks.
func (c *LimitedChannel[T]) watchUnlock(ctx context.Context, q *line[T], done done) error {
	w := c.waiterLocked(done, q)
	c.mu.Unlock()
	o := c.park(w)
	c.recycle(w)
	if o == cancelled {
		return errOf(ctx)
	}
	return nil
}
