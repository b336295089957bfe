package channel

import (
	"context"
	"errors"
	"runtime"

	"github.com/sluice-go/sluice/core"
)

// What follows are the modes that evict, of a concurrency limiter with plain permits.
// Those are taken and given back under the channel's mutex: so permits are with the
// limiter, in the queue or with strangers, never on their way, and a sender that finds
// none, and nothing to evict, is rightly refused. The limiter's own mutex may be taken
// under the channel's then; never the other way round, as core knows no channel. That no
// other's code runs holds as well: it is the very type of core's.

// trySendCounted is TrySend.
func (c *LimitedChannel[T]) trySendCounted(v T, n int) error {
	c.mu.Lock()
	if c.open.Load() && c.takeLocked(n) {
		return c.putCountedUnlock(v, n)
	}
	c.mu.Unlock()
	return c.evictCounted(v, n)
}

// sendCounted is Send. It waits outside the mutex, and others know that it asks.
func (c *LimitedChannel[T]) sendCounted(ctx context.Context, v T, n int) error {
	c.mu.Lock()
	if c.open.Load() && c.takeLocked(n) {
		return c.putCountedUnlock(v, n)
	}
	c.mu.Unlock()
	err := c.acquireAsking(ctx, n)
	c.mu.Lock()
	c.asking.Add(-int64(max(n, 1)))
	switch {
	case err == nil && c.open.Load():
		return c.putCountedUnlock(v, n)
	case err == nil:
		c.release(hold{permits: n})
		err = ErrClosed
	}
	c.mu.Unlock()
	if !errors.Is(err, core.ErrRejected) {
		return err
	}
	return c.evictCounted(v, n)
}

// acquireAsking is acquire, and counts in asking, unless ctx, which may be somebody's own,
// panics.
func (c *LimitedChannel[T]) acquireAsking(ctx context.Context, n int) error {
	answered := false
	c.asking.Add(int64(max(n, 1)))
	defer func() {
		if !answered {
			c.asking.Add(-int64(max(n, 1)))
		}
	}()
	_, err := c.acquire(ctx, n)
	answered = true
	return err
}

// takeLocked takes n permits if they are there, and leaves no trace if not.
func (c *LimitedChannel[T]) takeLocked(n int) bool {
	if n == 0 {
		_, ok := core.TryQuietly(c.limiter, 0)
		return ok
	}
	return c.plain.TryTake(n)
}

// putCountedUnlock queues an item whose permits were taken.
func (c *LimitedChannel[T]) putCountedUnlock(v T, n int) error {
	var dropped T
	var held hold
	evicted := false
	if !c.roomLocked() {
		// If nothing is there to be evicted any more, there is room. While evictLocked waited
		// for an offer to end, others may have come, or Close.
		dropped, held, evicted = c.evictLocked()
		c.release(held)
	}
	if !c.open.Load() {
		c.release(hold{permits: n})
		c.mu.Unlock()
		return ErrClosed
	}
	woken, spent := c.putLocked(v, hold{permits: n})
	if spent {
		c.release(hold{permits: n})
	}
	c.mu.Unlock()
	wake(woken)
	if evicted {
		c.drop(dropped)
	}
	return nil
}

// evictCounted drops queued items until n permits can be taken for v, or nothing is left
// to drop: then v is refused as the limiter says.
func (c *LimitedChannel[T]) evictCounted(v T, n int) error {
	var refusal error
	for waited := 0; ; {
		c.mu.Lock()
		if !c.open.Load() {
			c.mu.Unlock()
			return ErrClosed
		}
		if c.takeLocked(n) {
			return c.putCountedUnlock(v, n)
		}
		if refusal == nil {
			// A closed limiter, or a limit that n is above, drops nothing.
			if refusal = c.refusalLocked(n); !errors.Is(refusal, core.ErrRejected) {
				c.mu.Unlock()
				if refusal != nil {
					return refusal
				}
				continue
			}
		}
		var woken *waiter[T]
		dropped, held, ok := c.evictLocked()
		if ok {
			woken = c.leftLocked()
			c.release(held)
		}
		// Even if nothing was evicted: while evictLocked waited for an offer to end, its item
		// may have been taken.
		if c.open.Load() && c.takeLocked(n) {
			err := c.putCountedUnlock(v, n)
			c.evicted(dropped, ok, woken)
			return err
		}
		open, enough := c.open.Load(), c.askersPatience() // askers put what they have under the mutex
		c.mu.Unlock()
		c.evicted(dropped, ok, woken)
		switch {
		case ok:
			waited = 0
		case open && waited >= enough:
			return refusal
		default:
			waited++
			runtime.Gosched()
		}
	}
}

// evicted does what follows an eviction, if there was one, without the mutex.
func (c *LimitedChannel[T]) evicted(v T, ok bool, woken *waiter[T]) {
	wake(woken)
	if ok {
		c.drop(v)
	}
}

// refusalLocked returns why the limiter refuses n permits, and has it count that; nil: it
// does not refuse any more.
func (c *LimitedChannel[T]) refusalLocked(n int) error {
	l := c.limiter.TryAcquire(n)
	l.Release()
	return l.Err()
}

// askersPatience returns how often to let others run before it is sure that none of those
// that ask in Send has what is missing. If more is asked for than waits in the limiter's
// queue, one may have been granted its permits and not have run since.
func (c *LimitedChannel[T]) askersPatience() int {
	asking := c.asking.Load()
	switch {
	case asking == 0:
		return 0
	case asking > int64(c.queuedAtLimiter()):
		return patience
	}
	return patienceInDoubt
}
