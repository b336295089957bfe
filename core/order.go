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
	// OldestFirst serves waiters in order of arrival. A request cannot overtake a waiter: while one
	// waits, a new request queues or is rejected, even if its permits are available. If the queue is
	// full, the new request is rejected.
	OldestFirst QueueOrder = iota

	// NewestFirst serves the latest arrival first. A new request whose permits are available is
	// granted immediately. If the queue is full, its oldest waiters are evicted to make room. Calls that always wait,
	// such as Semaphore.Acquire and a channel's Send, take no room in the queue and are never evicted.
	NewestFirst

	// FairShare serves waiters by their [Flow], which is set by [WithFlow]. Flows of higher priority
	// always go first. Flows of equal priority share the permits in proportion to their weights, and
	// what one flow does not use goes to the others. Within a flow, waiters are served in order of
	// arrival.
	//
	// If permits are available and no request waits, a request is granted immediately, and its flow is not charged.
	// While a request waits, Acquire queues and TryAcquire is rejected. The next request waits until all its permits
	// are available. A smaller request overtakes it only if the smaller request's flow has a higher priority or has
	// received less of its share so far.
	//
	// While two flows A and B of one priority both have waiters,
	//
	//	|a/weightA - b/weightB| <= maxA/weightA + maxB/weightB
	//
	// where a and b are the permits granted to them and maxA and maxB are their largest requests. A flow gets no
	// credit for time in which it was idle. If a flow that received more than its share stops and soon returns, it
	// still waits until the others have caught up. Permits are charged when they are granted, and a refund does not
	// change that. So under a concurrency limiter, the longer a flow holds its permits, the more of them it has at a
	// time.
	//
	// If the queue is full, the limiter picks, among the waiters of the lowest priority, the flow with the most
	// waiting permits relative to its weight, and evicts that flow's newest request. If the new request belongs to
	// that flow, or all waiters have a higher priority, the new request is rejected. [RetryAfter] and
	// [ReasonDeadlineTooSoon] take into account the missing permits and the waiters of the request's own flow, but not
	// those of other flows, so a retry at that time may be rejected again.
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

// Flow says on whose behalf a request waits: a tenant, an API key, a user. Limiters whose order is
// [FairShare] use it. All requests whose context has no Flow belong to the zero Flow.
type Flow struct {
	Key      string // requests of equal Key and Priority are one flow
	Weight   int    // share relative to other flows, from 1 to 1<<20; 0 means 1
	Priority int    // flows of higher priority always go first; from -100 to 100
}

type flowKey struct{}

// WithFlow returns a copy of ctx. Requests made with it wait in flow f. A Weight or Priority out of range is clamped.
// Each request is charged according to the Weight that it was made with.
//
// Use a Key that clients cannot choose, such as an authenticated user. Every key gets its own share,
// so a client that makes up a new key for each request would take everything. The same goes for
// Priority: a flow that always has requests waiting starves all flows of lower priority.
func WithFlow(ctx context.Context, f Flow) context.Context {
	return context.WithValue(ctx, flowKey{}, Flow(fair.Flow(f).InRange()))
}

// FlowFromContext returns the Flow that the latest [WithFlow] has put into ctx, and whether there is
// one.
func FlowFromContext(ctx context.Context) (Flow, bool) {
	f, ok := ctx.Value(flowKey{}).(Flow)
	return f, ok
}
