package channel

import (
	"context"
	"runtime"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// TrySend queues v if its permits and room are available now. It never waits for them.
//
// If they are not available, Overflow decides. Under [Reject] v is not sent, and the error is the limiter's
// *[core.RejectedError], or one with the reason "capacity reached", in which case the permits have been
// refunded. A limiter that serves the oldest request first also rejects v while other callers wait in its
// queue. Under every Overflow mode the error is [core.ErrPermitsExceedLimit] if v costs more than the
// limit, [core.ErrNegativePermits] if it costs fewer than 0 permits, and [ErrClosed] after Close.
func (c *LimitedChannel[T]) TrySend(v T) error {
	n := c.cost(v)
	if c.putFast(v, n) {
		return nil
	}
	return c.trySend(v, n)
}

func (c *LimitedChannel[T]) trySend(v T, n int) error {
	switch {
	case n < 0:
		return core.ErrNegativePermits
	case !c.open.Load():
		return ErrClosed
	case c.bounded():
		return c.put(v, n, hold.Hold{})
	case c.plain && c.drops():
		return c.sendDropping(v, n)
	}
	h, err := c.limiter.Try(n)
	if err != nil {
		return c.refused(v, n, err)
	}
	return c.put(v, n, h)
}

// Send queues v. Under [Reject] it waits for permits in the limiter's queue, as far as the queue's limit
// allows, and then for room. In the other modes it does not wait, and is TrySend that looks at ctx first.
//
// If ctx is done before or while Send waits, Send returns ctx.Err(), and nothing is sent or held; permits
// that Send already has are refunded. A sender whose ctx ended before a receiver made room does not get
// that room. Once Send has been given room, v is sent, and the end of ctx has no effect. If the limiter
// rejects v, Overflow decides; under Reject the error is the limiter's *[core.RejectedError]. A rate
// limiter rejects v at once if the permits would come after ctx's deadline; this error also matches
// [context.DeadlineExceeded]. If the channel is closed before or while Send waits, the error is
// [ErrClosed]. The other errors are those of TrySend.
func (c *LimitedChannel[T]) Send(ctx context.Context, v T) error {
	n := c.cost(v)
	if ctx.Err() == nil && c.putFast(v, n) {
		return nil
	}
	return c.sendCosting(ctx, v, n)
}

func (c *LimitedChannel[T]) sendCosting(ctx context.Context, v T, n int) error {
	if n < 0 {
		return core.ErrNegativePermits
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case c.overflow != Reject:
		return c.trySend(v, n)
	case !c.open.Load():
		return ErrClosed
	case c.bounded():
		return c.putWaiting(ctx, v, hold.Hold{})
	}
	h, err := c.acquire(ctx, n)
	if err != nil {
		return err
	}
	return c.putWaiting(ctx, v, h)
}

// acquire takes n permits. It waits in the limiter's queue; the wait ends when the channel is closed.
//
// It yields once before it waits: a receiver that is ready to run then gives back many permits at once,
// whereas a waiter would be woken for each. BenchmarkChannel/pairs=4 of bench/channels takes 1.6 times as
// long as a native channel without the yield, and 1.2 times with it.
func (c *LimitedChannel[T]) acquire(ctx context.Context, n int) (hold.Hold, error) {
	if !c.plain || n == 0 {
		return c.limiter.Take(ctx, &c.closing, n)
	}
	if !c.limiter.TryPlain(n) {
		runtime.Gosched()
		return c.limiter.Take(ctx, &c.closing, n)
	}
	return hold.Hold{Permits: n}, nil
}

// putFast queues an item that holds n plain permits, or nothing, if there are permits and room and nobody
// waits for an item. It avoids the copies of holds that put makes, and takes half the time: BenchmarkChannel
// in bench/channels.
func (c *LimitedChannel[T]) putFast(v T, n int) bool {
	if !c.plain {
		return false
	}
	c.mu.Lock()
	ok := c.open.Load() && c.receivers.Empty() && c.itemWaiters.Empty() && c.roomLocked() && c.takePlainLocked(n)
	if ok {
		if c.queue.varies {
			c.queue.holds.Push(hold.Hold{Permits: n})
		}
		c.queue.items.Push(v)
	}
	c.mu.Unlock()
	return ok
}

// takePlainLocked takes n plain permits. It reports true without taking any if the channel has no limiter.
func (c *LimitedChannel[T]) takePlainLocked(n int) bool {
	return c.bounded() || c.limiter.TryPlain(n)
}

// holdOf returns what an item holds for which n plain permits were taken.
func (c *LimitedChannel[T]) holdOf(n int) hold.Hold {
	if c.bounded() {
		return hold.Hold{}
	}
	return hold.Hold{Permits: n}
}

// put queues an item that holds its n permits. If there is no room, Overflow decides.
func (c *LimitedChannel[T]) put(v T, n int, h hold.Hold) error {
	for {
		var a after[T]
		c.mu.Lock()
		open := c.open.Load()
		placed := open && c.placeLocked(v, h, &a)
		c.mu.Unlock()
		c.finish(&a)
		switch {
		case placed:
			return nil
		case !open:
			c.limiter.Refund(h)
			return ErrClosed
		case !a.dropped:
			c.limiter.Refund(h)
			return c.refused(v, n, c.full(n))
		}
	}
}

// isDone reports whether a context's Done is closed. A call that may have waited looks under the mutex: a
// context that ended before room or an item came decides.
func isDone(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// full returns the error of an item for which there is no room.
func (c *LimitedChannel[T]) full(n int) error {
	if c.bounded() {
		return &core.RejectedError{Permits: n, Reason: "permits exhausted"} // as a concurrency limiter does
	}
	return &core.RejectedError{Permits: n, Reason: "capacity reached"}
}

// putWaiting waits for room and queues an item that holds its permits. If ctx is done or the channel is
// closed before there is room, it refunds the permits.
func (c *LimitedChannel[T]) putWaiting(ctx context.Context, v T, h hold.Hold) error {
	sent := false
	defer func() {
		if !sent { // ctx may have panicked
			c.limiter.Refund(h)
		}
	}()
	done := ctx.Done()
	var w *wait.Waiter[parcel[T]]
	var a after[T]
	c.mu.Lock()
	o := wait.Granted
	switch {
	case !c.open.Load():
		o = wait.Ended
	case isDone(done):
		o = wait.Cancelled
	case c.roomLocked():
		c.putLocked(v, h, &a)
	default:
		w = c.senders.Push(done, parcel[T]{item: v, hold: h})
	}
	c.mu.Unlock()
	sent = w == nil && o == wait.Granted
	c.finish(&a)
	if w != nil {
		_, o = w.Wait(&c.mu)
	}
	switch o {
	case wait.Ended:
		return ErrClosed
	case wait.Cancelled:
		return ctx.Err()
	}
	sent = true
	return nil
}

// WaitToSend waits until an item of one permit could be queued without dropping another: until the limiter
// grants a zero-permit request and there is room. It takes nothing, so another sender may come first; call
// WaitToSend and TrySend in a loop. It returns [ErrClosed] if the channel is closed, the limiter's error if
// the limiter rejects the request, and ctx.Err() if ctx is done, even if there is room.
//
// Use Send if items cost more than one permit: while some permits are available, but fewer than the
// item costs, WaitToSend does not wait, and the loop spins.
func (c *LimitedChannel[T]) WaitToSend(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !c.open.Load() {
			return ErrClosed
		}
		if !c.bounded() {
			l, err := hold.Acquire(ctx, &c.closing, c.limiter.Limiter, 0)
			if err != nil {
				return err
			}
			l.Release()
		}
		room, err := c.awaitRoom(ctx)
		if room || err != nil {
			return err
		}
	}
}

// awaitRoom reports whether there is room. If not, it waits until there is or the channel is closed.
func (c *LimitedChannel[T]) awaitRoom(ctx context.Context) (room bool, err error) {
	done := ctx.Done()
	var w *wait.Waiter[parcel[T]]
	c.mu.Lock()
	open, room := c.open.Load(), c.roomLocked()
	if open && !room {
		w = c.roomWaiters.Push(done, parcel[T]{})
	}
	c.mu.Unlock()
	if !open {
		return false, ErrClosed
	}
	if w != nil {
		if _, o := w.Wait(&c.mu); o == wait.Cancelled {
			return false, ctx.Err()
		}
	}
	return room, nil
}
