package ioreader

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/rates"
)

// PerSecond returns the options of a token bucket for a bandwidth in bytes per second. The bucket
// holds the bytes of 10 ms, but at least 1,460, which is the payload of a packet. In the first second up to 1,460 bytes
// or 1 % more than the rate may pass, whichever is larger. In any interval the excess is at most what the bucket holds. Tokens are replenished at least once per
// millisecond, or one at a time at rates below 1000 bytes per second. The rate is exact to within
// one millionth. QueueLimit is math.MaxInt, so any number of calls may wait. Except
// for the queue, they are the options that package spec makes of the text "8MiB/s".
//
// Any rate from 1 to math.MaxInt works. If bytes < 1, core.NewTokenBucket rejects the options.
func PerSecond(bytes int) core.TokenBucketOptions {
	o := core.TokenBucketOptions{QueueLimit: math.MaxInt}
	if bytes <= 0 {
		o.TokenLimit, o.TokensPerPeriod, o.ReplenishmentPeriod = bytes, bytes, time.Second
		return o
	}
	burst, rate := rates.Bytes(bytes, time.Second)
	o.TokenLimit, o.TokensPerPeriod, o.ReplenishmentPeriod = burst, rate.Tokens, rate.Period
	return o
}
