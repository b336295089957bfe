package ioreader

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/rates"
)

// packet is the payload of a TCP packet on Ethernet.
const packet = 1460

// PerSecond returns the options of a token bucket for a bandwidth in bytes per second. The bucket
// holds the bytes of 10 ms, but at least 1,460, the payload of a packet. So in the first second up to
// 1,460 bytes more than the rate may pass, and at more than 146,000 bytes per second 1 % more. In any 10 ms at most
// what the bucket holds passes in addition to the rate. Tokens are replenished at least once per
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
	o.TokenLimit = max(bytes/100, packet)
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
