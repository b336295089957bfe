// Package sampler turns the leases of an adaptive limiter into the windows that its algorithm
// sees, and keeps what the algorithm wants within bounds. The limiter and its simulation share it.
package sampler

import (
	"math"
	"time"
)

// Window is an adaptive.Window, and converts to it.
type Window struct {
	N, Dropped   int
	Mean, StdErr time.Duration
	InFlight     float64
}

const (
	// A window has 20 samples, or as many as permits are in flight if those are more: what is
	// under way at one moment ends in the order of length, the short ones first.
	leastSamples = 20

	// A change of the limit by more than a fifth changes the latency by much. Then no sample
	// counts until five times as many leases as are in flight have ended and none of so many
	// in a row is from before; but for the sake of a few that take very long nobody waits more than
	// four times as long.
	largeChange, settling, longSettling = 0.2, 5, 20
)

// Sampler collects the samples of a window. It is not safe for concurrent use. Use its zero
// value for a limiter that begins: the first samples, of a server that fills, do not count.
type Sampler struct {
	changed time.Duration // when the limit last changed by much
	settled bool          // since then; until then the sums are of what does not count
	recent  int           // samples in a row that were granted since, while it is not settled

	n, inFlight, sum, squares float64
}

// Add adds a lease, and reports whether the window is complete. inFlight is what was held at
// the release, the lease's own permits included.
func (s *Sampler) Add(inFlight int, granted, held time.Duration) bool {
	if end := granted + held; end < s.changed {
		s.changed = end // the clock went back: what is granted from now on is of after the change
	}
	old := granted < s.changed
	if !s.settled {
		s.settle(inFlight, old)
		return false
	}
	if old {
		return false
	}
	d := float64(held)
	s.n++
	s.inFlight += float64(inFlight)
	s.sum += d
	s.squares += d * d
	return s.n >= leastSamples && s.n*s.n >= s.inFlight // n is at least the mean in flight
}

// settle takes note of a sample that does not count.
func (s *Sampler) settle(inFlight int, old bool) {
	s.n++
	s.inFlight += float64(inFlight)
	s.recent++
	if old {
		s.recent = 0
	}
	mean := s.inFlight / s.n
	if s.n >= settling*mean && float64(s.recent) >= mean || s.n >= longSettling*mean {
		*s = Sampler{changed: s.changed, settled: true}
	}
}

// Take returns the samples so far as a window, and begins the next.
func (s *Sampler) Take(dropped int) Window {
	w := Window{Dropped: dropped}
	if !s.settled || s.n == 0 {
		return w
	}
	mean := s.sum / s.n
	w.N = int(s.n)
	w.Mean = time.Duration(mean)
	w.StdErr = time.Duration(math.Sqrt(max(s.squares/s.n-mean*mean, 0) / s.n))
	w.InFlight = s.inFlight / s.n
	*s = Sampler{changed: s.changed, settled: true}
	return w
}

// Move returns the limit that follows limit, from least to most, after a window at which the
// algorithm wants another. NaN wants the same limit; a fraction is rounded down. Each drop takes
// at least 1 off the limit, and it does not grow unless half of it was in use.
func (s *Sampler) Move(limit, least, most int, want float64, w Window, at time.Duration) int {
	next := limit
	switch {
	case math.IsNaN(want):
	case want >= float64(most): // before it is converted: it may be too large for that
		next = most
	case want <= float64(least):
		next = least
	default:
		next = int(want)
	}
	switch {
	case w.Dropped > 0:
		next = min(next, max(limit-w.Dropped, least))
	case w.InFlight < float64(limit)/2:
		next = min(next, limit)
	}
	next = min(max(next, least), most)
	if math.Abs(float64(next)-float64(limit)) > largeChange*float64(limit) {
		*s = Sampler{changed: at}
	}
	return next
}
