package adaptive

import "cmp"

// Gradient moves the limit by the gradient of the latency.
type Gradient struct {
	Tolerance  float64
	Smoothing  float64
	LongWindow int
}

const (
	defaultTolerance = 1.03
	defaultSmoothing = 0.4
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
	if g.add(s) && g.baseline > 0 {
		g.limit = g.law(g.limit)
	}
	return g.wanted()
}

func (g *gradient) law(limit float64) float64 {
	ratio := g.ratio()
	if g.seeking && ratio < overloaded {
		return seekGrowth * limit
	}
	if g.seeking {
		g.seeking = false
		return limit / ratio * g.tolerance
	}
	slope := min(max(g.tolerance/ratio, 0.5), 1)
	if slope < 1 {
		g.streak = 0
	} else {
		g.streak++
	}
	next := limit*slope + max(g.room()*limit, 1)
	return limit + g.smoothing*(next-limit)
}
