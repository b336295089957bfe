package core

import "math"

// account is what a limiter adds to the engine: who owes what, and when it comes back.
// It is plain arithmetic in integers; the engine's mutex guards it. Instants are
// nanoseconds since the engine's base and do not decrease from call to call.
type account interface {
	// bind puts terms in force, the first or new ones: what is taken stays taken.
	bind(now int64, t *terms)

	// advance applies what is due by now and reports whether permits came back.
	advance(now int64) bool

	// available returns the permits that can be taken, never below 0.
	available() int

	// take takes n permits, at most those available. served: for somebody who waited.
	take(now int64, n int, served bool)

	// give undoes the taking of n permits at the instant at.
	give(now, at int64, n int)

	// ready returns the first instant, now or later, at which n permits can be taken if
	// nothing else is taken; n is at most the limit.
	ready(now int64, n int) int64

	// whole returns the instant by which all permits are back if nothing more is taken.
	whole(now int64) int64

	// since returns the instant from which all permits have been available, if they are.
	since(now int64) (at int64, idle bool)

	// kept reports whether taking at now what could be taken at due leaves the same future.
	// It is asked after advance(now).
	kept(due, now int64) bool

	// origin returns the instant from which a cell opened now is to count, and whether c
	// can serve as it is.
	origin(now int64, c *cell) (from int64, ok bool)

	// open returns the state that c's word is to have, for grants without the mutex, and,
	// if that is a credit, the instant before which it may be taken; false: there is none.
	// settle takes it back, before anything else is asked.
	open(now int64, c *cell) (state uint64, until int64, ok bool)
	settle(now int64, c *cell, state uint64)

	// clone returns an account of the same state, to play the future on.
	clone() account
}

// never is an instant that does not come: later than 292 years after the limiter's
// creation.
const never = math.MaxInt64

// after returns t + d, or never; d is at least 0.
func after(t, d int64) int64 {
	if s := t + d; s >= t {
		return s
	}
	return never
}
