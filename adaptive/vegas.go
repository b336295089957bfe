package adaptive

import "math"

// Vegas moves the limit by the length of the queue at the server: of a limit L, the share by
// which the latency at L is above the latency without load. With a server that C requests
// saturate it settles a little above C. It is a configuration; New makes the algorithm. Each
// function is given the limit, at least 1, and returns a number of requests; nil means the
// default.
//
// It follows TCP Vegas (Brakmo and Peterson, 1995) in the form of Netflix' concurrency-limits:
// the limit grows while the queue is shorter than Alpha, shrinks while it is longer than Beta,
// and grows faster and faster while there is no queue. There the latency without load is the
// least one seen, which is that of the shortest request where service times differ, and is renewed
// by the next sample, which is a loaded one under load. Here both latencies are means, and the one
// without load is measured in trials, with the limit halved. The defaults are Netflix' logarithms,
// smaller, with a share of the limit at least: the means of a large limit are no more exact than
// those of a small one.
type Vegas struct {
	Alpha     func(limit int) float64 // nil: 2·log10(limit), but at least 2 and 8 % of the limit
	Beta      func(limit int) float64 // nil: 3·log10(limit), but at least 3 and 12 % of the limit
	Threshold func(limit int) float64 // up to which there is no queue. nil: log10(limit), but at least 1 and 3 % of the limit
}

// New returns an algorithm with these settings.
func (v Vegas) New() Algorithm {
	return &vegas{
		alpha:     or(v.Alpha, 2, 0.08),
		beta:      or(v.Beta, 3, 0.12),
		threshold: or(v.Threshold, 1, 0.03),
		finder:    finder{window: longWindow},
	}
}

// or returns f; if it is nil, a function that returns the larger of a number of decades of the
// limit and a share of it.
func or(f func(limit int) float64, decades, share float64) func(limit int) float64 {
	if f != nil {
		return f
	}
	return func(limit int) float64 { return max(decades*log10(limit), share*float64(limit)) }
}

func log10(limit int) float64 { return max(math.Log10(float64(limit)), 1) }

// Next is the first step of a new algorithm with these settings.
func (v Vegas) Next(limit int, w Window) float64 { return v.New().Next(limit, w) }

type vegas struct {
	alpha, beta, threshold func(limit int) float64
	finder
}

func (v *vegas) Next(limit int, w Window) float64 { return v.next(limit, w, v.rule) }

func (v *vegas) rule(limit, ratio float64) (next float64, noQueue bool) {
	n := max(int(min(limit, math.MaxInt32)), 1)
	queue := limit * (1 - 1/ratio)
	alpha, beta := v.alpha(n), v.beta(n)
	next = limit
	switch {
	case queue < alpha:
		next += min(log10(n), alpha-queue)
	case queue > beta:
		next -= max(log10(n), (queue-beta)/2)
	}
	return next, queue <= v.threshold(n)
}
