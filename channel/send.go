package channel

import (
	"context"
	"errors"
	"runtime"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// ReasonCapacity is the reason of a *[core.RejectedError] if there is no room.
const ReasonCapacity = hold.ReasonCapacity

// TrySend queues v if its permits and room are available now. It never waits for them.
//
// If they are not available, Overflow decides. In the default mode, [Wait], v is not sent, and the error is a
// *[core.RejectedError]. If there is no room, or if a Send that has waited for room is still ahead of v, the limiter
// is not asked for permits, and the reason is [ReasonCapacity], or [core.ReasonExhausted] in a [Bounded] channel.
// Otherwise the error is the limiter's. A limiter that serves the oldest request first also rejects v while other
// callers wait in its queue.
//
// In every mode the error is [core.ErrNegativePermits] if v costs fewer than 0 permits, [ErrClosed] after Close, and
// [core.ErrPermitsExceedLimit] if v costs more than the limit.
func (c *LimitedChannel[T]) TrySend(v T) error { return c.trySendFrom(&v) }

func (c *LimitedChannel[T]) trySendFrom(v *T) error {
	n := c.cost(v)
	if c.put(v, n) {
		return nil
	}
	return c.trySend(v, n)
}

func (c *LimitedChannel[T]) trySend(v *T, n int) (err error) {
	switch {
	case n < 0:
		return core.ErrNegativePermits
	case !c.open.Load():
		return ErrClosed
	case !c.drops():
		err = c.enter(nil, v, n) //nolint:staticcheck // it does not wait
	case c.plain:
		err = c.displace(v, n)
	default:
		err = c.displaceLeases(v, n)
	}
	switch {
	case !errors.Is(err, core.ErrRejected):
		return err
	case !c.open.Load(): // closed since then
		return ErrClosed
	case c.overflow == DropIncoming:
		c.drop(*v)
		return nil
	}
	return err
}

// Send queues v. In the default mode, [Wait], it waits for room, and then for permits in the limiter's queue, even if
// the QueueLimit is 0. Senders that wait for room are served one after the other, in the limiter's order. In the other
// [Overflow] modes Send does not wait: it returns ctx.Err() if ctx is done, and otherwise does what TrySend does.
//
// If ctx is done before or while Send waits, Send returns ctx.Err(), and nothing is sent or held. Room that a receiver
// makes after ctx has ended goes to another sender. Once Send has been given both room and permits, v is sent, even if
// ctx ends at that moment.
//
// Once Send has room, the limiter may reject v. A rate limiter does so immediately if the permits would become
// available after ctx's deadline; the error is then a *[core.RejectedError] that also matches
// [context.DeadlineExceeded]. A custom limiter may do so too, because its QueueLimit applies here; see the package
// comment.
//
// If the channel is closed before or while Send waits, the error is [ErrClosed]. The other errors are those of
// TrySend. If several apply, a negative cost is reported first, then ctx.Err(), then ErrClosed, and then
// [core.ErrPermitsExceedLimit].
func (c *LimitedChannel[T]) Send(ctx context.Context, v T) error { return c.sendFrom(ctx, &v) }

// sendFrom is a function of its own because the compiler then puts Send into its caller, which saves a copy of the item
// (BenchmarkLargeItems of bench).
func (c *LimitedChannel[T]) sendFrom(ctx context.Context, v *T) error {
	n := c.cost(v)
	if ctx.Err() == nil && c.put(v, n) {
		return nil
	}
	return c.send(ctx, v, n)
}

// send is Send of an item that put has not put.
func (c *LimitedChannel[T]) send(ctx context.Context, v *T, n int) error {
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
	}
	return c.enter(ctx, v, n)
}

// WaitToSend waits until an item of one permit could be queued without dropping another. It first waits for room, and
// then until the limiter grants a request for zero permits, even if the QueueLimit is 0. WaitToSend takes nothing, so
// another sender may come first; call WaitToSend and TrySend in a loop. It returns [ErrClosed] if the channel is
// closed, the limiter's error if the limiter rejects the request, and ctx.Err() if ctx is done, even if there is room.
//
// If items cost more than one permit, use Send instead. While some permits are available, but fewer than the item
// costs, WaitToSend returns immediately, TrySend is rejected, and the loop spins.
func (c *LimitedChannel[T]) WaitToSend(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !c.open.Load() {
		return ErrClosed
	}
	return c.enter(ctx, nil, 0)
}

