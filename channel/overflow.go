package channel

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/core"
)

// Overflow says what a send does when the limiter or the capacity rejects the item.
type Overflow uint8

const (
	// Reject returns the rejection to the sender. Send waits first: in the limiter's queue, as far as
	// its limit allows, and then for capacity.
	Reject Overflow = iota

	// DropOldest drops queued items, the oldest first, until the new one is granted its permits, or
	// nothing is left to drop; then the limiter's rejection comes back. An item above the limit drops
	// nothing.
	//
	// With a [core.ConcurrencyLimiter] TrySend never rejects an item that an empty channel would take,
	// whatever senders and receivers do meanwhile. Only permits that are held by other users of the
	// limiter, by callers of ReceiveLease or by the consumer of a Chan can make it reject an item. With
	// any other limiter, other senders may take the permits that a drop frees.
	//
	// Dropping does not bring back the permits of a rate limiter. It stops once the rejection has a
	// RetryAfter, or the limiter is replenished by hand: a rejection then costs one item.
	DropOldest

	// DropNewest is DropOldest, but drops the newest first.
	DropNewest

	// DropIncoming drops the new item, and the send returns nil. The limiter is asked once, so the item may
	// be dropped though a receiver is about to release permits.
	DropIncoming
)

var overflowNames = [...]string{
	Reject: "reject", DropOldest: "drop-oldest", DropNewest: "drop-newest", DropIncoming: "drop-incoming",
}

// String returns the mode's name, as "drop-oldest".
func (o Overflow) String() string {
	if int(o) < len(overflowNames) {
		return overflowNames[o]
	}
	return fmt.Sprintf("Overflow(%d)", uint8(o))
}

// MarshalText returns the mode's name; an unknown mode is an error.
func (o Overflow) MarshalText() ([]byte, error) {
	if int(o) >= len(overflowNames) {
		return nil, fmt.Errorf("channel: unknown overflow mode %d", uint8(o))
	}
	return []byte(o.String()), nil
}

// UnmarshalText sets the mode from its name.
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

// refused does what Overflow says with an item that cost n permits and was rejected with err.
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

// dropFor drops queued items until the limiter grants n permits for v, or nothing is left to drop, or only
// time would help.
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

// onlyTimeHelps reports whether a rate limiter has rejected an item: it says when to come back, or that its
// permits are replenished by hand.
func (c *LimitedChannel[T]) onlyTimeHelps(err error) bool {
	if rejected, ok := errors.AsType[*core.RejectedError](err); ok && rejected.RetryAfter > 0 {
		return true
	}
	r, ok := c.limiter.(core.Replenisher)
	return ok && !r.AutoReplenishing() && r.ReplenishmentPeriod() > 0
}

// dropOne drops the item that Overflow drops first. It returns false if nothing is there, or the channel
// is closed: then what is there is the receivers'.
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

// placeLocked queues an item that has its permits, for which it may drop another. It returns false if there
// is still no room: items that Chans have given back may exceed the capacity.
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

// exceeds reports whether n permits are more than the limiter ever grants, as far as it says: then
// dropping does not help.
func (c *LimitedChannel[T]) exceeds(n int) bool {
	r, ok := c.limiter.(core.Reporter)
	if !ok {
		return false
	}
	limit := r.Statistics().Limit
	return limit > 0 && n > limit // 0: it does not say
}
