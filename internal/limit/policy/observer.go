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

// Observer is httplimit.Observer, with the results of this package.
type Observer = observerOf[Result]

// observerOf is an Observer whose results have the type of a package.
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
