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
	l.title = fmt.Sprintf("token bucket of %d per %v", l.step, lasts(l.span))
	return l.describe(lasts(l.spans(l.ticks(int64(l.limit)))))
}

// TokenBucket is a [core.TokenBucket] that processes share; the package documentation says how.
// It is a [core.Limiter], [core.Reporter], [core.Idler], [core.Settler], [core.Refunder],
// [core.Resetter], [core.Replenisher] and [io.Closer], and safe for concurrent use. Make it with
// [NewTokenBucket]; the zero value refuses with [core.ErrClosed].
type TokenBucket struct {
	rateLimiter

	options TokenBucketOptions // guarded by mu
}

// NewTokenBucket returns a limiter that shares the bucket of its Key, which is full if there is
// none, or an error with everything that is wrong with the options. It does not ask the store.
func NewTokenBucket(o TokenBucketOptions) (*TokenBucket, error) {
	l := new(TokenBucket)
	if err := l.init(&o); err != nil {
		return nil, err
	}
	l.options = o
	return l, nil
}

// Options returns the current options: those of the constructor or of the latest Update, with the defaults of Shared.
func (l *TokenBucket) Options() TokenBucketOptions {
	l.mu.Lock()
	defer l.unlock()
	return l.options
}

// Update applies new options in this process; [core.TokenBucket.Update] says what happens to waiters. Shared must be
// zero or unchanged. If the options are bad, nothing changes. After Close, Update returns [core.ErrClosed].
//
// Permits that are taken stay taken. Other processes continue with their own options, so while the options differ, a
// process with the larger limit may grant the difference once more.
func (l *TokenBucket) Update(o TokenBucketOptions) error {
	return l.update(&o, func() { l.options = o })
}
