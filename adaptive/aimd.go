package adaptive

import (
	"cmp"
	"time"
)

// AIMD grows the limit by one for as many successes as the limit is, and cuts it to a share of itself
// when work is dropped or takes too long: additive increase, multiplicative decrease, as in TCP Reno.
// A [Window], which has at least 20 successes, adds one at most, so a limit below 20 takes 20 successes
// to grow by one. AIMD does not look at the latency below Timeout, so it finds the limit at which work
// begins to be late; use it where lateness matters and latency does not. It is a configuration; New
// makes the algorithm.
//
// A cut is for all the work under way, as in TCP: until as many leases have ended as the limit was,
// other drops do not cut it again, but take 1 off each. AIMDLimit of Netflix' concurrency-limits
// cuts at each drop, so that its limit swings with every burst of timeouts.
type AIMD struct {
	Timeout time.Duration // a lease held longer is a drop. 0: 5 s
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
func (a AIMD) Next(limit int, w Window) float64 { return a.New().Next(limit, w) }

type aimd struct {
	AIMD

	limit    float64 // with the fraction of the next permit that has grown
	underWay int     // leases still to end that were under way at the last cut; their drops do not cut
	reason   string
}

// Explain gives the reason for what Next returned last. There is no baseline.
func (a *aimd) Explain() (reason string, baseline time.Duration) { return a.reason, 0 }

// timeout is for the limiter, which alone sees how long each lease was held.
func (a *aimd) timeout() time.Duration { return a.Timeout }

func (a *aimd) Next(limit int, w Window) float64 {
	// The fraction is kept if the limit could not grow yet because little of it was in use.
	a.limit = min(max(a.limit, float64(limit)), float64(limit)+1)
	a.underWay -= w.N + w.Dropped
	switch {
	case w.Dropped == 0:
		a.limit += min(float64(w.N)/float64(limit), 1)
		a.reason = reasonGrowing
		return a.limit
	case a.underWay < 0:
		a.limit = float64(limit) * a.Backoff
		a.underWay = limit
	}
	a.reason = reasonDropped
	return a.limit
}
