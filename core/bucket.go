package core

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
	"github.com/sluice-go/sluice/internal/rates"
)

// TokenBucketOptions are the options of a [TokenBucket].
type TokenBucketOptions struct {
	Name                string        // name in metadata and errors; may be empty
	TokenLimit          int           // tokens that the bucket holds, which is the largest burst; at least 1
	TokensPerPeriod     int           // tokens that are added each period; from 1 to TokenLimit
	ReplenishmentPeriod time.Duration // above 0
	QueueLimit          int           // permits that may wait; 0 means that Acquire does not wait; at least 0
	QueueOrder          QueueOrder    // which waiter is served first
	ManualReplenishment bool          // tokens are added only in TryReplenish

	invalidRate string // what is wrong with the rate given to Rate, PerSecond or Every; "": nothing
}

func (o TokenBucketOptions) validate() error {
	f := faultsOf("TokenBucketOptions")
	f.atLeast("TokenLimit", o.TokenLimit, 1)
	if o.invalidRate != "" {
		f.Join(errors.New("core: Rate = " + o.invalidRate))
	}
	f.atLeast("TokensPerPeriod", o.TokensPerPeriod, 1)
	if o.TokensPerPeriod > o.TokenLimit && o.TokenLimit >= 1 {
		f.Add("TokensPerPeriod", o.TokensPerPeriod, fmt.Sprintf(
			"at most the TokenLimit of %d, as more tokens never fit; for a rate per second with a smaller burst use core.PerSecond", o.TokenLimit))
	}
	f.positive("ReplenishmentPeriod", o.ReplenishmentPeriod)
	f.atLeast("QueueLimit", o.QueueLimit, 0)
	f.order(o.QueueOrder)
	return f.Err()
}

func (o TokenBucketOptions) label() label { return label{name: o.Name} }

func (o TokenBucketOptions) apply(now Limiter) (Limiter, error) { return apply(now, o, NewTokenBucket) }

func (o TokenBucketOptions) terms() machine.Terms {
	return machine.Terms{
		Limit: o.TokenLimit, Step: o.TokensPerPeriod, Span: int64(o.ReplenishmentPeriod),
		QueueLimit: o.QueueLimit, Mode: mode(o.QueueOrder, o.ManualReplenishment),
	}
}

// PerSecond returns the options of a bucket that holds burst tokens and gains permits tokens a second, like
// rate.NewLimiter(permits, burst) of x/time/rate. For a rate that is not a whole number use [Rate] or [Every]. Up to
// 31,622 tokens a second are added one at a time, and the period between them is exact to half a nanosecond. At higher
// rates several tokens are added per period if the burst has room for them, so that the rate is exact to one part in a
// billion. TokenBucketOptions.Rate then returns permits, if they are at most a billion. A bucket grants at most its
// burst each nanosecond; a higher rate is lowered to that.
//
// The queue is unbounded, as it is in x/time/rate, so Acquire waits; set QueueLimit to change that.
// [NewTokenBucket] rejects permits or a burst below 1.
func PerSecond(permits, burst int) TokenBucketOptions {
	if permits < 1 {
		return noRate(strconv.Itoa(permits)+wantRate, burst)
	}
	return withRate(rates.Smooth(permits, burst), burst)
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

// Rate returns the options of a bucket that holds burst tokens and gains perSecond tokens a second; 0.5 is one token
// in two seconds. The period is a whole number of nanoseconds. If that is not exact enough for one token per period,
// several tokens are added per period, at most burst. The rate is then exact to one part in a billion if the burst
// allows it. [PerSecond] is smoother for whole numbers. A bucket grants at most its burst each nanosecond; a higher
// rate is lowered to that.
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

// Rate returns the tokens that are added per second. It returns the rate given to [Rate] or [PerSecond], to within one
// part in a billion, if that is from 1e-6 to 1e9 and the burst is large enough. A burst of at least 2 and at least
// twice the rate is always large enough. If the options are invalid, the result is 0 or NaN.
func (o TokenBucketOptions) Rate() float64 {
	if o.invalidRate != "" {
		return math.NaN()
	}
	return rates.Rate{Tokens: o.TokensPerPeriod, Period: o.ReplenishmentPeriod}.PerSecond()
}

// TokenBucket bounds a rate and allows bursts: a permit takes a token out of the bucket, and
// TokensPerPeriod tokens are added every ReplenishmentPeriod.
//
// The bucket starts full. When a request takes tokens from a full bucket, the bucket's clock starts, and tokens are
// added every period from that time. When the bucket is full again, its clock stops. The level is computed in integers
// from the elapsed time when the bucket is used, so it does not drift, and nothing runs while no request waits.
// Waiters are granted permits as of the exact time at which the tokens are added, even if the timer fires late.
//
// It implements [Limiter], [Reporter], [Idler], [Resetter], [Replenisher],
// [Reserver], [QuietTrier] and [io.Closer], and is safe for concurrent use. Create it with
// [NewTokenBucket]; requests to the zero value fail with [ErrClosed].
type TokenBucket struct {
	rate
	bucket machine.Bucket
}

// NewTokenBucket returns a full bucket, or an error that lists all invalid options.
func NewTokenBucket(o TokenBucketOptions) (*TokenBucket, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := new(TokenBucket)
	l.start(l, newSettings(o), &l.bucket)
	return l, nil
}

// Update applies new limits. The bucket keeps its tokens, up to the new limit: growing adds no tokens, and shrinking
// leaves no debt. A full bucket that grows fills up from then on. The next tokens are added at the time that was due
// before the Update, or one new period from now if that is sooner. Queued requests stay queued. A waiter that now fits
// is served immediately; a waiter for more than the new limit gets [ErrPermitsExceedLimit]. If options are invalid,
// Update returns an error that lists all of them and changes nothing. Equal options change nothing. After Close,
// Update returns [ErrClosed].
func (l *TokenBucket) Update(o TokenBucketOptions) error { return l.update(o) }

// Options returns the current options: those of [NewTokenBucket] or of the latest Update.
func (l *TokenBucket) Options() TokenBucketOptions {
	t := l.current()
	return TokenBucketOptions{
		Name: t.name, TokenLimit: t.Limit, TokensPerPeriod: t.Step, ReplenishmentPeriod: time.Duration(t.Span),
		QueueLimit: t.QueueLimit, QueueOrder: t.order(), ManualReplenishment: t.Manual(),
	}
}

// ReplenishmentPeriod returns the time from one replenishment to the next, or 0 for the zero value.
func (l *TokenBucket) ReplenishmentPeriod() time.Duration { return time.Duration(l.current().Span) }

// String returns a human-readable line: the name, the rate, and the statistics.
func (l *TokenBucket) String() string {
	t := l.current()
	return l.describe(fmt.Sprintf("token bucket of %d per %v", t.Step, time.Duration(t.Span)))
}

func (l *TokenBucket) itself() Limiter { return l }

// window is the time in which the bucket fills from empty.
func (l *TokenBucket) window(s *settings) int64 { return s.FillTime() }
