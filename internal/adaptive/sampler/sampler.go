// Package sampler turns the leases of an adaptive limiter into the windows that its algorithm
// sees, and keeps what the algorithm wants within bounds. The limiter and its simulation share it.
package sampler

import (
	"math"
	"time"
)

// Sample is an adaptive.Sample, and converts to it.
type Sample struct {
	N, Dropped   int
	Mean, StdErr time.Duration
	InFlight     float64
}

const (
	// A window has minSamples, or as many as permits are in flight if those are more: of the leases that are
	// in flight at one moment, the short ones end first. With fewer than about 10, the standard error of a window
	// shows little; with more, a limit of a few permits changes rarely.
	minSamples = 20

	// A change of the limit by more than largeChange changes the latency by much. Then the server has to
	// settle before samples count: for settling times as many leases as are in flight, and until as many
	// in a row as are in flight were granted after the change. A few leases that take very long delay that
	// up to longSettling times as many, and no longer.
	//
	// largeChange must be below 0.5, the change of a trial. A small value costs samples after each step; a large one
	// counts samples of the old limit for the new one. settling must be at least 1. With 1, the queue of the old limit
	// is measured at the new one; with 10, a trial costs twice as much. longSettling must be above settling.
	largeChange, settling, longSettling = 0.2, 5, 20
)

// Sampler collects the samples of a window. It is not safe for concurrent use. The zero value is for a
// new limiter: the first samples do not count, because the server is still filling.
type Sampler struct {
	changed time.Duration // when the limit last changed by much
	settled bool          // since then; before, the sums are of samples that do not count
	recent  int           // samples in a row that were granted after the change, while it is not settled

	n, inFlight, sum, squares float64
}

// Add adds a lease, and reports whether the window is complete. inFlight is the number of permits held at
// the release, the lease's own permits included.
func (s *Sampler) Add(inFlight int, granted, held time.Duration) bool {
	if end := granted + held; end < s.changed {
		s.changed = end // the clock went back: leases that are granted from now on come after the change
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
	return s.n >= minSamples && s.n*s.n >= s.inFlight // n is at least the mean in flight
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

// Take returns the samples so far as a window, and starts the next.
func (s *Sampler) Take(dropped int) Sample {
	w := Sample{Dropped: dropped}
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

// Restores returns the limit to which an algorithm returns that has lowered it for a trial, or 0.
func Restores(algorithm any) float64 {
	if r, ok := algorithm.(interface{ Restores() float64 }); ok {
		return r.Restores()
	}
	return 0
}

// Move returns the limit that follows limit, from least to most, if the algorithm wants want after the
// window w. NaN keeps the limit, and a fraction is rounded down. Each drop takes at least 1 off the
// limit. Unless half of the limit was in use, it does not grow, except up to restore: see [Restores].
func (s *Sampler) Move(limit, least, most int, want, restore float64, w Sample, at time.Duration) int {
	next := limit
	if !math.IsNaN(want) {
		next = within(want, least, most)
	}
	switch {
	case w.Dropped > 0:
		next = min(next, max(limit-w.Dropped, least))
	case w.InFlight < float64(limit)/2:
		next = min(next, max(limit, within(restore, least, most)))
	}
	next = min(max(next, least), most)
	if math.Abs(float64(next)-float64(limit)) > largeChange*float64(limit) {
		*s = Sampler{changed: at}
	}
	return next
}

// within returns limit as an int from least to most. It may be too large for an int.
func within(limit float64, least, most int) int {
	switch {
	case limit >= float64(most):
		return most
	case limit <= float64(least):
		return least
	}
	return int(limit)
}
