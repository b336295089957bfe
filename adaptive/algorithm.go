package adaptive

import "time"

// Algorithm finds a limit. The algorithms of this package are [Gradient] and [AIMD].
//
// An Algorithm may have two more methods, and these have both:
//
//   - New() Algorithm: [New] calls it, and the limiter uses the result. So one value in Options can serve
//     any number of limiters. A type that embeds an algorithm of this package must have its own New.
//   - Explain() (reason string, baseline time.Duration): the limiter calls it after Next, for the [Change]
//     that it passes to OnChange. reason is a word or two for the result of Next, and baseline is the
//     latency without load that the algorithm assumes, or 0.
type Algorithm interface {
	// Next returns the new limit after a sample. Fractions are rounded down, and the result is
	// clamped to Min..Max. NaN keeps the limit. Each drop reduces the limit by at least 1, whatever
	// Next returns, and the limit does not grow while less than half of it is used.
	//
	// The limiter makes one call at a time and holds no lock. Next runs on a goroutine that releases
	// a lease. Successes that are released in the meantime are lost; drops count in the next sample.
	// A panic goes to the caller of Release or Drop, and the limiter continues to work.
	Next(limit int, w Sample) float64
}

// The reasons of the algorithms of this package; see [Change].
const (
	reasonGrowing    = "growing"
	reasonAdjusting  = "adjusting"
	reasonOverloaded = "overloaded"
	reasonTrial      = "trial"
	reasonTrialOver  = "trial over"
	reasonQueueing   = "queueing"
	reasonDropped    = "dropped"
	reasonUnknown    = "algorithm" // reason unknown of an algorithm without Explain
)

// Sample is a measurement of consecutive leases. It has at least 20 of them, or as many as there are
// permits in flight if that is more. A drop ends it immediately. Leases that were in flight when the
// limit last changed by more than 20% do not count, nor do leases that ended before the server had
// settled. Drops always count.
type Sample struct {
	N        int           // number of successes; if it is 0, Mean, StdErr and InFlight are 0 too
	Dropped  int           // number of leases whose work was dropped or took longer than the AIMD's Timeout
	Mean     time.Duration // mean time for which the successes were held
	StdErr   time.Duration // standard error of Mean, as if the successes were independent
	InFlight float64       // mean number of permits held at the release of a success, including its own
}
