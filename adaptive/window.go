package adaptive

import (
	"math"
	"time"
)

const (
	fewOld, mostOld = 0.04, 0.15 // shares of a window that are old: of no weight, and too much

	steady     = 0.7 // of the mean in flight, that the least is while demand goes on
	mostMended = 3.0 // times that a mean may be wrong by what is old
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

// What a window after a change tells is of the time before in part: what was under way then, and is
// old. What takes long is left over for long, above all by a server that shares itself among all
// that is in it, as processors do; to wait for the last of it could take for ever. By Little's
// law the mean is also what was in flight over the throughput, which has no such memory.

// little returns that mean over the one of the durations, if the window took so long.
func (w window) little(took time.Duration) float64 { return w.level() * float64(took) / w.sum }

// leftover is what is told of a window's samples for that. It is no part of the window, which the
// compiler keeps in registers.
type leftover struct {
	old   int // samples of requests that were under way before the change
	least int // in flight; 0: no sample yet
}

// isOld reports whether the mean is of what was before, either way.
func (l leftover) isOld(w window, took time.Duration) bool {
	return float64(l.old) > mostOld*float64(w.n) && plausible(w.little(took))
}

// mend returns the window with the mean by Little's law if some of it is old.
func (l leftover) mend(w window, took time.Duration) window {
	few := 0.0
	if w.level() < small {
		few = fewOld * float64(w.n) // such a window is long, for what is in flight
	}
	f := w.little(took)
	if float64(l.old) <= few || float64(l.least) < steady*w.level() || !plausible(f) {
		return w
	}
	w.sum *= f
	w.sumSq *= f * f
	return w
}

// plausible reports whether what is old explains that the means differ by such a factor. If not,
// the instants of the samples are of no use: they may have none.
func plausible(f float64) bool { return f < mostMended && f > 1/mostMended }

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
