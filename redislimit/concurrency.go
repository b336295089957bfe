package redislimit

import (
	"time"

	"github.com/sluice-go/sluice/core"
)

// ConcurrencyLimiterOptions are the terms of a [ConcurrencyLimiter]: core's, and where it
// is. The PermitLimit is at most 2^52.
type ConcurrencyLimiterOptions struct {
	core.ConcurrencyLimiterOptions

	Shared Shared
}

func (o ConcurrencyLimiterOptions) validate(f *faults) {
	_, err := core.NewConcurrencyLimiter(o.ConcurrencyLimiterOptions)
	f.core(err)
	f.limit("PermitLimit", o.PermitLimit)
}

func (o ConcurrencyLimiterOptions) terms(ttl time.Duration) *terms {
	return terms{
		kind: kindConcurrency, name: o.Name, limit: o.PermitLimit, queueLimit: o.QueueLimit, order: o.QueueOrder,
		span: int64(ttl / time.Microsecond),
	}.complete(0)
}

// ConcurrencyLimiter bounds how many permits are held at once by all processes together. A
// lease holds its own until it is released, and is renewed until then; if it can't be for
// [Shared].TTL it is lost, and its permits go to others: see [Context]. It has a
// [FencingToken].
//
// See [core.ConcurrencyLimiter] for all else. It is a [core.Limiter], [core.Reporter],
// [core.Idler], [core.Refunder] and [io.Closer], safe for concurrent use. Make it with
// [NewConcurrencyLimiter]; the zero value refuses with [core.ErrClosed].
type ConcurrencyLimiter struct {
	engine

	options inForce[ConcurrencyLimiterOptions]
}

// NewConcurrencyLimiter returns a limiter that shares its Key's state, or what is wrong with
// the options, all at once. The store is not asked.
func NewConcurrencyLimiter(o ConcurrencyLimiterOptions) (*ConcurrencyLimiter, error) {
	f := faults{options: "ConcurrencyLimiterOptions"}
	o.validate(&f)
	f.shared(o.Shared)
	if err := f.err(); err != nil {
		return nil, err
	}
	l := new(ConcurrencyLimiter)
	l.options.set(o)
	l.start(o.Shared, o.terms(o.Shared.withDefaults().TTL))
	return l, nil
}

// Update puts new limits in force, in this process. What is held stays held: shrunk below
// it, the limiter has nothing available until enough has come back. The queue stays; who now
// fits is served at once, who now asks for more than the limit gets
// [core.ErrPermitsExceedLimit]. Shared must be zero or what it was. Bad options change
// nothing. After Close it returns [core.ErrClosed].
func (l *ConcurrencyLimiter) Update(o ConcurrencyLimiterOptions) error {
	f := faults{options: "ConcurrencyLimiterOptions"}
	o.validate(&f)
	return update(&l.engine, &f, o.Shared, func() *terms {
		o.Shared = l.shared
		l.options.set(o)
		return o.terms(l.shared.TTL)
	})
}

// Options returns the options in force: those of [NewConcurrencyLimiter] or of the latest
// Update, with Shared's defaults filled in.
func (l *ConcurrencyLimiter) Options() ConcurrencyLimiterOptions {
	o := l.options.get()
	o.Shared = l.shared
	return o
}

// String returns a line for a person: the name, the key and the statistics. The store is
// not asked.
func (l *ConcurrencyLimiter) String() string { return l.describe("concurrency limiter") }
