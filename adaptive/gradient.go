package adaptive

import "cmp"

// Gradient moves the limit by the gradient of the latency: by how much longer a request
// takes at the limit than it takes without load. With a server that C requests saturate it
// settles a little above C, so that the server is never idle. It is a configuration; New
// makes the algorithm.
//
// It is after gradient2 of Netflix' concurrency-limits. Taken from there: the limit goes with
// tolerance times the latency without load over the latency now, at least half and at most
// 1; a share of it is added as room for a queue; the result is smoothed; nothing grows while
// less than half of the limit is used. Left: its latency without load, an average of the
// latest samples over a long window. While demand is far above the limit there are only
// loaded samples, the average follows them, and the limit runs away to its maximum. Here it
// is measured in probes, with the limit lowered; and what is compared are means of as many
// samples as they need to be exact to some percent, not single samples. Added: the limit
// grows and shrinks by large steps until one that fits is found, and after a change of load
// that it cannot mistake.
type Gradient struct {
	// Tolerance is by how much the latency may grow with load before the limit shrinks, as a
	// factor, at least 1. 0: 1.03.
	Tolerance float64

	// Smoothing is the weight of a new limit against the present one, above 0 to 1. 0: 0.4.
	Smoothing float64

	// LongWindow is how many samples the latency without load is the mean of, at least. 0: 30
	// for each that is in flight, and 600 at least.
	LongWindow int
}

const (
	defaultTolerance = 1.03
	defaultSmoothing = 0.4
	steepest         = 0.5 // slope
	leastQueue       = 2.5 // permits of room, so that a small server is not idle between two requests
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
	return &gradient{
		tolerance: cmp.Or(g.Tolerance, defaultTolerance),
		smoothing: cmp.Or(g.Smoothing, defaultSmoothing),
		meter:     meter{longWindow: g.LongWindow},
	}
}

// Next is the first step of a new algorithm with these settings.
func (g Gradient) Next(s Sample) float64 { return g.New().Next(s) }

type gradient struct {
	tolerance, smoothing float64
	meter
}

func (g *gradient) Next(s Sample) float64 {
	if s.Dropped {
		return g.drop(s)
	}
	if g.add(s) {
		g.want(g.law(g.limit))
	}
	return g.wanted()
}

// law returns the limit that follows limit.
func (g *gradient) law(limit float64) float64 {
	ratio := g.ratio()
	if g.seeking {
		if next, found := g.seek(ratio); !found {
			return next
		}
		return g.retreat(g.inUse(limit)/ratio*g.tolerance + leastQueue)
	}
	slope := min(max(g.tolerance/ratio, steepest), 1)
	if ratio > farOverloaded && limit-limit/ratio > smallQueue {
		g.streak = 0
		return g.retreat(g.inUse(limit) * slope)
	}
	g.note(slope == 1)
	next := limit*slope + max(g.room(2)*limit, leastQueue)
	return limit + g.smoothing*(next-limit)
}
