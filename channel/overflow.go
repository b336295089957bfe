package channel

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
)

// Overflow selects what a send does when the limiter or the capacity rejects the item.
type Overflow uint8

const (
	// Wait drops nothing. It is the zero value. TrySend returns the rejection, and Send waits: for permits in the
	// limiter's queue, and then for room.
	Wait Overflow = iota

	// DropOldest drops queued items, oldest first, until the new item gets its permits. If nothing is
	// left to drop, the send returns the limiter's rejection. An item that costs more than the limit
	// drops nothing. Send does not wait: it returns ctx.Err() if ctx is done, and otherwise does what
	// TrySend does.
	//
	// With a [core.ConcurrencyLimiter] a send succeeds if an empty channel would take the item,
	// whatever other senders and receivers do at the same time. It is rejected only if the missing
	// permits are held by other users of the limiter, by callers of ReceiveLease or by an item that a
	// Chan offers. With any other limiter, other senders may take the permits that a drop frees.
	//
	// Dropping an item does not bring back the permits of a rate limiter. If the rejection has a
	// RetryAfter, or the limiter is replenished by hand, the send therefore drops at most one item and
	// returns the rejection.
	DropOldest

	// DropNewest is like DropOldest but drops the newest item first.
	DropNewest

	// DropIncoming drops the new item, and the send returns nil. The limiter is asked only once, so the
	// item may be dropped although a receiver is about to release permits. As with DropOldest, Send does
	// not wait.
	DropIncoming
)

var overflowNames = [...]string{
	Wait: "wait", DropOldest: "drop-oldest", DropNewest: "drop-newest", DropIncoming: "drop-incoming",
}

// String returns the mode's name, such as "drop-oldest".
func (o Overflow) String() string {
	if int(o) < len(overflowNames) {
		return overflowNames[o]
	}
	return fmt.Sprintf("Overflow(%d)", uint8(o))
}

// MarshalText returns the mode's name, or an error if the mode is unknown.
func (o Overflow) MarshalText() ([]byte, error) {
	if int(o) >= len(overflowNames) {
		return nil, fmt.Errorf("channel: unknown overflow mode %d", uint8(o))
	}
	return []byte(o.String()), nil
}

// UnmarshalText sets the mode from its name. It returns an error if the name is unknown.
func (o *Overflow) UnmarshalText(text []byte) error {
	for i, name := range overflowNames {
		if name == string(text) {
			*o = Overflow(i)
			return nil
		}
	}
	return fmt.Errorf("channel: unknown overflow mode %q, want wait, drop-oldest, drop-newest or drop-incoming", text)
}

// drops reports whether queued items are dropped to make room.
func (c *LimitedChannel[T]) drops() bool { return c.overflow == DropOldest || c.overflow == DropNewest }

// tryTake takes n permits of a limiter whose permits are held as leases. In a drop mode it drops queued items
// until the limiter grants them, nothing is left to drop, or dropping more cannot help.
func (c *LimitedChannel[T]) tryTake(n int) (hold.Hold, error) {
	h, err := c.limiter.Try(n)
	if !c.drops() || !errors.Is(err, core.ErrRejected) || n > hold.Limit(c.limiter.Limiter) {
		return h, err
	}
	for errors.Is(err, core.ErrRejected) && c.dropOne() {
		if h, err = c.limiter.Try(n); c.onlyTimeHelps(err) {
			break
		}
	}
	return h, err
}

// onlyTimeHelps reports whether err is a rate limiter's rejection: the error has a RetryAfter, or the
// limiter is replenished by hand.
func (c *LimitedChannel[T]) onlyTimeHelps(err error) bool {
	var rejected *core.RejectedError
	if errors.As(err, &rejected) && rejected.RetryAfter > 0 {
		return true
	}
	r, ok := core.As[core.Replenisher](c.limiter.Limiter)
	return ok && !r.AutoReplenishing() && r.ReplenishmentPeriod() > 0
}

// dropOne drops the oldest or the newest item, as Overflow says. It returns false if there is none, or if
// the channel is closed: then the remaining items are for the receivers.
func (c *LimitedChannel[T]) dropOne() bool {
	var d deferredWork[T]
	c.mu.Lock()
	dropped := c.open.Load() && c.dropLocked(&d)
	c.mu.Unlock()
	c.finish(&d)
	return dropped
}

func (c *LimitedChannel[T]) dropLocked(d *deferredWork[T]) bool {
	remove := c.oldestLocked
	if c.overflow == DropNewest {
		remove = c.newestLocked
	}
	v, h, ok := remove()
	if ok {
		d.dropped.add(v)
		c.releaseLocked(h, d)
		c.leftLocked(d)
	}
	return ok
}
