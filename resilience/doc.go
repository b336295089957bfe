// Package resilience runs functions under a limiter: it takes a permit, runs the function, and
// releases the permit, however the function ends.
//
//	s, err := resilience.Concurrency(10, 100) // 10 at a time, 100 may wait
//	...
//	err = s.Do(ctx, func(ctx context.Context) error { return query(ctx) })
//
// It is the rate limiter strategy of Polly, with functions that take a context, and errors that
// errors.Is and errors.As find.
//
// [Limit] returns a [Strategy] for a limiter, [Keyed] one with a limiter per key, and [New] one with
// [Options]. [Strategy.Do] runs a function that returns an error, [Execute] one that also returns
// a value. Options.Settle corrects the cost of a function once it is known.
//
// A rejection is a [*RejectedError], which matches [core.ErrRejected]. It reports which strategy
// rejected and when to try again. Options.OnRejected is called for each; package telemetry counts
// them.
//
// For retries, circuit breakers, timeouts and hedges, the module resilience/failsafe makes a
// strategy a policy of failsafe-go.
package resilience
