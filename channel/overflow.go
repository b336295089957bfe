package channel

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/hold"
)

// Overflow selects what a send does when the limiter or the capacity rejects the item.
type Overflow uint8

const (
	// Wait drops nothing and is the zero value: Send waits for room and then for permits, and TrySend is
	// rejected.
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
	// If the limiter is [core.Blocked] or [core.Paused], for example in a [core.Switch], a send drops nothing and
	// returns the rejection.
	//
	// Dropping an item does not bring back the permits of a rate limiter. If the rejection has a
	// RetryAfter, or the limiter is replenished by hand, the send therefore drops at most one item and
	// returns the rejection.
	DropOldest

	// DropNewest is like DropOldest but drops the newest item first.
	DropNewest

	// DropIncoming drops the new item, and the send returns nil. The limiter is called only once, so the
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

// displace queues an item, and drops other items as long as that is necessary: first for its permits, then for room.
// Plain permits are taken, and dropped items give theirs back, under one lock, so that no other sender comes
// between.
func (c *LimitedChannel[T]) displace(v *T, n int) error {
	c.mu.Lock()
	defer c.unlock()
	if !c.open.Load() {
		return ErrClosed
	}
	if !c.payLocked(n) {
		// Once, and before anything is dropped: the limiter counts the rejection and gives its reason.
		_, err := c.limiter.Try(n)
		for errors.Is(err, core.ErrRejected) && c.dropLocked() {
			if c.payLocked(n) {
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	for !c.roomLocked() && c.dropLocked() { // no send of a drop mode reserves room, so there is some in the end
	}
	c.putLocked(v, c.holdOf(n))
	return nil
}

// dropLocked drops the oldest or the newest item, which holds plain permits, as Overflow says. It returns false if there
// is none.
func (c *LimitedChannel[T]) dropLocked() bool {
	var v T
	h, ok := c.removeLocked(&v, c.overflow == DropNewest)
	if !ok {
		return false
	}
	c.passLocked(h, false)
	c.dropLaterLocked(&v)
	c.leftLocked()
	return true
}

// displaceLeases is displace with a limiter whose permits are held as leases. It is asked without the mutex.
func (c *LimitedChannel[T]) displaceLeases(v *T, n int) error {
	h, err := c.limiter.Try(n)
	for helps := true; helps && errors.Is(err, core.ErrRejected) && c.canGrant(n) && c.dropOne(); {
		h, err = c.limiter.Try(n)
		helps = !c.onlyTimeHelps(err)
	}
	if err != nil {
		return err
	}
	put := false
	defer func() { // deferred, because OnDrop may panic
		if !put {
			c.limiter.Refund(h)
		}
	}()
	for {
		c.mu.Lock()
		open := c.open.Load()
		if put = open && c.roomLocked(); put {
			c.putLocked(v, h)
		}
		c.unlock()
		switch {
		case put:
			return nil
		case !open:
			return ErrClosed
		}
		c.dropOne()
	}
}

// canGrant reports whether the limiter may grant n permits once others return theirs. The limit of [core.Blocked] and
// [core.Paused], which grant nothing, is 0.
func (c *LimitedChannel[T]) canGrant(n int) bool {
	r, ok := core.As[core.Reporter](c.limiter.Limiter)
	return !ok || max(n, 1) <= r.Statistics().Limit
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

// dropOne drops the oldest or the newest item, whose lease is released before OnDrop is told. It returns false if there
// is none, or if the channel is closed: then the remaining items are for the receivers.
func (c *LimitedChannel[T]) dropOne() bool {
	var v T
	var h hold.Hold
	c.mu.Lock()
	ok := c.open.Load()
	if ok {
		h, ok = c.removeLocked(&v, c.overflow == DropNewest)
	}
	if ok {
		c.leftLocked()
	}
	c.unlock()
	if ok {
		defer c.drop(v) // deferred, because the release may panic
		h.Lease.Release()
	}
	return ok
}
