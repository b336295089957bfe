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
	// Reject returns the rejection to the sender. Send first waits: in the limiter's queue, as far as
	// the queue's limit allows, and then for room.
	Reject Overflow = iota

	// DropOldest drops queued items, oldest first, until the new item gets its permits. If nothing is
	// left to drop, the send returns the limiter's rejection. An item that costs more than the limit
	// drops nothing. No send waits: Send is TrySend that looks at ctx first.
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
	// item may be dropped although a receiver is about to release permits. No send waits: Send is TrySend
	// that looks at ctx first.
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
// more cannot help. The limiter is one whose permits are held as leases.
func (c *LimitedChannel[T]) dropFor(v T, n int, err error) error {
	for c.dropOne() {
		var h hold.Hold
		if h, err = c.limiter.Try(n); err == nil {
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

// sendDropping queues v in a drop mode whose items hold plain permits, dropping other items until its n
// permits are available. The limiter is asked for a counted rejection only once.
func (c *LimitedChannel[T]) sendDropping(v T, n int) error {
	var rejection error
	for {
		var a after[T]
		placed, err := c.tryDropping(v, n, &rejection, &a)
		c.finish(&a)
		if placed || err != nil {
			return err
		}
	}
}

// tryDropping tries to queue v, dropping at most one item. If it reports false and no error, it has dropped
// one, and there may be more to drop.
func (c *LimitedChannel[T]) tryDropping(v T, n int, rejection *error, a *after[T]) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open.Load() {
		return false, ErrClosed
	}
	h, taken := c.limiter.TryQuietly(n)
	if !taken && *rejection == nil {
		if h, *rejection = c.limiter.Try(n); *rejection != nil && !errors.Is(*rejection, core.ErrRejected) {
			return false, *rejection
		}
		taken = *rejection == nil
	}
	if !taken {
		c.dropLocked(a)
		if !a.dropped {
			return false, *rejection
		}
		h, taken = c.limiter.TryQuietly(n)
	}
	if !taken {
		return false, nil
	}
	if !c.placeLocked(v, c.holdOf(n), a) {
		c.limiter.Release(h)
		return false, nil
	}
	return true, nil
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
	var h hold.Hold
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
func (c *LimitedChannel[T]) placeLocked(v T, h hold.Hold, a *after[T]) bool {
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
func (c *LimitedChannel[T]) exceeds(n int) bool { return n > hold.Limit(c.limiter.Limiter) }
