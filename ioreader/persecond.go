package ioreader

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/rates"
)

// PerSecond returns the options of a token bucket for a bandwidth in bytes per second. The bucket
// holds the bytes of 10 ms, at least one: it lets through at most 1 % more than the rate in the
// first second, and at most twice the rate in any 10 ms. Tokens are replenished at least once per
// millisecond, or one at a time at rates below 1000 bytes per second. The rate is exact to within
// one millionth. QueueLimit is math.MaxInt, so any number of calls may wait.
//
// Any rate from 1 to math.MaxInt works. If bytes < 1, core.NewTokenBucket rejects the options.
func PerSecond(bytes int) core.TokenBucketOptions {
	o := core.TokenBucketOptions{QueueLimit: math.MaxInt}
	if bytes <= 0 {
		o.TokenLimit, o.TokensPerPeriod, o.ReplenishmentPeriod = bytes, bytes, time.Second
		return o
	}
	o.TokenLimit = max(bytes/100, 1)
	rate := evenly(bytes)
	o.TokensPerPeriod, o.ReplenishmentPeriod = rate.Tokens, rate.Period
	return o
}

// evenly returns the rate with a period between shortest and a millisecond if that is exact. Otherwise
// either a million tokens or more come each period, or the period is longer than half a millisecond, so
// rounding the one down or the other to the nearest nanosecond changes the rate by at most a millionth.
func evenly(bytes int) rates.Rate {
	const shortest = 10 * time.Microsecond
	if r, ok := rates.Exact(bytes, time.Second, shortest, time.Millisecond); ok {
		return r
	}
	if tokens := rates.Within(bytes, time.Second, shortest); tokens >= 1_000_000 {
		return rates.Rate{Tokens: tokens, Period: shortest}
	}
	tokens := max(rates.Within(bytes, time.Second, time.Millisecond), 1)
	return rates.Nearest(tokens, bytes, time.Second)
}
