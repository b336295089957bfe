package adaptive

import (
	"cmp"
	"time"
)

// Gradient moves the limit by the gradient of the latency: by how much longer a request takes at the
// limit than without load. If C requests saturate a server, the limit settles a little above C, so that
// the server is never idle. A Gradient value is a configuration; New creates the algorithm.
//
// It follows gradient2 of Netflix's concurrency-limits: the limit is multiplied by Tolerance times the
// latency without load divided by the current latency, at most 1. A share of it is added as room for a
// queue, and the result is smoothed. In gradient2 the latency without load is an average of the latest
// samples. While demand is far above the limit, all samples are taken under load, so the average follows
// them, and the limit runs away to its maximum. Gradient measures this latency in trials, with half of
// the limit, and compares means of many samples instead of single samples. While no requests queue, the
// limit grows faster and faster.
type Gradient struct {
	// Tolerance is the factor by which the latency may grow under load before the limit shrinks. It
	// must be at least 1. 0 means 1.03.
	Tolerance float64

	// Smoothing is the weight of a new limit against the current one, above 0 and at most 1. 0
	// means 0.4.
	Smoothing float64

	// LongWindow is the maximum number of samples of trials in the latency without load, which is
	// their mean. It must be at least 0. 0 means 10,000.
	LongWindow int
}

const (
	// Gradient.Tolerance sets the tolerance. At 1, noise alone shrinks the limit; at 1.2, requests that queue for a
	// fifth of the service time do not.
	defaultTolerance = 1.03

	// Gradient.Smoothing sets the smoothing. Near 0 the limit follows the server slowly; at 1 each measure decides
	// alone, so its error is that of the limit.
	defaultSmoothing = 0.4

	// The limit has room for a queue: queueShare of it, but at least minQueue permits. Without that room the limit
	// could not grow once the latency is that of the baseline. A limit that fits has a latency of
	// Tolerance/(1-queueShare) times the baseline, which is 1.1, and must be below overloaded. With a queueShare of
	// 0.045, the limit stays below the capacity (TestFindsTheCapacity). With 0.08, it exceeds the capacity by too much,
	// also after a step of the service time (TestAStepOfTheServiceTimeIsNoLoad). minQueue is at least 1; with 4, a
	// server that serves 4 requests at a time has as many in its queue.
	queueShare, minQueue = 0.06, 2
)

func (g Gradient) validate() error {
	e := errorsOf("Gradient")
	e.must(g.Tolerance == 0 || g.Tolerance >= 1, "Tolerance", g.Tolerance, "at least 1")
	e.must(g.Smoothing >= 0 && g.Smoothing <= 1, "Smoothing", g.Smoothing, "from 0 to 1")
	e.must(g.LongWindow >= 0, "LongWindow", g.LongWindow, "at least 0")
	return e.Err()
}

// New returns an algorithm with these settings.
func (g Gradient) New() Algorithm {
	return &finder{
		tolerance: cmp.Or(g.Tolerance, defaultTolerance),
		smoothing: cmp.Or(g.Smoothing, defaultSmoothing),
		window:    float64(cmp.Or(g.LongWindow, longWindow)),
	}
}

// Next returns the first step of a new algorithm with these settings.
func (g Gradient) Next(limit int, w Sample) float64 { return g.New().Next(limit, w) }

// Explain returns "algorithm" and 0, because a Gradient decides nothing itself: see [Gradient.New].
func (g Gradient) Explain() (reason string, baseline time.Duration) { return reasonUnknown, 0 }
