package channel

import (
	"context"
	"errors"
	"sync"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/linked"
)

// This file implements the drop modes with a *core.ConcurrencyLimiter. The channel takes and gives back
// permits under its mutex. Under the mutex each permit is therefore available, held by a queued item, or
// held outside the channel. A sender that finds too few available and nothing to drop is rightly rejected.
//
// There is one exception: a Send that waits in the limiter's queue cannot hold the mutex, so it may have
// been granted permits that no queued item holds yet. Such Sends are called askers. Before a sender is
// rejected, it recalls the askers if one of them may have permits: each stops waiting and queues its item
// if it was granted the permits. Then the sender tries again.

// attempt is the outcome of one try to queue an item.
type attempt uint8

const (
	placed  attempt = iota
	dropped         // the item was not queued, but another was dropped: try again
	missing         // nothing is left to drop, but an asker may have the permits: recall the askers
	failed
)

// sendExact queues v, dropping other items until its n permits are available.
func (c *LimitedChannel[T]) sendExact(v T, n int) error {
	var rejection error
	recall := false
	for {
		var a after[T]
		if recall {
			c.recall()
		}
		outcome, err := c.tryExact(v, n, &rejection, &a)
		if recall {
			c.resume()
		}
		c.finish(&a)
		if outcome == placed || outcome == failed {
			return err
		}
		recall = outcome == missing
	}
}

// tryExact tries to queue v, dropping at most one item. The limiter is asked for a counted rejection only
// once per send, and rejection keeps it.
func (c *LimitedChannel[T]) tryExact(v T, n int, rejection *error, a *after[T]) (attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open.Load() {
		return failed, ErrClosed
	}
	taken := c.tryQuietly(n)
	if !taken && *rejection == nil {
		_, err := c.try(n)
		if taken = err == nil; !taken && !errors.Is(err, core.ErrRejected) {
			return failed, err
		}
		*rejection = err
	}
	if !taken {
		c.dropLocked(a)
		taken = a.dropped && c.tryQuietly(n)
	}
	switch {
	case taken && c.placeOrGiveLocked(v, n, a):
		return placed, nil
	case a.dropped:
		return dropped, nil
	case c.askers.permits > c.limiter.(core.Reporter).Statistics().Queued: // an asker has left the limiter's queue
		return missing, *rejection
	}
	return failed, *rejection
}

// placeOrGiveLocked queues v, whose permits have been taken, or gives them back.
func (c *LimitedChannel[T]) placeOrGiveLocked(v T, n int, a *after[T]) bool {
	placed := c.placeLocked(v, hold{permits: n}, a)
	if !placed {
		c.release(hold{permits: n})
	}
	return placed
}

// tryQuietly takes n permits if they are available. A failure is not counted as a rejection.
func (c *LimitedChannel[T]) tryQuietly(n int) bool {
	if n == 0 {
		_, ok := core.TryQuietly(c.limiter, 0)
		return ok
	}
	return c.plain.TryTake(n)
}

// sendExactWaiting implements Send: it waits in the limiter's queue before it drops anything.
func (c *LimitedChannel[T]) sendExactWaiting(ctx context.Context, v T, n int) error {
	for {
		if c.placeIfFree(v, n) {
			return nil
		}
		switch err := c.askAndPlace(ctx, v, n); {
		case errors.Is(err, errAgain):
		case errors.Is(err, core.ErrRejected):
			return c.sendExact(v, n)
		default:
			return err
		}
	}
}

// placeIfFree queues v if its permits are available.
func (c *LimitedChannel[T]) placeIfFree(v T, n int) bool {
	var a after[T]
	c.mu.Lock()
	placed := c.open.Load() && c.tryQuietly(n) && c.placeOrGiveLocked(v, n, &a)
	c.mu.Unlock()
	c.finish(&a)
	return placed
}

// askAndPlace waits in the limiter's queue as an asker, and queues v when it has its permits. It returns
// errAgain if it was recalled, or if there is no room yet.
func (c *LimitedChannel[T]) askAndPlace(ctx context.Context, v T, n int) error {
	source, err := c.joinAskers(n)
	if err != nil {
		return err
	}
	call := source.Begin(ctx)
	err = c.takeWaiting(call, n) //nolint:contextcheck // call is ctx, until it ends
	call.End()
	if err != nil {
		err = call.Explain(err)
	}
	var a after[T]
	c.mu.Lock()
	c.leaveAskersLocked(n)
	switch {
	case err != nil: // nothing was taken
	case !c.open.Load():
		c.release(hold{permits: n})
		err = ErrClosed
	case !c.placeOrGiveLocked(v, n, &a):
		err = errAgain // an item was dropped, and there is still no room
	}
	c.mu.Unlock()
	c.finish(&a)
	return err
}

func (c *LimitedChannel[T]) takeWaiting(ctx context.Context, n int) error {
	if n == 0 {
		_, err := c.limiter.Acquire(ctx, 0)
		return err
	}
	return c.plain.Take(ctx, n)
}

// askers counts the Sends in the limiter's queue. The channel's mutex guards the fields.
type askers struct {
	source  *linked.Source // ends their waits
	permits int            // the permits that they ask for
	n       int            // the number of askers
	recalls int            // senders between recall and resume; while there are any, no Send becomes an asker
	changed sync.Cond      // signals that n or recalls has become 0
}

// errAgain tells a Send to start over: it was recalled, or found no room.
var errAgain = errors.New("channel: again")

// joinAskers makes the caller an asker, and returns the source that ends its wait.
func (c *LimitedChannel[T]) joinAskers(n int) (*linked.Source, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.askers.recalls > 0 {
		c.askers.changed.Wait()
	}
	if !c.open.Load() {
		return nil, ErrClosed
	}
	c.askers.n++
	c.askers.permits += n
	return c.askers.source, nil
}

// leaveAskersLocked undoes joinAskers when the limiter has answered.
func (c *LimitedChannel[T]) leaveAskersLocked(n int) {
	c.askers.n--
	c.askers.permits -= n
	if c.askers.n == 0 {
		c.askers.changed.Broadcast()
	}
}

// recall ends the waits of the askers, and returns when all of them have left. No Send becomes an asker
// until resume is called.
func (c *LimitedChannel[T]) recall() {
	c.mu.Lock()
	c.askers.recalls++
	source := c.askers.source
	c.askers.source = new(linked.Source)
	c.mu.Unlock()
	source.End(errAgain)
	c.mu.Lock()
	for c.askers.n > 0 {
		c.askers.changed.Wait()
	}
	c.mu.Unlock()
}

func (c *LimitedChannel[T]) resume() {
	c.mu.Lock()
	c.askers.recalls--
	if c.askers.recalls == 0 {
		c.askers.changed.Broadcast()
	}
	c.mu.Unlock()
}
