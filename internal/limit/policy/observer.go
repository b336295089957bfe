package policy

import (
	"context"
	"fmt"
	"time"
)

// Result is the outcome of a policy's decision about a request.
type Result uint8

// The results.
const (
	Acquired         Result = iota // the request may proceed
	RejectedByGlobal               // the global policy rejected it
	RejectedByPolicy               // a named policy rejected it
	RequestCanceled                // the client disconnected while the request waited
	Failed                         // the limiter failed, whether the request passed or not
	Shadowed                       // a policy in shadow would have rejected it
)

var resultNames = [...]string{"acquired", "global_limiter", "endpoint_limiter", "request_canceled", "failed", "shadowed"}

// String returns "acquired", "global_limiter", "endpoint_limiter", "request_canceled", "failed" or
// "shadowed", and "Result(n)" for any other value.
func (r Result) String() string {
	if int(r) < len(resultNames) {
		return resultNames[r]
	}
	return fmt.Sprintf("Result(%d)", uint8(r))
}

// Observer is notified of what happens to requests, on their goroutines, with no lock held. It
// must be safe for concurrent use, and fast. ctx is the request's. If a method panics, the
// request panics, but no lease is lost.
type Observer interface {
	// Queued is called when a request starts to wait for a policy's permits (+1), and when its wait has
	// ended (-1). A request counts as waiting if MaxWait allows a wait and its permits were not
	// available immediately, even if the limiter's queue then rejects it.
	Queued(ctx context.Context, policy string, delta int)

	// Decided is called once per request and policy, with the outcome and how long the request
	// waited for it.
	Decided(ctx context.Context, policy string, r Result, waited time.Duration)

	// Active is called when a lease was granted (+1), and when it was released (-1).
	Active(ctx context.Context, policy string, delta int)

	// Released is called when a lease was released, with how long it was held.
	Released(ctx context.Context, policy string, held time.Duration)
}

// observerOf is an Observer whose results have the type of another package.
type observerOf[Res ~uint8] interface {
	Queued(ctx context.Context, policy string, delta int)
	Decided(ctx context.Context, policy string, r Res, waited time.Duration)
	Active(ctx context.Context, policy string, delta int)
	Released(ctx context.Context, policy string, held time.Duration)
}

// ObserverOf returns o as an Observer, or nil if o is nil.
func ObserverOf[Res ~uint8](o observerOf[Res]) Observer {
	if o == nil {
		return nil
	}
	return converting[Res]{o}
}

type converting[Res ~uint8] struct{ observerOf[Res] }

func (c converting[Res]) Decided(ctx context.Context, policy string, r Result, waited time.Duration) {
	c.observerOf.Decided(ctx, policy, Res(r), waited)
}
