package redislimit

import (
	"math"
	"math/big"
	"time"

	"github.com/sluice-go/sluice/core"
)

// kind is what a limiter is; the numbers are those of the scripts.
type kind int64

const (
	kindBucket kind = 1 + iota
	kindFixed
	kindSliding
	kindConcurrency
)

func (k kind) String() string {
	switch k {
	case kindBucket:
		return "a token bucket"
	case kindFixed:
		return "a fixed window"
	case kindSliding:
		return "a sliding window"
	case kindConcurrency:
		return "a concurrency limit"
	}
	return "something else"
}

// terms are what a limiter's options say. They do not change. Times are in microseconds.
type terms struct {
	kind       kind
	name       string
	limit      int
	queueLimit int
	order      core.QueueOrder

	step int64 // a bucket's tokens per period; a window's segments
	span int64 // a bucket's period; a window's length; the TTL of a lease
	from int64 // a window's origin, from 0 to span

	// What leases tell.
	fixed [3]core.Metadata // LimiterName, if there is one, PermitLimit, and a rate's Window
	facts int              // how many
}

// timed reports whether permits come back with time.
func (t *terms) timed() bool { return t.kind != kindConcurrency }

// metadata returns what all leases of the terms tell.
func (t *terms) metadata() []core.Metadata { return t.fixed[:t.facts] }

// complete returns the terms, with what leases tell; window is a rate's.
func (t terms) complete(window time.Duration) *terms {
	t.facts = 0
	add := func(m core.Metadata) {
		t.fixed[t.facts] = m
		t.facts++
	}
	add(core.PermitLimit.With(t.limit))
	if t.name != "" {
		add(core.LimiterName.With(t.name))
	}
	if t.timed() {
		add(core.Window.With(window))
	}
	return &t
}

// perSecond returns how many permits come in a second, about.
func (t *terms) perSecond() float64 {
	if t.kind == kindBucket {
		return float64(t.step) / float64(t.span) * 1e6
	}
	return float64(t.limit) / float64(t.span) * 1e6
}

// period returns the microseconds from one instant at which permits come back to the next, about; 0:
// that is not known.
func (t *terms) period() int64 {
	switch t.kind {
	case kindBucket:
		return t.span
	case kindConcurrency:
		return 0
	}
	return (t.span-1)/t.step + 1
}

// head appends what the script wants before the operations.
func (t *terms) head(args []int64, holder int64) []int64 {
	switch t.kind {
	case kindBucket:
		return append(args, int64(t.limit), t.step, t.span)
	case kindConcurrency:
		return append(args, int64(t.limit), t.span, holder)
	}
	which, tell := int64(t.kind-kindFixed+1), int64(0)
	if t.queueLimit > 0 {
		tell = 1
	}
	return append(args, which, int64(t.limit), t.span, t.step, t.from, tell)
}

// script returns the terms' script.
func (t *terms) script() *Script {
	switch t.kind {
	case kindBucket:
		return bucketScript
	case kindConcurrency:
		return leasesScript
	}
	return windowScript
}

// wholeMicros returns a bucket's tokens and period with the period in whole microseconds:
// rounded up, or, where that would lower the rate by more than 0.1 %, both scaled, up to
// 1 ms, as far as limit tokens allow.
func wholeMicros(step, limit int64, period time.Duration) (tokens, micros int64) {
	up := func(d time.Duration) int64 { return int64((d-1)/time.Microsecond) + 1 }
	tokens, micros = step, up(period)
	least := loss(period, micros, 1)
	for m := int64(2); least > 0.001 && time.Duration(m)*period <= time.Millisecond && step <= limit/m; m++ {
		if l := loss(period, up(time.Duration(m)*period), m); l < least {
			tokens, micros, least = m*step, up(time.Duration(m)*period), l
		}
	}
	return tokens, micros
}

// loss returns by which part of it the rate is lowered if m periods last so long.
func loss(period time.Duration, micros, m int64) float64 {
	exact := float64(period) * float64(m)
	return (float64(micros)*1000 - exact) / (float64(micros) * 1000)
}

// origin returns a grid's origin in microseconds, from 0 to span, for one that has a point at
// anchor. It is rounded up to the microsecond. A zero anchor is the Unix epoch.
func origin(anchor time.Time, span int64) int64 {
	if anchor.IsZero() {
		return 0
	}
	// The year may be any, so the number may be too large for 64 bits.
	micros := new(big.Int).Mul(big.NewInt(anchor.Unix()), big.NewInt(1e6))
	micros.Add(micros, big.NewInt(int64((anchor.Nanosecond()+999)/1000)))
	return micros.Mod(micros, big.NewInt(span)).Int64()
}

// lasts returns microseconds as a duration, at most the longest.
func lasts(micros int64) time.Duration {
	if micros > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(micros) * time.Microsecond
}
