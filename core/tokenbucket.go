package core

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// TokenBucketOptions are the terms of a [TokenBucket].
type TokenBucketOptions struct {
	Name                string        // for metadata and errors; "": none
	TokenLimit          int           // tokens the bucket holds, and so the largest burst; at least 1
	TokensPerPeriod     int           // tokens that come each period; from 1 to TokenLimit
	ReplenishmentPeriod time.Duration // above 0
	QueueLimit          int           // permits that may wait; 0: nobody waits; at least 0
	QueueOrder          QueueOrder    // who is served first
	ManualReplenishment bool          // tokens come in TryReplenish only
}

func (o TokenBucketOptions) validate() error {
	f := faults{options: "TokenBucketOptions"}
	f.atLeast("TokenLimit", o.TokenLimit, 1)
	f.atLeast("TokensPerPeriod", o.TokensPerPeriod, 1)
	if o.TokensPerPeriod > o.TokenLimit && o.TokenLimit >= 1 {
		f.add("TokensPerPeriod", o.TokensPerPeriod, fmt.Sprintf(
			"at most the TokenLimit of %d, as more tokens at once never fit; for a rate per second with a smaller burst use core.PerSecond", o.TokenLimit))
	}
	f.positive("ReplenishmentPeriod", o.ReplenishmentPeriod)
	f.atLeast("QueueLimit", o.QueueLimit, 0)
	f.order(o.QueueOrder)
	return f.err()
}

func (o TokenBucketOptions) terms() *terms {
	t := machine.Terms{
		Kind: machine.TokenBucket, Limit: o.TokenLimit, Step: o.TokensPerPeriod, Span: int64(o.ReplenishmentPeriod),
		QueueLimit: o.QueueLimit, Mode: mode(o.QueueOrder, o.ManualReplenishment),
	}
	layOut(&t)
	return newTerms(o.Name, time.Time{}, t)
}

// Options returns the options in force: those of [NewTokenBucket] or of the latest Update.
func (l *TokenBucket) Options() TokenBucketOptions {
	t := l.terms()
	return TokenBucketOptions{
		Name: t.name, TokenLimit: t.Limit, TokensPerPeriod: t.Step, ReplenishmentPeriod: time.Duration(t.Span),
		QueueLimit: t.QueueLimit, QueueOrder: t.order(), ManualReplenishment: t.Manual(),
	}
}

// TokenBucket bounds a rate and allows bursts: a permit takes a token out of the bucket,
// and TokensPerPeriod come back every ReplenishmentPeriod.
//
// The bucket starts full. Once it leaves full, the tokens come every period from that
// instant; full again, its clock stops. It is computed from the time elapsed, in
// integers, when it is used: nothing drifts, nothing runs while nobody waits. Those that
// wait are woken at the very instant their tokens are there; while somebody waits the
// clock goes on, so a late wake-up delays none of the ticks after it.
//
// It is a [Limiter], [Reporter], [Idler], [Refunder], [Replenisher] and [io.Closer], safe
// for concurrent use. Make it with [NewTokenBucket]; the zero value refuses with
// [ErrClosed].
type TokenBucket struct {
	rate
	bucket machine.Bucket
}

// NewTokenBucket returns a full bucket, or what is wrong with the options, all at once.
func NewTokenBucket(o TokenBucketOptions) (*TokenBucket, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := new(TokenBucket)
	l.start(o.terms(), &l.bucket)
	return l, nil
}

// TryAcquire takes permits if they can be had now. It never blocks. While somebody waits,
// a limiter that serves the oldest first rejects it, even if the permits are there.
func (l *TokenBucket) TryAcquire(permits int) Lease {
	k, answered := l.tryFast(permits)
	if !answered {
		return l.tryAcquireSlow(permits)
	}
	if !k.Acquired() {
		l.rejected.Add(1)
	}
	return k
}

// Acquire takes permits, waiting for them if it must and the queue limit allows. A done
// ctx, then or later, ends it with ctx.Err(), unchanged, and leaves nothing taken. It is
// rejected at once if the wait would outlast ctx's deadline.
func (l *TokenBucket) Acquire(ctx context.Context, permits int) (Lease, error) {
	if ctx.Err() == nil {
		if k, _ := l.tryFast(permits); k.Acquired() {
			return k, nil
		}
	}
	return l.acquireSlow(ctx, permits)
}

// tryQuietly is TryAcquire that leaves no trace if it does not grant.
func (l *TokenBucket) tryQuietly(permits int) (Lease, bool) {
	if k, answered := l.tryFast(permits); answered {
		return k, k.Acquired()
	}
	return l.tryQuietlySlow(permits)
}

// Update puts new limits in force. The bucket keeps the tokens that it has, at most the new
// limit: growing mints none, shrinking leaves no debt, and a full bucket that grows fills up
// from then on. The next tokens come when they would have, or one new period from now if
// that is sooner. The queue stays. A waiter that now fits is served at once; one that now
// asks for more than the limit gets [ErrPermitsExceedLimit]. Bad options change nothing.
// After Close it returns [ErrClosed].
func (l *TokenBucket) Update(o TokenBucketOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	return l.update(o.terms())
}

// ReplenishmentPeriod returns the time from one replenishment to the next.
func (l *TokenBucket) ReplenishmentPeriod() time.Duration { return time.Duration(l.terms().Span) }

// String returns a line for a person: the name, the rate, and the statistics.
func (l *TokenBucket) String() string {
	t := l.terms()
	return l.describe(fmt.Sprintf("token bucket of %d per %v", t.Step, time.Duration(t.Span)))
}
