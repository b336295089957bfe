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
// holds the bytes of 10 ms, but at least 1,460, which is the payload of a packet. In the first second up to
// 1,460 bytes more than the rate may pass, or 1 % more if that is more. In any 10 ms at most what
// the bucket holds passes in addition to the rate. Tokens are replenished at least once per
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

// evenly returns the rate with a period from 10 microseconds to a millisecond if that is exact, and otherwise the
// one with the fewest tokens a period.
func evenly(bytes int) rates.Rate {
	if r, ok := rates.Exact(bytes, time.Second, 10*time.Microsecond, time.Millisecond); ok {
		return r
	}
	r, _ := rates.Of(float64(bytes), rates.Within(bytes, time.Second, time.Millisecond))
	return r
}
