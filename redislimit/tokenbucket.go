package redislimit

import (
	"fmt"

	"github.com/sluice-go/sluice/core"
)

// TokenBucketOptions are the options of a [TokenBucket].
//
// The period counts in whole microseconds: another one is rounded up or, where that would lower
// the rate by more than 0.1 %, tokens and period are scaled together, to at most 1 ms and as
// far as the TokenLimit allows. The TokenLimit is at most 2^52. ManualReplenishment is not
// supported.
type TokenBucketOptions struct {
	core.TokenBucketOptions

	Shared Shared
}

func (TokenBucketOptions) name() string                       { return "TokenBucketOptions" }
func (o TokenBucketOptions) shared() Shared                   { return o.Shared }
func (o TokenBucketOptions) with(s Shared) TokenBucketOptions { o.Shared = s; return o }

func (o TokenBucketOptions) validate(f *faults) {
	_, err := core.NewTokenBucket(o.TokenBucketOptions)
	f.core(err)
	f.order(o.QueueOrder)
	f.limit("TokenLimit", o.TokenLimit)
	f.longest("ReplenishmentPeriod", o.ReplenishmentPeriod)
	f.manual(o.ManualReplenishment)
}

func (o TokenBucketOptions) terms(Shared) *terms {
	t := terms{kind: kindBucket, name: o.Name, limit: o.TokenLimit, queueLimit: o.QueueLimit, order: o.QueueOrder}
	t.step, t.span = wholeMicros(int64(o.TokensPerPeriod), int64(o.TokenLimit), o.ReplenishmentPeriod)
	return t.describe(lasts(t.spans(t.ticks(int64(t.limit)))))
}

// title returns the rate, as the store counts it.
func (o TokenBucketOptions) title() string {
	step, span := wholeMicros(int64(o.TokensPerPeriod), int64(o.TokenLimit), o.ReplenishmentPeriod)
	return fmt.Sprintf("token bucket of %d per %v", step, lasts(span))
}

// TokenBucket is a [core.TokenBucket] that processes share; the package documentation says how.
// It is a [core.Limiter], [core.Reporter], [core.Idler], [core.Settler], [core.Refunder],
// [core.Resetter], [core.Replenisher] and [io.Closer], and safe for concurrent use. Make it with
// [NewTokenBucket]; the zero value refuses with [core.ErrClosed].
type TokenBucket struct {
	rateLimiter[TokenBucketOptions]
}

// NewTokenBucket returns a limiter that shares the bucket of its Key, which is full if there is
// none, or an error with everything that is wrong with the options. It does not ask the store.
func NewTokenBucket(o TokenBucketOptions) (*TokenBucket, error) {
	l := new(TokenBucket)
	if err := l.init(o); err != nil {
		return nil, err
	}
	return l, nil
}
