package redislimit

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
)

// options are the options of one of the four limiters.
type options interface {
	shared() *StoreOptions

	// limits returns the limits in the form that the scripts take, or reports errors in the options.
	limits(*faults) *limits
}

// init makes the engine ready for use, or returns all errors in the options. It fills in their defaults.
func (e *engine) init(o options) error {
	shared := o.shared()
	*shared = shared.withDefaults()
	f := faultsOf(o)
	limits := o.limits(&f)
	f.shared(*shared)
	if f.found() {
		return f.err()
	}
	e.start(*shared, limits)
	e.options = o
	return nil
}

// made returns a new limiter, ready for use, or all errors in its options.
func made[L interface{ init(o options) error }](l L, o options) (L, error) {
	if err := l.init(o); err != nil {
		var none L
		return none, err
	}
	return l, nil
}

// optionsOf returns the current options; none in a zero value.
func optionsOf[O options](e *engine, none O) O {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.options == nil {
		return none
	}
	return e.options.(O)
}

// update applies other options.
func (e *engine) update(o options) error {
	if e.shared.Store == nil {
		return core.ErrClosed
	}
	f := faultsOf(o)
	f.unchanged(*o.shared(), e.shared)
	*o.shared() = e.shared
	limits := o.limits(&f)
	if f.found() {
		return f.err()
	}
	return e.apply(o, limits)
}

// String returns a human-readable description: the limiter's kind, key and statistics. It does not ask the store.
func (e *engine) String() string {
	if e.shared.Store == nil {
		return "redislimit: not made by its constructor"
	}
	e.mu.Lock()
	defer e.unlock()
	return fmt.Sprintf("%v at %q: %v", e.kind, e.shared.Key, e.statisticsLocked())
}

// rateLimiter is a limiter whose permits come back with time.
type rateLimiter struct{ engine }

// Reset resets the limit for all processes: all permits are available, and debts are canceled.
// This process's waiters are served. Statistics stay. Leases from before the Reset return nothing
// when they are settled. Other processes may still spend the permits that they have prefetched.
// Reset returns when the store has replied or Timeout is over. If the store is unreachable, nothing
// happens; use TryReset to find out.
func (r *rateLimiter) Reset() { _ = r.TryReset() }

// TryReset is Reset, and returns an error if the store has not confirmed the reset. The error matches [ErrStore] if the store is
// unreachable; after a timeout the limit may be reset all the same. TryReset works after Close, too.
func (r *rateLimiter) TryReset() error {
	o := r.perform(func() *operation {
		r.memory.prefetch.permits = 0
		return resetOp()
	})
	if o == nil {
		return core.ErrClosed // it was not made by its constructor
	}
	return o.err
}

// GiveBack returns n permits for which there is no lease any more, for all processes. It takes them from those that were taken
// first, pays debts first, and returns at most the permits that are missing. It serves this process's waiters that now fit.
// Leases from before may return nothing when they are settled afterwards. If n <= 0, GiveBack does nothing. It returns when the
// store has replied or Timeout is over. If the store is unreachable, nothing happens. If you still have the lease, use Settle
// or Refund.
func (r *rateLimiter) GiveBack(n int) {
	if n > 0 {
		r.do(returnOp(min(int64(n), maxNumber)))
	}
}

// TryReplenish does nothing and returns false, because permits come back by themselves.
func (*rateLimiter) TryReplenish() bool { return false }

// AutoReplenishing returns true, because permits come back by themselves.
func (r *rateLimiter) AutoReplenishing() bool { return r.shared.Store != nil }

// ReplenishmentPeriod returns the time from one replenishment to the next, as the store counts it: the period of a bucket, or
// the length of a fixed window or of a sliding window's segment.
func (r *rateLimiter) ReplenishmentPeriod() time.Duration {
	if r.shared.Store == nil {
		return 0
	}
	r.mu.Lock()
	defer r.unlock()
	l := r.limits
	switch {
	case l.kind == kindBucket:
		return lasts(l.span)
	case l.ofCalendar():
		return l.windowOf(r.memory.window)
	}
	return lasts(l.span) / time.Duration(l.step)
}
