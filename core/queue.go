package core

import (
	"context"
	"fmt"
	"strconv"

	"github.com/sluice-go/sluice/internal/fair"
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

	// FairShare serves by the waiters' [Flow], which they get from [WithFlow]: those of the highest
	// priority first, always; among these each flow gets its share, by weight, and all of what
	// no other flow wants; within a flow in the order of arrival.
	//
	// Only waiting is shared: if permits are available and no request waits, a request is granted
	// at once, and no flow is charged. While one waits, Acquire queues and TryAcquire is rejected.
	// The request that is next waits until all its permits are available; smaller ones do not
	// overtake it, but one that becomes next before it does.
	//
	// While two flows of one priority both have waiters, the permits granted to them, divided by
	// their weights, never differ by more than the sum of each one's largest request divided by its
	// weight. A flow that was idle has saved nothing up. One that comes back
	// soon after more than its share still waits for the others to catch up. Permits are counted when they are granted: of a concurrency limiter, a flow that holds its permits
	// longer has more of them at a time. A grant that is given back stays charged.
	//
	// A full queue evicts, of the lowest priority, the newest request of the flow with the most
	// waiting permits per weight; if that is the new request's own flow, or all waiters have a higher
	// priority, the new request is rejected. [RetryAfter] and "deadline too soon" are by what is
	// certain, the permits that are missing and those that the own flow's waiters wait for: a retry
	// at that time may be rejected again.
	FairShare
)

var orderNames = [...]string{OldestFirst: "oldest-first", NewestFirst: "newest-first", FairShare: "fair-share"}

const orders = "oldest-first, newest-first or fair-share" // for errors

// String returns "oldest-first", "newest-first" or "fair-share".
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
	return nil, fmt.Errorf("core: QueueOrder = %d, want %s", uint8(o), orders)
}

// UnmarshalText implements [encoding.TextUnmarshaler]. It accepts what String returns for the three
// orders; any other text is an error and leaves o unchanged.
func (o *QueueOrder) UnmarshalText(text []byte) error {
	for i, name := range orderNames {
		if string(text) == name {
			*o = QueueOrder(i)
			return nil
		}
	}
	return fmt.Errorf("core: queue order %q, want %s", text, orders)
}

// Flow is on whose behalf a request waits: a tenant, an API key, a user. Limiters whose order is
// [FairShare] look at it. The zero Flow, that of a context without one, is one flow too.
type Flow struct {
	Key      string // requests of equal Key and Priority are one flow
	Weight   int    // its share compared with other flows; 0: 1; from 1 to 1<<20
	Priority int    // flows of a higher priority are served first, always; from -100 to 100
}

type flowKey struct{}

// WithFlow returns a copy of ctx whose requests wait as f. A Weight or Priority out of range is
// moved to the nearest value in range. Each request is charged by its own Weight.
//
// The Key must be one that clients cannot choose, such as an authenticated user: k keys are k
// shares, and a client that makes up a new key for each request takes all of them. The same holds
// for the Priority: a flow of a higher priority leaves the lower ones nothing as long as it wants
// all.
func WithFlow(ctx context.Context, f Flow) context.Context {
	return context.WithValue(ctx, flowKey{}, Flow(fair.Flow(f).InRange()))
}

// FlowFromContext returns the Flow of the latest [WithFlow], and whether there is one.
func FlowFromContext(ctx context.Context) (Flow, bool) {
	f, ok := ctx.Value(flowKey{}).(Flow)
	return f, ok
}
