// Package bound has the rule by which an adaptive limiter moves its limit: what an algorithm
// wants is put within bounds. The limiter and its simulation share it.
package bound

import "math"

// Next returns the limit that follows limit, from least to most, when an algorithm wants
// another after a sample.
//
// NaN wants the same limit, a fraction is rounded down. After a drop the limit is at least
// 1 less. It does not grow while less than half of it is in flight: then nothing is known of
// a larger one.
func Next(limit, least, most, inFlight int, dropped bool, want float64) int {
	next := limit
	switch {
	case math.IsNaN(want):
	case want >= float64(most): // before it is converted: it may be too large for that
		next = most
	case want <= float64(least):
		next = least
	default:
		next = int(math.Floor(want))
	}
	switch {
	case dropped:
		next = min(next, limit-1)
	case inFlight < limit-inFlight:
		next = min(next, limit)
	}
	return min(max(next, least), most)
}
