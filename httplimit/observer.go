package httplimit

import "github.com/sluice-go/sluice/internal/policy"

// Result is the outcome of a policy's decision about a request: [Acquired] and so on. Its String is
// "acquired", "global_limiter", "endpoint_limiter", "request_canceled", "failed" or "shadowed".
type Result = policy.Result

// The results.
const (
	Acquired        = policy.Acquired        // the request may proceed
	GlobalLimiter   = policy.GlobalLimiter   // the global policy rejected it
	EndpointLimiter = policy.EndpointLimiter // a named policy rejected it
	RequestCanceled = policy.RequestCanceled // the client left while the request waited
	Failed          = policy.Failed          // the limiter failed, whether the request passed or not
	Shadowed        = policy.Shadowed        // a policy in shadow would have rejected it
)

// Observer is notified of what happens to requests, on their goroutines, with no lock held. It
// must be safe for concurrent use, and quick. ctx is the request's. If a method panics, the
// request does, but no lease is lost.
//
//   - Queued(ctx, policy, delta int) is called when a request begins to wait for a policy's permits
//     (+1), and when its wait has ended (-1). A request waits if it may, by MaxWait, and its permits
//     were not granted at once; so does one for which the limiter's queue then has no room.
//   - Decided(ctx, policy, r Result, waited time.Duration) is called once for each request and policy,
//     with the outcome and how long the request waited for it.
//   - Active(ctx, policy, delta int) is called when a lease was granted (+1), and when it was released
//     (-1).
//   - Released(ctx, policy, held time.Duration) is called when a lease was released, with how long it
//     was held.
type Observer = policy.Observer
