package adaptive

import "cmp"

// Gradient moves the limit by the gradient of the latency: by how much longer a request
// takes at the limit than it takes without load. With a server that C requests saturate it
// settles a little above C, so that the server is never idle. It is a configuration; New
// makes the algorithm.
//
// It follows gradient2 of Netflix' concurrency-limits: the limit is multiplied by Tolerance
// times the latency without load over the latency now, at most 1; a share of it is added as room
// for a queue; the result is smoothed. In gradient2 the latency without load is an average of
// the latest samples. While demand is far above the limit all samples are loaded ones, so the
// average follows them, and the limit runs away to its maximum. Here it is measured in trials, with
// the limit halved, and means of many samples are compared, not single samples. While nothing
// queues the limit grows faster and faster.
type Gradient struct {
	// Tolerance is the factor by which the latency may grow with load before the limit shrinks,
	// at least 1. 0: 1.03.
	Tolerance float64

	// Smoothing is the weight of a new limit against the present one, above 0 to 1. 0: 0.4.
	Smoothing float64

	// LongWindow is the number of samples, all of trials, that the latency without load is the mean
	// of at most, at least 0. 0: 10,000.
	LongWindow int
}

const (
	defaultTolerance = 1.03
	defaultSmoothing = 0.4

	room, leastRoom = 0.06, 2 // for a queue: a share of the limit, but two permits at least
)

func (g Gradient) validate() error {
	f := faults{options: "Gradient"}
	f.must(g.Tolerance == 0 || g.Tolerance >= 1, "Tolerance", g.Tolerance, "at least 1")
	f.must(g.Smoothing >= 0 && g.Smoothing <= 1, "Smoothing", g.Smoothing, "from 0 to 1")
	f.must(g.LongWindow >= 0, "LongWindow", g.LongWindow, "at least 0")
	return f.err()
}

// New returns an algorithm with these settings.
func (g Gradient) New() Algorithm {
	return &finder{
		tolerance: cmp.Or(g.Tolerance, defaultTolerance),
		smoothing: cmp.Or(g.Smoothing, defaultSmoothing),
		window:    float64(cmp.Or(g.LongWindow, longWindow)),
	}
}

// Next is the first step of a new algorithm with these settings.
func (g Gradient) Next(limit int, w Window) float64 { return g.New().Next(limit, w) }
