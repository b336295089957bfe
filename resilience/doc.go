// Package resilience runs functions under a limiter: it takes a permit, runs the function, and
// releases the permit, however the function ends.
//
//	s, err := resilience.Concurrency(10, 100) // 10 at once, 100 may wait
//	...
//	err = s.Do(ctx, func(ctx context.Context) error { return query(ctx) })
//
// It is the rate limiter strategy that users of Polly know, with functions that take a context
// and errors that errors.Is and errors.As find.
//
// A [Strategy] has the limiter. [New] returns one that runs 1,000 functions at once and lets none
// wait, or has the limiter and the callbacks of its [Options]. [Concurrency] takes both numbers, [Limit]
// takes a limiter, and [Keyed] takes one with a limiter per key. [Strategy.Do] runs a function that returns an
// error, [Execute] one that also returns a value. [Options].Settle corrects the cost of a function
// once it is known. [Pipeline] puts one strategy around another.
//
// A rejection is a [*RejectedError], which matches [core.ErrRejected], and says which strategy
// rejected and when to try again. To count rejections, use [Options].OnEvent.
//
// For retries, circuit breakers, timeouts and hedges, the module resilience/failsafe makes a
// strategy a policy of failsafe-go, which has all of them.
//
// # Inside
//
// Do, Execute and pipelines run a function in one place: admit, call, settle, release. A strategy of Keyed
// differs from the others only in that it finds the limiter anew for each call.
package resilience
