package channel

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/invalid"
)

// Options configure a [LimitedChannel].
type Options[T any] struct {
	// Limiter grants each item its permits before the item is queued. It is required; use
	// [core.Unlimited] for no limit. Several channels may share a limiter. If the limiter is closed,
	// sends return its error, such as [core.ErrClosed]; the channel itself stays open.
	Limiter core.Limiter

	// Cost returns the number of permits that an item costs, such as its size in bytes. Nil means 1 per item. It is
	// called once per send, with no lock held. If it returns a number below 0, the send fails with
	// [core.ErrNegativePermits]. If it returns more than the limiter's limit, the send fails with
	// [core.ErrPermitsExceedLimit]; return the limit to let a larger item pass. An item of 0 permits holds none, but
	// is queued only when at least one permit is available.
	Cost func(T) int

	// Capacity is the maximum number of queued items, in addition to the limiter's bound. Zero means no maximum. A
	// Send waits for room first, and then for permits. It holds no permits while it waits for room, so a full channel
	// takes nothing from its limiter. It keeps its room while it waits for permits. The item that a Chan is offering
	// does not count; when the Chan returns it to the queue, the queue may exceed Capacity.
	Capacity int

	// Overflow selects what a send does when the limiter or Capacity rejects the item. The zero value
	// is [Wait].
	Overflow Overflow

	// OnDrop is called with each item that is dropped by an Overflow mode or by Discard. It may be nil.
	// The item's lease has been released and no lock is held, so OnDrop may use the channel. If OnDrop
	// panics for one item, it is still called for the others.
	//
	// OnDrop runs on the goroutine of a send or of Discard. If OnDrop itself drops items, for example by sending to
	// the channel, it is called for them after it has returned, or earlier if more than 1,024 of them wait for it. If
	// several goroutines drop items at once, one of them may call OnDrop for the items of the others. If OnDrop is
	// slow, the others help, so several calls of OnDrop may run at the same time. If OnDrop sends every dropped item
	// back to the same channel, the send or Discard that dropped the first item never returns.
	OnDrop func(T)
}

func (o *Options[T]) validate() error {
	wrong := invalid.Fields{Prefix: "channel: Options."}
	if backdoor.IsNil(o.Limiter) {
		wrong.Add("Limiter", "nil", "a limiter (core.Unlimited() for none)")
	}
	if o.Capacity < 0 {
		wrong.Add("Capacity", o.Capacity, "at least 0")
	}
	if int(o.Overflow) >= len(overflowNames) {
		wrong.Add("Overflow", uint8(o.Overflow), "Wait, DropOldest, DropNewest or DropIncoming")
	}
	return wrong.Err()
}
