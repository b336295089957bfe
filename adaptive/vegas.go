package adaptive

import "math"

// Vegas moves the limit by the length of the queue that it causes.
type Vegas struct{ Alpha, Beta, Threshold func(limit int) float64 }

// New returns an algorithm with these settings.
func (v Vegas) New() Algorithm {
	return &vegas{
		alpha:     or(v.Alpha, 3, 0.04),
		beta:      or(v.Beta, 6, 0.08),
		threshold: or(v.Threshold, 1, 0.02),
	}
}

// or returns f, or if it is nil the larger of so many decades of the limit and of such a
// share.
func or(f func(limit int) float64, decades, share float64) func(limit int) float64 {
	if f != nil {
		return f
	}
	return func(limit int) float64 { return max(decades*log10(limit), share*float64(limit)) }
}

func log10(limit int) float64 { return max(math.Log10(float64(limit)), 1) }

// Next is the first step of a new algorithm with these settings.
func (v Vegas) Next(s Sample) float64 { return v.New().Next(s) }

type vegas struct {
	alpha, beta, threshold func(limit int) float64
	meter
}

func (v *vegas) Next(s Sample) float64 {
	if s.Dropped {
		return v.drop(s)
	}
	if v.add(s) && v.baseline > 0 {
		v.limit = v.law(v.limit)
	}
	return v.wanted()
}

func (v *vegas) law(limit float64) float64 {
	ratio := v.ratio()
	if v.seeking && ratio < overloaded {
		return seekGrowth * limit
	}
	if v.seeking {
		v.seeking = false
		return limit / ratio
	}
	n := int(limit)
	queue := limit * (1 - 1/ratio)
	alpha, beta := v.alpha(n), v.beta(n)
	switch {
	case queue <= v.threshold(n):
		v.streak++
		return limit + max(v.room()*limit, 1)
	case queue < alpha:
		v.streak = 0
		return limit + log10(n)
	case queue > beta:
		v.streak = 0
		return limit - max(log10(n), (queue-beta)/2)
	}
	v.streak = 0
	return limit
}
