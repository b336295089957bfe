// Package clock turns the monotonic clock into instants that never decrease, also for an object
// that moves between bubbles of testing/synctest, whose time starts in the year 2000, and the
// world outside.
package clock

import "time"

// start is what the monotonic clock is read against.
var start = time.Now()

// leap is a step forward that no running program sees: only leaving a bubble takes so long.
const leap = int64(20 * 365 * 24 * time.Hour)

// Clock counts nanoseconds from its Start. The zero Clock counts from the start of the program,
// or the year 2000 in a bubble. It is not safe for concurrent use.
type Clock struct {
	base int64 // the instant 0, by the monotonic clock
	last int64 // the latest instant that At returned, or at which Wall read the clock on the wall
}

// Start makes this instant 0.
func (c *Clock) Start() { *c = Clock{base: Read()} }

// At returns the instant of a reading of the monotonic clock. It is never before the one that it
// returned last. If the clock went back, or leapt, At returns false, and the caller continues with
// [Clock.Jump]. The two are apart so that the compiler inlines At.
func (c *Clock) At(reading int64) (now int64, ok bool) {
	now = reading - c.base
	if uint64(now-c.last) < uint64(leap) {
		c.last = now
		return now, true
	}
	return 0, false
}

// Jump returns the instant of a reading of a clock that went back or leapt. If it went back, time
// continues from the latest instant. A leap counts as one full length plus the rest of the step
// modulo the length, so that everything that comes back within the length has come back, and a
// grid of that length stays where it is. Length is above 0.
func (c *Clock) Jump(reading, length int64) int64 {
	now := reading - c.base
	step := now - c.last
	switch {
	case now < c.last:
		step = 0
	case step >= leap && step > length:
		step = length + (step-length)%length
	}
	c.base += now - c.last - step
	c.last += step
	return c.last
}

// Wall returns the instant of a reading by the clock on the wall, whose instants go back if it is
// set back. Zero is its Unix time at instant 0, in nanoseconds.
//
// Reading that clock takes about as long as the rest of a rate limiter's decision, so it is read once
// a millisecond, and the monotonic clock counts on in between (bench: calendar).
func (c *Clock) Wall(reading, zero int64) int64 {
	if now := reading - c.base; uint64(now-c.last) < uint64(time.Millisecond) {
		return now
	}
	return c.look(zero)
}

func (c *Clock) look(zero int64) int64 {
	unix, reading := Both()
	c.last = unix - zero
	c.base = reading - c.last
	return c.last
}

// Monotonic continues by the monotonic clock alone after Wall has returned an instant, and returns the
// same instant, or 0 if that was below 0.
func (c *Clock) Monotonic(now int64) int64 {
	if now < 0 {
		c.base += now
		now = 0
	}
	c.last = now
	return now
}

// Zero returns the wall clock's time at instant 0.
func (c *Clock) Zero() time.Time {
	unix, reading := Both()
	return time.Unix(0, unix).Add(time.Duration(c.base - reading))
}

// Both reads both clocks. Tests, and nothing else, replace it to set the one on the wall.
var Both = func() (unix, reading int64) {
	t := time.Now()
	return t.UnixNano(), int64(t.Sub(start))
}

// Elapsed returns the nanoseconds since Start, which may be before the instant that At returned last.
// It does not change the clock and may be called by several goroutines at the same time, but not during a call
// of another method.
func (c *Clock) Elapsed() int64 { return Read() - c.base }

// Read reads the monotonic clock.
func Read() int64 { return int64(time.Since(start)) }
