// Package resilience runs functions under a limiter: it asks for a permit, runs the
// function, and gives the permit back, whatever becomes of the function. It is the rate
// limiter strategy that users of Polly know, in Go: functions that take a context, and
// errors that errors.Is and errors.As find.
//
// A [Strategy] holds the limiter. [New] makes one that admits 1,000 functions at once and
// lets none wait; [Concurrency] takes the two numbers, [Limit] a limiter that the caller
// has, [Keyed] one that keeps a limiter per key, and [Options].Limiter chooses per call.
// [Strategy.Do] runs a function that returns an error, [Execute] one that returns a value
// too. [Pipeline] puts one strategy around another.
//
// A refusal is a [*RejectedError]. It says who refused and when to try again, and it is
// [core.ErrRejected]. To count refusals, take the [Event] of each.
//
// A retry, a circuit breaker, a timeout or a hedge is not in here. The module
// resilience/failsafe makes a strategy a policy of failsafe-go, which has all of them.
package resilience
