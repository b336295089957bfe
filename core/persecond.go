package core

import (
	"math"
	"time"
)

// PerSecond returns the options of a bucket that holds burst tokens and gains permits tokens a
// second, as that of rate.NewLimiter(permits, burst) of x/time/rate does. For a rate that is not a
// whole number, such as one token in two seconds, use [Every]. The tokens come as smoothly as the
// rate allows, one by one where possible, at a period that is exact to half a nanosecond. Where
// that would change the rate by more than a thousandth, which happens at millions a second, more
// than one token comes per period, if the burst has room for them.
//
// A bucket grants at most its burst each nanosecond; a higher rate is lowered to that.
//
// The queue is unbounded, as it is in x/time/rate; set QueueLimit to change that.
// [NewTokenBucket] rejects permits or a burst below 1.
func PerSecond(permits, burst int) TokenBucketOptions {
	o := TokenBucketOptions{
		TokenLimit: burst, TokensPerPeriod: permits, ReplenishmentPeriod: time.Second, QueueLimit: math.MaxInt,
	}
	if permits >= 1 {
		tokens, period := smoothest(uint64(permits), uint64(max(burst, 1)))
		o.TokensPerPeriod, o.ReplenishmentPeriod = int(tokens), time.Duration(period)
	}
	return o
}

// Every returns the options of a bucket that holds burst tokens, one of which comes every d, as
// rate.NewLimiter(rate.Every(d), burst) of x/time/rate does. The queue is unbounded; set
// QueueLimit to change that. [NewTokenBucket] rejects d <= 0 or a burst below 1.
func Every(d time.Duration, burst int) TokenBucketOptions {
	return TokenBucketOptions{
		TokenLimit: burst, TokensPerPeriod: 1, ReplenishmentPeriod: d, QueueLimit: math.MaxInt,
	}
}

const second = uint64(time.Second)

// smoothest returns the smallest number of tokens, at most most, that gives the rate to a
// thousandth, and their period in nanoseconds. If none does, it returns the closest.
func smoothest(rate, most uint64) (tokens, period uint64) {
	if rate/second >= most {
		return most, 1
	}
	// With periods of 500 ns, or 500 tokens, rounding is at most a thousandth; so there are
	// no more steps than that, and no product overflows.
	best, bestOff := [2]uint64{}, math.Inf(1)
	for k := uint64(1); k <= most; k++ {
		if rate > second {
			period = k
			if tokens = (rate/second)*k + (rate%second*k+second/2)/second; tokens > most {
				break
			}
		} else {
			tokens, period = k, max((k*second+rate/2)/rate, 1)
		}
		off := math.Abs(float64(tokens)*float64(second)/(float64(period)*float64(rate)) - 1)
		if off <= 1e-3 {
			return tokens, period
		}
		if off < bestOff {
			best, bestOff = [2]uint64{tokens, period}, off
		}
	}
	return best[0], best[1]
}
