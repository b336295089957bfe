package throttle

import (
	"errors"
	"math"
	"math/bits"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

// pace keeps a bucket's rate, exactly and smoothly. The mean is kept from the first byte on: what a late wake-up or a
// busy output has cost, up to a second of it, is made up for. The peak has that happen little by little.
type pace struct {
	mean, peak *core.TokenBucket
	both       core.Limiter
	begun      bool
}

const (
	sliceTime = 4 * time.Millisecond  // what is paid for at once
	pauseTime = 10 * time.Millisecond // what a source that was slow may make up for
	owedTime  = time.Second           // what we, or the output, may make up for
	mostSlice = 1 << 20
)

func newPace(l spec.Limit) (p *pace, err error) {
	p = new(pace)
	mean, peak := terms(l)
	if p.mean, err = core.NewTokenBucket(mean); err != nil {
		return nil, err
	}
	if p.peak, err = core.NewTokenBucket(peak); err != nil {
		return nil, err
	}
	p.both, err = core.Chain(p.mean, p.peak)
	return p, err
}

func (p *pace) update(l spec.Limit) error {
	mean, peak := terms(l)
	return errors.Join(p.mean.Update(mean), p.peak.Update(peak))
}

// take takes permits if they are there. The first call begins the account, with what may pass at once.
func (p *pace) take(l spec.Limit, permits int) core.Lease {
	if !p.begun {
		p.begun = true
		p.keep(atOnce(l))
	}
	return p.both.TryAcquire(permits)
}

// paused forgets what a source that was waited for has left unused, but for what may pass at once.
func (p *pace) paused(l spec.Limit, waited time.Duration) {
	if !p.begun {
		return
	}
	allowed := l.Burst
	if allowed == 0 {
		allowed = permitsIn(l, pauseTime)
	}
	p.keep(max(allowed, p.mean.Available()-permitsIn(l, waited)))
}

// keep lets go of what is above so many permits.
func (p *pace) keep(permits int) {
	if n := p.mean.Available() - permits; n > 0 {
		p.mean.TryAcquire(n)
	}
}

// terms returns the buckets of a rate.
func terms(l spec.Limit) (mean, peak core.TokenBucketOptions) {
	mean = bucket(l.Permits, l.Per, max(l.Burst, permitsIn(l, owedTime)), time.Millisecond)
	peak = bucket(l.Permits, max(l.Per-l.Per/5, 1), atOnce(l), 10*time.Microsecond) // a quarter more
	return mean, peak
}

// bucket returns a bucket whose permits come in about so long a period, or one by one where that takes longer: at the
// very rate, the period being rounded up to the nanosecond.
func bucket(permits int, per time.Duration, limit int, period time.Duration) core.TokenBucketOptions {
	o := core.TokenBucketOptions{TokenLimit: max(limit, 1)}
	o.TokensPerPeriod = min(max(share(permits, period, per), 1), o.TokenLimit)
	hi, lo := bits.Mul64(uint64(o.TokensPerPeriod), uint64(per))
	lo, carry := bits.Add64(lo, uint64(permits-1), 0)
	exact, _ := bits.Div64(hi+carry, lo, uint64(permits)) // at most period, or per
	o.ReplenishmentPeriod = time.Duration(exact)
	return o
}

// atOnce is what may pass at once.
func atOnce(l spec.Limit) int { return max(l.Burst, slice(l)) }

// slice is how much is paid for at once: what comes in a short time, so that the output is smooth.
func slice(l spec.Limit) int {
	switch l.Kind {
	case spec.Unlimited:
		return mostSlice
	case spec.TokenBucket:
		return max(min(permitsIn(l, sliceTime), mostSlice), 1)
	}
	return max(min(l.Permits/1000, mostSlice), 1) // a window's are there at once
}

// permitsIn returns how many permits a rate gives in d, rounded down.
func permitsIn(l spec.Limit, d time.Duration) int { return share(l.Permits, d, l.Per) }

// share returns permits*d/per, rounded down, as far as an int holds it.
func share(permits int, d, per time.Duration) int {
	hi, lo := bits.Mul64(uint64(permits), uint64(d))
	if hi >= uint64(per) {
		return math.MaxInt
	}
	n, _ := bits.Div64(hi, lo, uint64(per))
	return int(min(n, math.MaxInt))
}
