package adaptive

import "time"

// Algorithm finds a limit. Those of this package are [Gradient] and [AIMD].
//
// An Algorithm may also have a method Explain() (reason string, baseline time.Duration), as these have. The
// limiter calls it after Next, for the [Change] that it passes to OnChange: reason says in a word or two why
// Next returned what it did, and baseline is the latency without load that it assumes, 0 if it assumes none.
type Algorithm interface {
	// Next returns the limit to be in force after a window. Fractions are rounded down, and the
	// result is moved into Min..Max; NaN keeps the limit. Each drop takes at least 1 off the
	// limit, whatever Next returns; the limit does not grow while less than half of it is used.
	//
	// The limiter makes one call at a time and holds no lock. Next runs on a goroutine that
	// releases a lease. Successes that are released in the meantime are lost, drops are in the next
	// window. A panic goes to the caller of Release or Drop; the limiter goes on.
	Next(limit int, w Window) float64
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
	reasonUnknown    = "algorithm" // of an algorithm that gives none
)

// Window is what was measured of some leases, which ended one after the other. It has at least
// 20 of them, or as many as permits are in flight if those are more. A drop ends it at once.
// Leases that were under way when the limit last changed by more than a fifth do not count, nor
// do leases that ended before the server had settled; drops always count.
type Window struct {
	N        int           // successes; 0: the following three are 0, too
	Dropped  int           // leases whose work was dropped or took longer than the AIMD's Timeout
	Mean     time.Duration // for which the successes were held
	StdErr   time.Duration // standard error of Mean, as if they were independent of each other
	InFlight float64       // mean number of permits held at a success' release, its own included
}
