package core

import (
	"fmt"
	"strconv"
)

// QueueOrder says who of those that wait is served first.
type QueueOrder uint8

const (
	// OldestFirst serves in the order of arrival. Nobody overtakes: while somebody waits, a
	// newcomer queues or is rejected, even if its permits are there. A full queue rejects
	// the newcomer.
	OldestFirst QueueOrder = iota

	// NewestFirst serves the latest arrival first; a newcomer that fits is served at once.
	// A full queue evicts its oldest waiters to make room.
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

// UnmarshalText implements [encoding.TextUnmarshaler]. It takes "oldest-first" and
// "newest-first"; anything else is an error and leaves o as it was.
func (o *QueueOrder) UnmarshalText(text []byte) error {
	for i, name := range orderNames {
		if string(text) == name {
			*o = QueueOrder(i)
			return nil
		}
	}
	return fmt.Errorf("core: queue order %q, want %q or %q", text, OldestFirst, NewestFirst)
}
