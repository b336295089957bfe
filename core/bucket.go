package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// TokenBucketOptions are the options of a [TokenBucket].
type TokenBucketOptions struct {
	Name                string        // in metadata and errors; may be empty
	TokenLimit          int           // tokens that the bucket holds, which is the largest burst; at least 1
	TokensPerPeriod     int           // tokens that come each period; from 1 to TokenLimit
	ReplenishmentPeriod time.Duration // above 0
	QueueLimit          int           // permits that may wait; 0 means that Acquire does not wait; at least 0
	QueueOrder          QueueOrder    // which waiter is served first
	ManualReplenishment bool          // tokens come only in TryReplenish

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

// Options returns the current options: those of [NewTokenBucket] or of the latest Update.
func (l *TokenBucket) Options() TokenBucketOptions {
	t := l.current()
	return TokenBucketOptions{
		Name: t.name, TokenLimit: t.Limit, TokensPerPeriod: t.Step, ReplenishmentPeriod: time.Duration(t.Span),
		QueueLimit: t.QueueLimit, QueueOrder: t.order(), ManualReplenishment: t.Manual(),
	}
}

// TokenBucket bounds a rate and allows bursts: a permit takes a token out of the bucket, and
// TokensPerPeriod tokens come back every ReplenishmentPeriod.
//
// The bucket starts full. When a request takes tokens from a full bucket, the bucket's clock
// starts, and tokens come every period from that instant; when the bucket is full again its
// clock stops. The level is computed in integers from the elapsed time when the bucket is used,
// so it does not drift, and nothing runs while no request waits. Waiters are granted permits as of
// the exact instant at which the tokens come, even if the timer fires late.
//
// It implements [Limiter], [Reporter], [Idler], [Resetter], [Replenisher],
// [Reserver], [QuietTrier] and [io.Closer], and is safe for concurrent use. Create it with
// [NewTokenBucket]; requests to the zero value fail with [ErrClosed].
type TokenBucket struct {
	rate
	bucket machine.Bucket
}

// NewTokenBucket returns a full bucket, or an error that reports all invalid options.
func NewTokenBucket(o TokenBucketOptions) (*TokenBucket, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := new(TokenBucket)
	l.start(l, newSettings(o), &l.bucket)
	return l, nil
}

// Update applies new limits. The bucket keeps its tokens, up to the new limit: growing
// adds none, shrinking leaves no debt, and a full bucket that grows fills up from then on. The
// next tokens come when they would have come, or one new period from now if that is sooner.
// Queued requests stay queued. A waiter that now fits is served immediately; a waiter for more
// than the new limit gets [ErrPermitsExceedLimit]. If options are invalid, Update returns an error
// that lists all of them and changes nothing. Equal options change nothing. After Close, Update
// returns [ErrClosed].
func (l *TokenBucket) Update(o TokenBucketOptions) error { return l.update(o) }

func (l *TokenBucket) itself() Limiter { return l }

// ReplenishmentPeriod returns the time from one replenishment to the next, or 0 for the zero value.
func (l *TokenBucket) ReplenishmentPeriod() time.Duration { return time.Duration(l.current().Span) }

// window is the time in which the bucket fills from empty.
func (l *TokenBucket) window(s *settings) int64 { return s.FillTime() }

// String returns a human-readable line: the name, the rate, and the statistics.
func (l *TokenBucket) String() string {
	t := l.current()
	return l.describe(fmt.Sprintf("token bucket of %d per %v", t.Step, time.Duration(t.Span)))
}
