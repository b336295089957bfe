package adaptive

import (
	"math"
	"time"
)

// Algorithm finds a limit. Those of this package are [Gradient], [Vegas] and [AIMD].
type Algorithm interface {
	// Next returns the limit that the sample calls for. Fractions are rounded down, and the
	// result is moved into Min..Max; NaN keeps the limit. After a drop the limit shrinks by
	// at least 1, whatever Next returns; while less than half of it is in use it does not
	// grow. The limiter makes one call at a time, in the order of the releases or nearly
	// so, holding no lock; samples that come meanwhile wait.
	//
	// It should return soon: a goroutine that releases calls it, and goes on doing so for the
	// samples of others until none waits. A panic goes to whoever releases, the first of
	// several, and the next sample is learned from as if nothing had been.
	Next(s Sample) (limit float64)
}

// Sample is what a lease tells at its end.
type Sample struct {
	Limit    int           // in force when the sample is learned from
	InFlight int           // permits out when the lease was released, its own included
	Duration time.Duration // for which the lease was held, at least 0
	Dropped  bool          // its work was dropped, or timed out
	At       time.Time     // when it was released
}

var nan = math.NaN()
