package adaptive

import "math"

// Vegas moves the limit by the length of the queue that it makes at the server: of a limit L
// the share that the latency at L is above the latency without load. With a server that C
// requests saturate it settles a little above C. It is a configuration; New makes the
// algorithm. Each function is given the limit, and returns a number of requests; nil stands
// for what is said here.
//
// It is after TCP Vegas (Brakmo and Peterson, 1995), as Netflix' concurrency-limits has it:
// the limit grows while the queue is shorter than Alpha, shrinks while it is longer than Beta,
// and grows faster while there is none. Left: the latency without load as the least that
// was seen, which of a server whose service times differ is of its shortest request; and its
// renewal by the next sample that comes, which under load is a loaded one. Both latencies
// are means here, and the one without load is measured in probes, with the limit lowered.
// The defaults add a share of the limit to Netflix' logarithms: the means of a large limit are
// no more exact than those of a small one.
type Vegas struct {
	Alpha     func(limit int) float64 // nil: 3·log10(limit), but 4 % of it at least
	Beta      func(limit int) float64 // nil: 6·log10(limit), but 8 % of it at least
	Threshold func(limit int) float64 // up to which there is no queue. nil: log10(limit), but 2 % of it at least
}

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
	if v.add(s) {
		v.want(v.law(v.limit))
	}
	return v.wanted()
}

// law returns the limit that follows limit.
func (v *vegas) law(limit float64) float64 {
	ratio := v.ratio()
	if v.seeking {
		if next, found := v.seek(ratio); !found {
			return next
		}
		fits := max(v.inUse(limit)/ratio, 1)
		return v.retreat(fits + v.alpha(int(fits)))
	}
	n := int(limit)
	queue := limit * (1 - 1/ratio)
	alpha, beta, threshold := v.alpha(n), v.beta(n), v.threshold(n)
	if ratio > farOverloaded && queue > max(alpha, beta, threshold) {
		v.streak = 0
		return v.retreat(v.inUse(limit) * max(1/ratio, steepest))
	}
	v.note(queue <= threshold)
	switch {
	case v.streak > 0:
		return limit + max(v.room(1.5)*limit, 1)
	case queue < alpha:
		return limit + log10(n)
	case queue > beta:
		return limit - max(log10(n), (queue-beta)/2)
	}
	return limit
}
