package core

import (
	"math"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/internal/rates"
)

// PerSecond returns the options of a bucket that holds burst tokens and gains permits tokens a
// second, like rate.NewLimiter(permits, burst) of x/time/rate. For a rate that is not a whole number
// use [Rate] or [Every]. Up to 31,622 tokens a second come one by one, at a period that is exact to
// half a nanosecond. At higher rates several tokens come per period if the burst has room for them,
// so that the rate is exact to one part in a billion. TokenBucketOptions.Rate then returns permits, if they
// are at most a billion.
// A bucket grants at most its burst each nanosecond; a higher rate is lowered to that.
//
// The queue is unbounded, as it is in x/time/rate, so Acquire waits; set QueueLimit to change that.
// [NewTokenBucket] rejects permits or a burst below 1.
func PerSecond(permits, burst int) TokenBucketOptions {
	if permits < 1 {
		return noRate(strconv.Itoa(permits)+wantRate, burst)
	}
	return withRate(rates.Smooth(permits, burst), burst)
}

const wantRate = ", want a finite rate of at least one permit in 292 years"

// withRate returns the options of a bucket with an unbounded queue.
func withRate(r rates.Rate, burst int) TokenBucketOptions {
	return TokenBucketOptions{
		TokenLimit: burst, TokensPerPeriod: r.Tokens, ReplenishmentPeriod: r.Period, QueueLimit: math.MaxInt,
	}
}

// noRate returns options that are invalid, with the reason.
func noRate(why string, burst int) TokenBucketOptions {
	o := withRate(rates.Rate{Tokens: 1, Period: time.Second}, burst)
	o.invalidRate = why
	return o
}

// Rate returns the options of a bucket that holds burst tokens and gains perSecond tokens a second; 0.5
// is one token in two seconds. If a period of whole nanoseconds is not exact enough for one token,
// several come per period, at most burst, so that the rate is exact to one part in a billion if the
// burst allows it. [PerSecond] is smoother for whole numbers. A bucket grants at most its burst each
// nanosecond; a higher rate is lowered to that.
//
// The queue is unbounded, so Acquire waits; set QueueLimit to change that. [NewTokenBucket] and
// [TokenBucket.Update] reject a rate that is 0 or less, infinite, NaN, or less than one token in 292
// years, and a burst below 1.
func Rate(perSecond float64, burst int) TokenBucketOptions {
	if r, ok := rates.Of(perSecond, burst); ok {
		return withRate(r, burst)
	}
	return noRate(strconv.FormatFloat(perSecond, 'g', -1, 64)+wantRate, burst)
}

// Rate returns the tokens that come per second. It returns the rate given to [Rate] or [PerSecond], to
// within one part in a billion, if that is from 1e-6 to 1e9 and the burst is large enough. A burst
// of at least 2 and at least twice the rate is always large enough. If the options are invalid, the result is 0 or NaN.
func (o TokenBucketOptions) Rate() float64 {
	if o.invalidRate != "" {
		return math.NaN()
	}
	return rates.Rate{Tokens: o.TokensPerPeriod, Period: o.ReplenishmentPeriod}.PerSecond()
}

// Every returns the options of a bucket that holds burst tokens and gains one every d, like
// rate.NewLimiter(rate.Every(d), burst) of x/time/rate. The queue is unbounded, so Acquire waits; set
// QueueLimit to change that. [NewTokenBucket] rejects d <= 0 or a burst below 1.
func Every(d time.Duration, burst int) TokenBucketOptions {
	if d <= 0 {
		return noRate("one permit every "+d.String()+", want a duration above 0", burst)
	}
	return withRate(rates.Rate{Tokens: 1, Period: d}, burst)
}
