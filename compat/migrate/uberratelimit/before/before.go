// Package before paces calls with go.uber.org/ratelimit.
package before

import "go.uber.org/ratelimit"

// NewLimiter returns a limiter of 100 calls a second.
func NewLimiter() ratelimit.Limiter {
	return ratelimit.New(100)
}

// NewEven returns a limiter of 100 calls a second, none closer than 10 ms to the last.
func NewEven() ratelimit.Limiter {
	return ratelimit.New(100, ratelimit.WithoutSlack)
}

// Wait waits until a call may start.
func Wait(l ratelimit.Limiter) {
	l.Take()
}
