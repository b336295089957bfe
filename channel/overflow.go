package channel

import "fmt"

// Overflow is what a send does when the limiter or the capacity refuses the item.
type Overflow uint8

const (
	// Reject returns the refusal to the sender. Send waits first: in the limiter's queue,
	// as far as that goes, and for capacity.
	Reject Overflow = iota

	// DropOldest drops queued items, the oldest first, until the new one is granted. So it
	// never refuses what an empty channel would take, whatever receivers and other senders
	// do meanwhile: only permits that strangers hold, or the callers of ReceiveLease, can
	// make it refuse.
	//
	// It stops, and the new item is refused, at the first that frees nothing: with a rate
	// limiter, whose permits come back with time alone, a refusal costs one item. What a
	// limiter that is not core's frees shows in its Available, and in the Queued of its
	// Statistics. An item above the limit drops nothing.
	DropOldest

	// DropNewest is DropOldest, the newest first.
	DropNewest

	// DropIncoming drops the new item; the send returns nil. It asks once: a send may be
	// dropped though a receiver is about to give permits back.
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