// put puts an item of n permits if it has to wait for nothing and its permits can be taken under the mutex.
// The common case, in which no receiver waits for the item, leaves no work for unlock, and takes half the time:
// BenchmarkChannel in bench.
func (c *LimitedChannel[T]) put(v *T, n int) bool {
	if !c.plain {
		return false
	}
	c.mu.Lock()
	switch {
	case !c.open.Load() || !c.firstLocked() || !c.payLocked(n):
		c.mu.Unlock()
		return false
	case c.receivers.Empty():
		c.items.PushFrom(v)
		c.holds.PushPlain(n)
		c.mu.Unlock()
	default:
		c.putLocked(v, c.holdOf(n))
		c.unlock()
	}
	return true
}

// firstLocked reports whether there is room for a send and no other is ahead of it: while there is room, senders wait only
// behind one that leads.
func (c *LimitedChannel[T]) firstLocked() bool { return !c.leads && c.roomLocked() }

// payLocked takes n permits if that is possible under the mutex. The caller then puts the item before it unlocks.
func (c *LimitedChannel[T]) payLocked(n int) bool {
	switch {
	case c.bounded() || c.limiter.TryPlain(n):
		return true
	case n != 0 || !c.plain:
		return false
	}
	_, ok := core.TryQuietly(c.limiter.Limiter, 0) // a limiter of core: no user code runs
	return ok
}

// holdOf returns what an item holds for which payLocked took n permits.
func (c *LimitedChannel[T]) holdOf(n int) hold.Hold {
	if c.bounded() {
		return hold.Hold{}
	}
	return hold.Hold{Permits: n}
}

// enter queues an item, which waits for room and then for permits, unless ctx is nil. A nil v is a WaitToSend, which waits
// as an item would, and takes nothing.
func (c *LimitedChannel[T]) enter(ctx context.Context, v *T, n int) error {
	var done <-chan struct{}
	var rank hold.Rank
	if ctx != nil {
		done = ctx.Done()
	}
	c.mu.Lock()
	if c.open.Load() && !c.firstLocked() {
		c.mu.Unlock() // because the limiter and ctx may be user code
		if err := c.limiter.Exceeds(n); err != nil {
			return err
		}
		if ctx == nil {
			return c.full(n)
		}
		rank = c.limiter.Rank(ctx)
		c.mu.Lock()
	}
	switch {
	case !c.open.Load():
		c.mu.Unlock()
		return ErrClosed
	case isDone(done):
		c.mu.Unlock()
		return ctx.Err()
	case !c.firstLocked():
		w := c.sending.New(done)
		s := &w.Value
		s.n, s.asks = n, false
		if s.moves = v != nil; s.moves {
			s.item = *v
		}
		c.senders.Push(&s.place, w, n, rank)
		c.mu.Unlock()
		return c.awaitRoom(ctx, w, v)
	case c.payLocked(n):
		if v != nil {
			c.putLocked(v, c.holdOf(n))
		}
		c.unlock()
		return nil
	}
	c.reserved += count(v != nil)
	c.mu.Unlock()
	return c.ask(ctx, v, n, false)
}

// awaitRoom waits until a sender is given room. If it is given room alone, awaitRoom calls the limiter.
func (c *LimitedChannel[T]) awaitRoom(ctx context.Context, w *wait.Waiter[call[T]], v *T) error {
	outcome := w.Park(&c.mu)
	n, asks := w.Value.n, w.Value.asks
	if outcome == wait.Canceled {
		c.mu.Lock()
		c.senders.Remove(&w.Value.place)
		c.mu.Unlock()
	}
	c.free(w)
	switch {
	case outcome == wait.Ended:
		return ErrClosed
	case outcome == wait.Canceled:
		return ctx.Err()
	case asks:
		return c.ask(ctx, v, n, true)
	}
	return nil
}

// ask asks the limiter for the permits of an item that has room, and puts the item. It waits for the permits unless ctx is
// nil.
func (c *LimitedChannel[T]) ask(ctx context.Context, v *T, n int, leads bool) (err error) {
	var h hold.Hold
	granted := false
	defer func() { // deferred, because the limiter may panic
		c.mu.Lock()
		c.reserved -= count(v != nil)
		c.leads = c.leads && !leads
		closed := !c.open.Load()
		put := granted && !closed && v != nil
		if put {
			c.putLocked(v, h)
		}
		c.leftLocked()
		c.unlock()
		if granted && closed {
			err = ErrClosed
		}
		if granted && !put {
			c.limiter.Refund(h)
		}
	}()
	if ctx == nil {
		h, err = c.limiter.Try(n)
	} else {
		h, err = c.limiter.Take(ctx, &c.closing, n)
	}
	granted = err == nil
	return err
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
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
		return &core.RejectedError{Permits: n, Reason: core.ReasonExhausted} // the reason of a concurrency limiter
	}
	return &core.RejectedError{Permits: n, Reason: ReasonCapacity}
}
