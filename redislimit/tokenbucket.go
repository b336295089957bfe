package redislimit

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
)

// TokenBucketOptions are the terms of a [TokenBucket]: core's, and where it is.
//
// The period counts in whole microseconds: one that is none is rounded up; where that would
// lower the rate by more than 0.1 %, tokens and period are scaled together, to at most 1 ms
// and as far as the TokenLimit allows. The TokenLimit is at most 2^52. ManualReplenishment
// is refused.
type TokenBucketOptions struct {
	core.TokenBucketOptions

	Shared Shared
}

func (o TokenBucketOptions) validate(f *faults) {
	_, err := core.NewTokenBucket(o.TokenBucketOptions)
	f.core(err)
	f.limit("TokenLimit", o.TokenLimit)
	f.longest("ReplenishmentPeriod", o.ReplenishmentPeriod)
	f.manual(o.ManualReplenishment)
}

func (o TokenBucketOptions) terms() *terms {
	t := terms{kind: kindBucket, name: o.Name, limit: o.TokenLimit, queueLimit: o.QueueLimit, order: o.QueueOrder}
	t.step, t.span = wholeMicros(int64(o.TokensPerPeriod), int64(o.TokenLimit), o.ReplenishmentPeriod)
	ticks := &forecast{t: &t}
	return t.complete(lasts(ticks.tickAfter(ticks.ticks(int64(t.limit)))))
}

// TokenBucket is core's token bucket, shared by processes. See [core.TokenBucket] for what
// it does, and the package's documentation for how. It is a [core.Limiter], [core.Reporter],
// [core.Idler], [core.Refunder], [core.Replenisher] and [io.Closer], safe for concurrent
// use. Make it with [NewTokenBucket]; the zero value refuses with [core.ErrClosed].
type TokenBucket struct {
	rate

	options inForce[TokenBucketOptions]
}

// NewTokenBucket returns a limiter that shares its Key's state, which is full if there is
// none, or what is wrong with the options, all at once. The store is not asked.
func NewTokenBucket(o TokenBucketOptions) (*TokenBucket, error) {
	f := faults{options: "TokenBucketOptions"}
	o.validate(&f)
	f.shared(o.Shared)
	if err := f.err(); err != nil {
		return nil, err
	}
	l := new(TokenBucket)
	l.options.set(o)
	l.start(o.Shared, o.terms())
	return l, nil
}

// Update puts new limits in force, in this process, and has the store take note: the bucket
// keeps the tokens that it has, at most its new limit. The next tokens come when they were
// due, or one new period from now, whichever is first. The queue stays; who now fits is
// served at once, who now asks for more than the limit gets [core.ErrPermitsExceedLimit]. Shared must be zero or
// what it was. Bad options change nothing. After Close it returns [core.ErrClosed].
//
// Others go on with their own limits, less what is missing in the store. As a bucket that shrinks leaves no
// debt, one that still has the larger limit may grant the difference once more.
func (l *TokenBucket) Update(o TokenBucketOptions) error {
	f := faults{options: "TokenBucketOptions"}
	o.validate(&f)
	return update(&l.engine, &f, o.Shared, func() *terms {
		o.Shared = l.shared
		l.options.set(o)
		return o.terms()
	})
}

// Options returns the options in force: those of [NewTokenBucket] or of the latest Update,
// with Shared's defaults filled in.
func (l *TokenBucket) Options() TokenBucketOptions {
	o := l.options.get()
	o.Shared = l.shared
	return o
}

// ReplenishmentPeriod returns the time from one replenishment to the next, as the store
// counts it.
func (l *TokenBucket) ReplenishmentPeriod() time.Duration { return lasts(l.terms().span) }

// String returns a line for a person: the name, the rate, the key and the statistics. The
// store is not asked.
func (l *TokenBucket) String() string {
	t := l.terms()
	return l.describe(fmt.Sprintf("token bucket of %d per %v", t.step, lasts(t.span)))
}
