package redislimit

import (
	"time"

	"github.com/sluice-go/sluice/core"
)

// ConcurrencyLimiterOptions are the options of a [ConcurrencyLimiter]. The PermitLimit is at
// most 2^52.
type ConcurrencyLimiterOptions struct {
	core.ConcurrencyLimiterOptions

	Shared StoreOptions
}

func (o *ConcurrencyLimiterOptions) shared() *StoreOptions { return &o.Shared }

func (o *ConcurrencyLimiterOptions) limits(f *faults) *limits {
	_, err := core.NewConcurrencyLimiter(o.ConcurrencyLimiterOptions)
	f.core(err, "PermitLimit", o.PermitLimit, o.QueueOrder, false)
	if f.found() {
		return nil
	}
	return limits{
		kind: kindConcurrency, name: o.Name, limit: o.PermitLimit, queueLimit: o.QueueLimit, order: o.QueueOrder,
		span: int64(o.Shared.TTL / time.Microsecond), title: "concurrency limiter",
	}.describe(0)
}

// ConcurrencyLimiter is a [core.ConcurrencyLimiter] that processes share: all of them together
// hold at most PermitLimit permits. A lease holds its permits until it is released, and is
// renewed until then. If it cannot be for [StoreOptions].TTL it is lost, and its permits go to others;
// [Context] ends before that. Each lease has a [FencingToken].
//
// It is a [core.Limiter], [core.Reporter], [core.Idler], [core.Settler], [core.Refunder] and
// [io.Closer], and safe for concurrent use. It is no [core.Resetter]: what is held stays held.
// Make it with [NewConcurrencyLimiter]; the zero value refuses with [core.ErrClosed].
type ConcurrencyLimiter struct {
	limiter[ConcurrencyLimiterOptions, *ConcurrencyLimiterOptions]
}

// NewConcurrencyLimiter returns a limiter that shares the leases of its Key, or an error with
// everything that is wrong with the options. It does not ask the store.
func NewConcurrencyLimiter(o ConcurrencyLimiterOptions) (*ConcurrencyLimiter, error) {
	l := new(ConcurrencyLimiter)
	if err := l.init(o); err != nil {
		return nil, err
	}
	return l, nil
}
