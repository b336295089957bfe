package httplimit

import (
	"context"
	"fmt"
	"time"
)

// Result is how a policy's decision about a request came out.
type Result uint8

// The results.
const (
	Acquired        Result = iota // the request may proceed
	GlobalLimiter                 // the global policy refused it
	EndpointLimiter               // a named policy refused it
	RequestCanceled               // the client went while the request waited
	Failed                        // the limiter failed, whether the request was let pass or not
)

var resultNames = [...]string{"acquired", "global_limiter", "endpoint_limiter", "request_canceled", "failed"}

// String returns "acquired", "global_limiter", "endpoint_limiter", "request_canceled" or
// "failed", and "Result(n)" for anything else.
func (r Result) String() string {
	if int(r) < len(resultNames) {
		return resultNames[r]
	}
	return fmt.Sprintf("Result(%d)", uint8(r))
}

// Observer is told what happens to requests, on their goroutines, with no lock held. It
// must be safe for concurrent use, and quick. ctx is the request's. A panic of it is the
// request's, and costs no lease.
type Observer interface {
	// Queued tells that a request begins to wait for a policy's permits (+1), and that it
	// has ended to (-1). A limiter of your own counts as waiting once it asks for the Done
	// of the context that it is given.
	Queued(ctx context.Context, policy string, delta int)

	// Decided tells the outcome, once for each request and policy that it was asked of, and
	// how long the request waited for it.
	Decided(ctx context.Context, policy string, r Result, waited time.Duration)

	// Active tells that a lease was granted (+1), and that it was released (-1).
	Active(ctx context.Context, policy string, delta int)

	// Released tells how long a lease was held, when it was released.
	Released(ctx context.Context, policy string, held time.Duration)
}
