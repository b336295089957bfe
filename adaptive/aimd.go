package adaptive

import (
	"cmp"
	"time"
)

// AIMD grows the limit by one after as many successes as the limit is, and cuts it to a share
// when work was dropped or took too long: additive increase, multiplicative decrease, as TCP
// Reno has it. It knows nothing of the latency below Timeout, so it finds the limit at which
// work begins to be late; take it where that, and not the least latency, is what counts. It
// is a configuration; New makes the algorithm.
//
// A cut is for all that was under way then, as in TCP: what is dropped of it later does not
// cut again, and shrinks the limit by one each. AIMDLimit of Netflix' concurrency-limits cuts
// at each sample and grows at each, so that the limit swings with every burst of timeouts.
type AIMD struct {
	Timeout time.Duration // a lease held longer counts as dropped. 0: 5 s
	Backoff float64       // what a cut leaves of the limit, above 0 and below 1. 0: 0.9
}

const (
	defaultTimeout = 5 * time.Second
	defaultBackoff = 0.9
)

func (a AIMD) validate() error {
	f := faults{options: "AIMD"}
	f.must(a.Timeout >= 0, "Timeout", a.Timeout, "at least 0")
	f.must(a.Backoff == 0 || a.Backoff > 0 && a.Backoff < 1, "Backoff", a.Backoff, "above 0 and below 1")
	return f.err()
}

// New returns an algorithm with these settings.
func (a AIMD) New() Algorithm {
	return &aimd{AIMD: AIMD{
		Timeout: cmp.Or(a.Timeout, defaultTimeout),
		Backoff: cmp.Or(a.Backoff, defaultBackoff),
	}}
}

// Next is the first step of a new algorithm with these settings.
func (a AIMD) Next(s Sample) float64 { return a.New().Next(s) }

type aimd struct {
	AIMD
	cut   time.Time // when the limit was last cut
	grown float64   // part of the next permit
}

func (a *aimd) Next(s Sample) float64 {
	limit := float64(s.Limit)
	if s.Dropped || s.Duration > a.Timeout {
		if s.At.Add(-s.Duration).Before(a.cut) {
			return limit // what was under way at the cut has been paid for
		}
		a.cut, a.grown = s.At, 0
		return limit * a.Backoff
	}
	if a.count(s.Limit, s.InFlight, 0, s.Duration) {
		return limit
	}
	a.grown = 0
	return limit + 1
}

// count takes a success that the limit does not grow by.
func (a *aimd) count(limit, _ int, _, held time.Duration) bool {
	grown := a.grown + 1/float64(limit)
	if held > a.Timeout || grown >= 1-1e-9 {
		return false
	}
	a.grown = grown
	return true
}
