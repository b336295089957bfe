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
		span: int64(o.Shared.TTL / time.Microsecond),
	}.describe(0)
}

// ConcurrencyLimiter is a [core.ConcurrencyLimiter] that processes share: all of them together hold at
// most PermitLimit permits. A lease holds its permits until it is released, and is renewed until then.
// If it cannot be renewed for [StoreOptions].TTL, it is lost, and others may take its permits. [Context]
// ends before that. Each lease has a [FencingToken].
//
// It is a [core.Limiter], [core.Reporter], [core.Idler], [core.Settler], [core.Refunder] and
// [io.Closer], and safe for concurrent use. It is not a [core.Resetter], because permits stay held.
// Make it with [NewConcurrencyLimiter]; the zero value fails with [core.ErrClosed].
type ConcurrencyLimiter struct{ engine }

// NewConcurrencyLimiter returns a limiter that shares the leases of its Key, or an error that reports
// all invalid options. It does not ask the store.
func NewConcurrencyLimiter(o ConcurrencyLimiterOptions) (*ConcurrencyLimiter, error) {
	return made(new(ConcurrencyLimiter), &o)
}

// Options returns the current options: those of the constructor or of the latest Update, with the defaults of Shared.
func (l *ConcurrencyLimiter) Options() ConcurrencyLimiterOptions {
	return *optionsOf(&l.engine, new(ConcurrencyLimiterOptions))
}

// Update applies new options in this process; [core.ConcurrencyLimiter.Update] says what happens to waiters. Shared must be
// zero or unchanged. If the options are bad, nothing changes. After Close, Update returns [core.ErrClosed].
//
// Permits that are held stay held. Other processes continue with their own options. While the options differ, each process
// grants up to its own limit.
func (l *ConcurrencyLimiter) Update(o ConcurrencyLimiterOptions) error { return l.update(&o) }
