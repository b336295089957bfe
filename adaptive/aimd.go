package adaptive

import (
	"cmp"
	"math"
	"time"
)

// AIMD increases the limit by 1 per as many successes as the limit is, and cuts it by a factor when work
// is dropped or takes too long: additive increase, multiplicative decrease, as in TCP Reno. Each
// [Sample] has at least 20 successes and adds at most 1, so a limit below 20 takes 20 successes to grow
// by 1. AIMD ignores latencies below Timeout, so it finds the limit at which work starts to exceed
// Timeout. Use it if a deadline matters and the latency does not. An AIMD value is a configuration; New
// creates the algorithm.
//
// As in TCP, one cut covers all the work in flight. Until as many leases have ended as the limit was
// before the cut, further drops do not cut the limit again; each only reduces it by 1. (AIMDLimit in
// Netflix's concurrency-limits cuts on every drop, so its limit swings with each burst of timeouts.)
// If at most 3% of these leases are dropped too, the drop had nothing to do with load, and the limit returns to
// where it was. So a limit at which up to 3% of the work exceeds Timeout is not too high. With a Backoff far below
// 0.9, such drops cost more: after a large change the server has to settle before leases count.
type AIMD struct {
	Timeout time.Duration // a lease that is held longer counts as a drop. 0 means 5 s
	Backoff float64       // factor of a cut, above 0 and below 1. 0 means 0.9
}

const (
	defaultTimeout = 5 * time.Second
	defaultBackoff = 0.9
)

func (a AIMD) validate() error {
	e := errorsOf("AIMD")
	e.must(a.Timeout >= 0, "Timeout", a.Timeout, "at least 0")
	e.must(a.Backoff == 0 || a.Backoff > 0 && a.Backoff < 1, "Backoff", a.Backoff, "above 0 and below 1")
	return e.Err()
}

// New returns an algorithm with these settings.
func (a AIMD) New() Algorithm {
	return &aimd{AIMD: AIMD{
		Timeout: cmp.Or(a.Timeout, defaultTimeout),
		Backoff: cmp.Or(a.Backoff, defaultBackoff),
	}}
}

// Next returns the first step of a new algorithm with these settings.
func (a AIMD) Next(limit int, w Sample) float64 { return a.New().Next(limit, w) }

// Explain returns "algorithm" and 0, because an AIMD decides nothing itself: see [AIMD.New].
func (a AIMD) Explain() (reason string, baseline time.Duration) { return reasonUnknown, 0 }

type aimd struct {
	AIMD

	limit    float64 // with the fraction of the next permit that has grown
	inFlight float64 // leases in flight at the last cut that have not ended; their drops do not cut
	before   float64 // the limit before that cut; 0: the cut is final
	dropped  int     // how many of the leases in flight have been dropped
	reason   string
}

// unrelated is the share of the work in flight that may be dropped after a drop that had nothing to do with load. A
// server that is overloaded drops most of it. It must be well above 1%, the drops that the limit has to bear
// (TestDropsWithoutLoad), as there is some chance of more in a round.
const unrelated = 0.03

// Explain returns the reason for the last result of Next. There is no baseline.
func (a *aimd) Explain() (reason string, baseline time.Duration) { return a.reason, 0 }

// timeout is for the limiter, which alone sees how long each lease was held.
func (a *aimd) timeout() time.Duration { return a.Timeout }

func (a *aimd) Next(limit int, w Sample) float64 {
	// The fraction is kept if the limit could not grow yet because little of it was in use.
	a.limit = min(max(a.limit, float64(limit)), float64(limit)+1)
	a.inFlight -= float64(w.N + w.Dropped)
	if a.inFlight < 0 {
		a.judge()
	}
	switch {
	case w.Dropped == 0:
		a.limit += min(float64(w.N)/float64(limit), 1)
		a.reason = reasonGrowing
		return a.limit
	case a.inFlight < 0:
		a.before = math.Floor(a.limit) // not an int: a limit of math.MaxInt is no float64
		a.limit = a.before * a.Backoff
		a.inFlight, a.dropped = a.before, 0
	default:
		a.dropped += w.Dropped
	}
	a.reason = reasonDropped
	return a.limit
}

// judge takes a cut back if few of the leases that were in flight have been dropped.
func (a *aimd) judge() {
	if float64(a.dropped) <= unrelated*a.before {
		a.limit = max(a.limit, a.before)
	}
	a.before = 0
}
