package adaptive

import "math"

// measure is a measurement of the latency under one limit, in successive windows.
type measure struct {
	windows  float64
	n        float64 // samples
	mean     float64 // latency, in nanoseconds
	variance float64 // variance of the latencies
	between  float64 // variance of the windows' means
	inFlight float64 // mean
}

// measured returns the measure of one window. Latencies that the clock is too coarse for count as a nanosecond, because
// latencies are divided by each other.
func measured(w Sample) measure {
	n, e := float64(w.N), float64(w.StdErr)
	return measure{windows: 1, n: n, mean: max(float64(w.Mean), 1), variance: n * e * e, inFlight: w.InFlight}
}

// and returns a and b as one measure.
func (a measure) and(b measure) measure {
	n := a.n + b.n
	if n == 0 {
		return measure{}
	}
	x, y := a.n/n, b.n/n
	apart := x * y * (a.mean - b.mean) * (a.mean - b.mean)
	return measure{
		windows:  a.windows + b.windows,
		n:        n,
		mean:     x*a.mean + y*b.mean,
		variance: x*a.variance + y*b.variance + apart,
		between:  x*a.between + y*b.between + apart,
		inFlight: x*a.inFlight + y*b.inFlight,
	}
}

// atMost returns a with the weight of at most n samples.
func (a measure) atMost(n float64) measure {
	if n = max(n, 0); a.n > n {
		a.windows *= n / a.n
		a.n = n
	}
	return a
}

// stdErr returns the standard error of the mean. Requests that queue wait for the same ones
// before them, so that their latencies vary less than the mean does; the windows' means show
// (the method of batch means).
func (a measure) stdErr() float64 { return math.Sqrt(max(a.variance/a.n, a.between/a.windows)) }

// exact reports whether the standard error is at most this share of the mean.
func (a measure) exact(share float64) bool { return a.stdErr() <= share*a.mean }

// differs reports whether a and b are unlikely to come from one server under one load. A measure during which the
// server changed has a large error, and must not agree with everything because of that.
func (a measure) differs(b measure) bool {
	low, high := min(a.mean, b.mean), max(a.mean, b.mean)
	return high > 2*low || high-low > sameLatency*low && high-low > 3*math.Hypot(a.stdErr(), b.stdErr())
}
