package channel

import (
	"context"
	"errors"
	"runtime"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// TrySend queues v if its permits and room are available now. It never waits for them.
//
// If they are not available, Overflow decides. Under [Wait] v is not sent, and the error is the limiter's
// *[core.RejectedError], or one with the reason "capacity reached", in which case the permits have been
// refunded. A limiter that serves the oldest request first also rejects v while other callers wait in its
// queue. Under every Overflow mode the error is [core.ErrPermitsExceedLimit] if v costs more than the
// limit, [core.ErrNegativePermits] if it costs fewer than 0 permits, and [ErrClosed] after Close.
func (c *LimitedChannel[T]) TrySend(v T) error {
	n := c.cost(v)
	if c.put(v, n) {
		return nil
	}
	return c.trySend(v, n)
}

func (c *LimitedChannel[T]) trySend(v T, n int) error {
	var h hold.Hold
	var err error
	switch {
	case n < 0:
		return core.ErrNegativePermits
	case !c.open.Load():
		return ErrClosed
	case !c.plain:
		h, err = c.tryTake(n)
	}
	if err == nil {
		err = c.place(v, n, h)
	}
	switch {
	case !errors.Is(err, core.ErrRejected):
		return err
	case !c.open.Load():
		return ErrClosed
	case c.overflow == DropIncoming:
		c.drop(v)
		return nil
	}
	return err
}

// Send queues v. Under [Wait] it waits for permits in the limiter's queue, even if the QueueLimit is 0, and
// then for room. In the other modes it does not wait: it returns ctx.Err() if ctx is done, and otherwise does
// what TrySend does.
//
// If ctx is done before or while Send waits, Send returns ctx.Err(), and nothing is sent or held; permits
// that Send already has are refunded. A sender whose ctx ended before a receiver made room does not get
// that room. Once Send has been given room, v is sent, and the end of ctx has no effect. A rate
// limiter rejects v immediately if the permits would come after ctx's deadline; the error is then a
// *[core.RejectedError] that also matches [context.DeadlineExceeded]. A limiter that obeys its QueueLimit
// even here, such as one of package redislimit, may reject v too; see the package comment. If the channel is
// closed before or while Send waits, the error is [ErrClosed]. If ctx is already done, the error is ctx.Err(), even
// if the channel is closed or could never take v. The other errors are those of TrySend.
func (c *LimitedChannel[T]) Send(ctx context.Context, v T) error {
	n := c.cost(v)
	if ctx.Err() == nil && c.put(v, n) {
		return nil
	}
	return c.sendSlow(ctx, v, n)
}

func (c *LimitedChannel[T]) sendSlow(ctx context.Context, v T, n int) error {
	if n < 0 {
		return core.ErrNegativePermits
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case c.overflow != Wait:
		return c.trySend(v, n)
	case !c.open.Load():
		return ErrClosed
	case c.plain && !c.bounded():
		// There were no permits, or no room. A receiver that is ready to run returns many permits in one go,
		// whereas a waiter would be woken for each: without the yield, an item takes one and a half times as
		// long through a channel with 64 senders and 64 receivers (BenchmarkChannel of bench).
		runtime.Gosched()
		if ctx.Err() == nil && c.put(v, n) {
			return nil
		}
	}
	var h hold.Hold
	var err error
	if !c.bounded() {
		if h, err = c.limiter.Take(ctx, &c.closing, n); err != nil {
			return err
		}
	}
	_, err = c.awaitRoom(ctx, handoff[T]{moves: true, item: v, hold: h})
	return err
}

// admission is what becomes of an item.
type admission uint8

const (
	admitted admission = iota // it can be put now
	unpaid                    // its permits are not available
	full                      // there is no room
	closed                    // the channel is closed
)

// admitLocked decides what becomes of an item of n permits. If the item is admitted and has not been paid
// for, admitLocked has taken n plain permits, and the caller must put the item before it unlocks.
func (c *LimitedChannel[T]) admitLocked(n int, paid bool) admission {
	switch {
	case !c.open.Load():
		return closed
	case !paid && !c.bounded() && !c.limiter.TryPlain(n) && (n != 0 || !c.probeLocked()):
		return unpaid
	case c.roomLocked():
		return admitted
	case !paid:
		c.limiter.Refund(c.holdOf(n))
	}
	return full
}

// probeLocked reports whether a core.ConcurrencyLimiter grants a zero-permit request.
func (c *LimitedChannel[T]) probeLocked() bool {
	_, ok := c.limiter.TryQuietly(0)
	return ok
}

// holdOf returns what an item holds for which n plain permits were taken.
func (c *LimitedChannel[T]) holdOf(n int) hold.Hold {
	if c.bounded() {
		return hold.Hold{}
	}
	return hold.Hold{Permits: n}
}

// put puts an item of n permits if it has to wait for nothing and its permits can be taken under the mutex.
// The common case, in which no receiver waits for the item, does without deferredWork, and takes half the time:
// BenchmarkChannel in bench.
func (c *LimitedChannel[T]) put(v T, n int) bool {
	if !c.plain {
		return false
	}
	c.mu.Lock()
	if c.admitLocked(n, false) != admitted {
		c.mu.Unlock()
		return false
	}
	if c.receivers.Empty() {
		c.items.Push(v)
		c.holds.PushPlain(n)
		c.mu.Unlock()
		return true
	}
	var d deferredWork[T]
	c.putLocked(v, c.holdOf(n), &d)
	c.mu.Unlock()
	c.finish(&d)
	return true
}

// place puts an item of n permits without waiting. In a drop mode it drops other items as long as that is
// necessary. Plain permits are taken here, and dropped items give theirs back under the same lock, so
// that no other sender comes between; what else the item needs is h. If place returns an error, it has
// refunded h.
func (c *LimitedChannel[T]) place(v T, n int, h hold.Hold) (err error) {
	paid := !c.plain
	var rejection error
	var d deferredWork[T]
	c.mu.Lock()
	a := c.admitLocked(n, paid)
	for a == unpaid || a == full {
		if a == unpaid && rejection == nil {
			// Once, and before anything is dropped: the limiter counts the rejection and gives its reason.
			if _, rejection = c.limiter.Try(n); rejection == nil {
				// Permits have come back since, but there may be no room.
				c.limiter.Refund(c.holdOf(n))
				a = c.admitLocked(n, paid)
				continue
			}
			if !errors.Is(rejection, core.ErrRejected) {
				break
			}
		}
		if !c.drops() || !c.dropLocked(&d) {
			break
		}
		a = c.admitLocked(n, paid)
	}
	if a == admitted {
		if !paid {
			h = c.holdOf(n)
		}
		c.putLocked(v, h, &d)
	}
	c.mu.Unlock()
	if a != admitted {
		c.limiter.Refund(h)
	}
	c.finish(&d)
	switch a {
	case closed:
		return ErrClosed
	case full:
		return c.full(n)
	case unpaid:
		return rejection
	}
	return nil
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
	return &core.RejectedError{Permits: n, Reason: hold.ReasonCapacity}
}

// WaitToSend waits until an item of one permit could be queued without dropping another: until the limiter
// grants a zero-permit request, even if its QueueLimit is 0, and there is room. It takes nothing, so another
// sender may come first; call WaitToSend and TrySend in a loop. It returns [ErrClosed] if the channel is
// closed, the limiter's error if the limiter rejects the request, and ctx.Err() if ctx is done, even if there
// is room.
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
			l, err := hold.AcquireWaiting(ctx, &c.closing, c.limiter.Limiter, 0)
			if err != nil {
				return err
			}
			l.Release()
		}
		if waited, err := c.awaitRoom(ctx, handoff[T]{}); err != nil || !waited {
			return err
		}
	}
}

// awaitRoom waits until there is room, ctx is done or the channel is closed, and reports whether it had to
// wait. A sender's item is put into the room, or its permits are refunded.
func (c *LimitedChannel[T]) awaitRoom(ctx context.Context, s handoff[T]) (waited bool, err error) {
	put := false
	defer func() { // deferred, because ctx may panic
		if !put {
			c.limiter.Refund(s.hold)
		}
	}()
	done := ctx.Done()
	var w *wait.Waiter[handoff[T]]
	var d deferredWork[T]
	outcome := wait.Granted
	c.mu.Lock()
	switch a := c.admitLocked(0, true); {
	case a == closed:
		outcome = wait.Ended
	case isDone(done):
		outcome = wait.Cancelled
	case a == full:
		w = c.senders.Push(done, s)
	case s.moves:
		c.putLocked(s.item, s.hold, &d)
		put = true
	}
	c.mu.Unlock()
	c.finish(&d)
	if w != nil {
		_, outcome = w.Wait(&c.mu)
		put = outcome == wait.Granted
	}
	switch outcome {
	case wait.Ended:
		err = ErrClosed
	case wait.Cancelled:
		err = ctx.Err()
	}
	return w != nil, err
}
