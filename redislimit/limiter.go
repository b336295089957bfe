package redislimit

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
)

// options are the options of one of the four limiters.
type options interface {
	shared() *StoreOptions

	// limits returns the limits as the scripts take them, or reports what is wrong with the options.
	limits(*faults) *limits
}

// init makes the engine ready, or returns everything that is wrong with the options. It fills in their defaults.
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
	return nil
}

// update applies other options; apply is called with the mutex held.
func (e *engine) update(o options, apply func()) error {
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
	return e.apply(limits, apply)
}

// String returns a human-readable line: what the limiter is, its name, key and statistics. It
// does not ask the store.
func (e *engine) String() string {
	if e.shared.Store == nil {
		return "redislimit: not made by its constructor"
	}
	e.mu.Lock()
	defer e.unlock()
	kind := e.limits.title
	if name := e.limits.name; name != "" {
		kind += fmt.Sprintf(" %q", name)
	}
	return fmt.Sprintf("%s at %q: %v", kind, e.shared.Key, e.statisticsLocked())
}

// rateLimiter is a limiter whose permits come back with time.
type rateLimiter struct{ engine }

// Reset makes the limiter as new, for all processes: all permits are available, and debts are
// gone. Statistics stay, and this process' waiters are served. Leases from before give nothing
// back. It returns when the store has answered, or Timeout is over; if the store is unreachable,
// nothing happens. What other processes have prefetched they may still spend.
func (r *rateLimiter) Reset() {
	r.perform(func() *operation {
		r.memory.prefetch.permits = 0
		return resetAll()
	})
}

// GiveBack returns n permits for which there is no lease any more, for all processes: the limiter is as if n permits fewer
// had been taken, the oldest ones first. It returns at most what is missing, pays debts first, and serves this process'
// waiters that now fit. Settling leases from before may then give back nothing. n <= 0 does nothing. It returns when the
// store has answered, or Timeout is over; if the store is unreachable, nothing happens. If the lease is still there, use
// Settle or Refund.
func (r *rateLimiter) GiveBack(n int) {
	if n > 0 {
		r.do(giveBackAny(min(int64(n), most)))
	}
}

// TryReplenish does nothing and returns false: permits come back by themselves.
func (*rateLimiter) TryReplenish() bool { return false }

// AutoReplenishing returns true: permits come back by themselves.
func (r *rateLimiter) AutoReplenishing() bool { return r.shared.Store != nil }

// ReplenishmentPeriod returns the time from one replenishment to the next, as the store counts
// it: a bucket's period, the length of a fixed window or of a sliding window's segment.
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
