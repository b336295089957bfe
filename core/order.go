package core

import (
	"fmt"
	"strconv"
)

// QueueOrder is the order in which waiters are served.
type QueueOrder uint8

const (
	// OldestFirst serves in the order of arrival. A request cannot overtake a waiter: while one
	// waits, a new request queues or is rejected, even if its permits are available. A full
	// queue rejects the new request.
	OldestFirst QueueOrder = iota

	// NewestFirst serves the latest arrival first; a new request whose permits are available is
	// served at once. A full queue evicts its oldest waiters to make room.
	NewestFirst
)

var orderNames = [...]string{OldestFirst: "oldest-first", NewestFirst: "newest-first"}

// String returns "oldest-first" or "newest-first".
func (o QueueOrder) String() string {
	if int(o) < len(orderNames) {
		return orderNames[o]
	}
	return "QueueOrder(" + strconv.Itoa(int(o)) + ")"
}

// MarshalText implements [encoding.TextMarshaler]. An unknown order is an error.
func (o QueueOrder) MarshalText() ([]byte, error) {
	if int(o) < len(orderNames) {
		return []byte(orderNames[o]), nil
	}
	return nil, fmt.Errorf("core: QueueOrder = %d, want %s or %s", uint8(o), OldestFirst, NewestFirst)
}

// UnmarshalText implements [encoding.TextUnmarshaler]. It accepts "oldest-first" and
// "newest-first"; any other text is an error and leaves o unchanged.
func (o *QueueOrder) UnmarshalText(text []byte) error {
	for i, name := range orderNames {
		if string(text) == name {
			*o = QueueOrder(i)
			return nil
		}
	}
	return fmt.Errorf("core: queue order %q, want %q or %q", text, OldestFirst, NewestFirst)
}
