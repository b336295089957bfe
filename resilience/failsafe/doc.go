// Package failsafe makes a strategy of package resilience a policy of failsafe-go, so that
// it composes with that library's retries, circuit breakers, timeouts, hedges and fallbacks.
//
//	import sluice "github.com/sluice-go/sluice/resilience/failsafe"
//
//	s, err := resilience.Concurrency(10, 100)
//	executor := failsafe.With(retry, sluice.Policy[string](s), breaker)
//	page, err := executor.Get(fetch)
//
// The first policy is the outermost. A retry policy outside the strategy sees a rejection, a
// *[resilience.RejectedError], and tries again; with WithDelayFunc and [RetryAfter] it first
// waits for as long as the limiter asks. Each attempt takes a permit of its own, and none is
// held between attempts. A retry policy inside the strategy runs all attempts under one permit.
// A circuit breaker inside the strategy sees no rejections, because they are not the fault of
// the work that it protects; outside, it counts them as failures.
//
// # For users of Polly
//
// What the options of Polly's rate limiter strategy are here, in package resilience unless
// another is named:
//
//	Polly                                                  here
//	RateLimiterStrategyOptions.Name                        Options.Name
//	    "RateLimiter" if it is not set                     the same
//	RateLimiterStrategyOptions.RateLimiter                 Options.Limiter
//	    func of the arguments that returns a lease         a core.Limiter, which is given the context
//	RateLimiterStrategyOptions.DefaultRateLimiterOptions   Options.Default
//	    PermitLimit = 1000, QueueLimit = 0                 the same
//	RateLimiterStrategyOptions.OnRejected                  Options.OnRejected
//	OnRateLimiterRejectedArguments.Context, .Lease         OnRejected's ctx, RejectedError.Lease
//	AddRateLimiter(options)                                New(Options)
//	AddRateLimiter(limiter)                                Limit(limiter); the limiter stays the caller's
//	AddConcurrencyLimiter(permits, queue)                  Concurrency(permits, queue)
//	PartitionedRateLimiter in RateLimiter                  Keyed, with a partition.Limiter
//	RateLimiterRejectedException                           *RejectedError; errors.Is(err, core.ErrRejected)
//	    .RetryAfter, null if it is not known               RejectedError.RetryAfter, 0 if it is not known
//	    .TelemetrySource                                   RejectedError.Strategy
//	event "OnRateLimiterRejected" in telemetry             telemetry.Resilience as OnRejected, Options.Logger
//	ResilienceContext.OperationKey, pipeline names         none: use the context, and failsafe.With
//	EnableReloads, dynamic options                         Strategy.Update
//	OnPipelineDisposed                                     Strategy.Close
//	execution through pipeline.ExecuteAsync                Strategy.Do, Execute
//	retry, circuit breaker, timeout, hedging, fallback     failsafe-go's, by way of this package
package failsafe
