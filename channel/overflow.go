package channel

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/core"
)

// Overflow selects what a send does when the limiter or the capacity rejects the item.
type Overflow uint8

const (
	// Reject returns the rejection to the sender. Send first waits: in the limiter's queue, as far as
	// the queue's limit allows, and then for room.
	Reject Overflow = iota

	// DropOldest drops queued items, oldest first, until the new item gets its permits. If nothing is
	// left to drop, the send returns the limiter's rejection. An item that costs more than the limit
	// drops nothing. Send first waits in the limiter's queue, as far as the queue's limit allows.
	//
	// With a [core.ConcurrencyLimiter] a TrySend succeeds if an empty channel would take the item,
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
	// item may be dropped although a receiver is about to release permits. Send first waits in the
	// limiter's queue, as far as the queue's limit allows.
	DropIncoming
)

var overflowNames = [...]string{
	Reject: "reject", DropOldest: "drop-oldest", DropNewest: "drop-newest", DropIncoming: "drop-incoming",
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
	return fmt.Errorf("channel: unknown overflow mode %q, want reject, drop-oldest, drop-newest or drop-incoming", text)
}

// drops reports whether queued items are dropped to make room.
func (c *LimitedChannel[T]) drops() bool { return c.overflow == DropOldest || c.overflow == DropNewest }

// refused handles an item of n permits that was not queued because of err. If err is a rejection,
// Overflow decides.
func (c *LimitedChannel[T]) refused(v T, n int, err error) error {
	switch {
	case !errors.Is(err, core.ErrRejected):
		return err
	case c.overflow == DropIncoming:
		c.drop(v)
		return nil
	case c.drops() && !c.exceeds(n):
		return c.dropFor(v, n, err)
	}
	return err
}

// dropFor drops queued items until the limiter grants n permits for v, nothing is left to drop, or dropping
// more cannot help.
func (c *LimitedChannel[T]) dropFor(v T, n int, err error) error {
	for c.dropOne() {
		var h hold
		if h, err = c.try(n); err == nil {
			return c.put(v, n, h)
		}
		if !errors.Is(err, core.ErrRejected) || c.onlyTimeHelps(err) {
			break
		}
	}
	if !c.open.Load() {
		return ErrClosed
	}
	return err
}

// onlyTimeHelps reports whether err is a rate limiter's rejection: the error has a RetryAfter, or the
// limiter is replenished by hand.
func (c *LimitedChannel[T]) onlyTimeHelps(err error) bool {
	if rejected, ok := errors.AsType[*core.RejectedError](err); ok && rejected.RetryAfter > 0 {
		return true
	}
	r, ok := c.limiter.(core.Replenisher)
	return ok && !r.AutoReplenishing() && r.ReplenishmentPeriod() > 0
}

// dropOne drops the oldest or the newest item, as Overflow says. It returns false if there is none, or if
// the channel is closed: then the remaining items are for the receivers.
func (c *LimitedChannel[T]) dropOne() bool {
	var a after[T]
	c.mu.Lock()
	if c.open.Load() {
		c.dropLocked(&a)
	}
	c.mu.Unlock()
	c.finish(&a)
	return a.dropped
}

func (c *LimitedChannel[T]) dropLocked(a *after[T]) {
	var h hold
	if c.overflow == DropOldest {
		a.victim, h, a.dropped = c.oldestLocked()
	} else {
		a.victim, h, a.dropped = c.newestLocked()
	}
	if a.dropped {
		c.spendLocked(h, a)
		c.leftLocked(a)
	}
}

// placeLocked queues an item that has its permits. In a drop mode it drops at most one item to make room.
// It returns false if there is still no room: items that Chans have returned may exceed the capacity.
func (c *LimitedChannel[T]) placeLocked(v T, h hold, a *after[T]) bool {
	if !c.roomLocked() && !a.dropped && c.drops() {
		c.dropLocked(a)
	}
	if !c.roomLocked() {
		return false
	}
	c.putLocked(v, h, a)
	return true
}

// exceeds reports whether n permits are more than the limiter's limit, so that dropping cannot help. It
// reports false if the limiter does not report a limit.
func (c *LimitedChannel[T]) exceeds(n int) bool {
	r, ok := c.limiter.(core.Reporter)
	if !ok {
		return false
	}
	limit := r.Statistics().Limit
	return limit > 0 && n > limit // 0: unknown
}
