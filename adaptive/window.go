package adaptive

import (
	"math"
	"time"
)

// window is a number of samples.
type window struct {
	n        int
	sum      float64 // of the durations, in nanoseconds
	sumSq    float64 // of their squares
	inFlight float64 // the sum
}

// with returns the window with one sample more.
func (w window) with(inFlight int, held time.Duration) window {
	d := float64(held)
	w.n++
	w.sum += d
	w.sumSq += d * d
	w.inFlight += float64(inFlight)
	return w
}

// mean returns the mean duration.
func (w *window) mean() float64 { return w.sum / float64(w.n) }

// level returns what was in flight, on average.
func (w *window) level() float64 { return w.inFlight / float64(w.n) }

// spread returns the standard error of the mean, as a share of it.
func (w *window) spread() float64 {
	m := w.mean()
	if m == 0 {
		return 0
	}
	return math.Sqrt(max(w.sumSq/float64(w.n)-m*m, 0)/float64(w.n)) / m
}

// differ reports whether the latencies of two windows can hardly be of one server under one
// load.
func differ(a, b window) bool {
	x, y := a.mean(), b.mean()
	d := math.Abs(x - y)
	return d > 0.2*min(x, y) && d > 4*math.Hypot(a.spread()*x, b.spread()*y)
}
