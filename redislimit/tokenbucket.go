package redislimit

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/machine"
)

// TokenBucketOptions are the options of a [TokenBucket].
//
// The period counts in whole microseconds. Any other period is rounded up. If that lowers the rate by
// more than 0.1 %, tokens and period are scaled together, up to a period of 1 ms and to as many tokens
// as the TokenLimit. The TokenLimit is at most 2^52. ManualReplenishment is not supported.
type TokenBucketOptions struct {
	core.TokenBucketOptions

	Shared StoreOptions
}

func (o *TokenBucketOptions) shared() *StoreOptions { return &o.Shared }

func (o *TokenBucketOptions) limits(f *faults) *limits {
	_, err := core.NewTokenBucket(o.TokenBucketOptions)
	f.core(err, "TokenLimit", o.TokenLimit, o.QueueOrder, o.ManualReplenishment)
	f.longest("ReplenishmentPeriod", o.ReplenishmentPeriod)
	if f.found() {
		return nil
	}
	l := limits{kind: kindBucket, name: o.Name, limit: o.TokenLimit, queueLimit: o.QueueLimit, order: o.QueueOrder}
	l.step, l.span = wholeMicros(int64(o.TokensPerPeriod), int64(o.TokenLimit), o.ReplenishmentPeriod)
	l.bucket = machine.Terms{Kind: machine.TokenBucket, Limit: l.limit, Step: int(l.step), Span: l.span}
	return l.describe(lasts(l.bucket.FillTime()))
}

// TokenBucket is a [core.TokenBucket] that processes share; the package documentation says how.
// It is a [core.Limiter], [core.Reporter], [core.Idler], [core.Settler], [core.Refunder],
// [core.Resetter], [core.Replenisher] and [io.Closer], and safe for concurrent use. Make it with
// [NewTokenBucket]; the zero value fails with [core.ErrClosed].
type TokenBucket struct{ rateLimiter }

// NewTokenBucket returns a limiter that shares the bucket of its Key, or an error that reports all
// invalid options. If the store has no such bucket, it is full. NewTokenBucket does not ask the store.
func NewTokenBucket(o TokenBucketOptions) (*TokenBucket, error) {
	return made(new(TokenBucket), &o)
}

// Options returns the current options: those of the constructor or of the latest Update, with the defaults of Shared.
func (l *TokenBucket) Options() TokenBucketOptions {
	return *optionsOf(&l.engine, new(TokenBucketOptions))
}

// Update applies new options in this process; [core.TokenBucket.Update] says what happens to waiters. Shared must be
// zero or unchanged. If the options are bad, nothing changes. After Close, Update returns [core.ErrClosed].
//
// Tokens that are missing stay missing, and come back at the new rate. If the limit grows, the difference is available
// immediately; if it shrinks, fewer tokens are available, and the bucket may be in debt. If the rate changes, leases from before
// return nothing when they are settled. Other processes continue with their own options. While the options differ, a process
// with the larger limit may grant the difference once more.
func (l *TokenBucket) Update(o TokenBucketOptions) error { return l.update(&o) }
