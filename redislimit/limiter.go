package redislimit

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// New returns a limiter that shares a limit with all limiters of the same Key, or an error that lists all invalid options. limit is
// one of [core.TokenBucketOptions], [core.FixedWindowOptions], [core.SlidingWindowOptions] and [core.ConcurrencyLimiterOptions]. If
// the store has no such limit yet, all permits are available. New does not call the store.
//
// Limits go up to 2^52 permits. ManualReplenishment is not supported. Times count in whole microseconds:
//
//   - A bucket's period is rounded up. If rounding would lower the rate by more than 0.1 %, tokens and period are multiplied by the same
//     factor, up to a period of 1 ms and TokenLimit tokens.
//   - A window has whole microseconds, and at most 2^26 segments, which are at least a microsecond long. The Anchor is rounded up; a
//     zero Anchor means the Unix epoch, so that all processes have the same windows.
//   - Under a Calendar the server's clock decides which window is current, so processes with wrong clocks share one quota. They need the
//     same time zone data. If the server's clock goes back, a window in which permits are taken stays current.
func New(limit core.Options, o Options) (*Limiter, error) {
	o = o.withDefaults()
	f := newFaults()
	limits := limitsOf(limit, o.TTL, f)
	o.validate(f)
	if err := f.Err(); err != nil {
		return nil, err
	}
	e := new(Limiter)
	e.waits = backdoor.WaitsBy(e, e.acquireWaiting)
	e.start(o, limits)
	return e, nil
}

// Apply applies other limits of the same kind in this process; the Update methods of package core say what happens to waiters. If the
// limits are invalid or of another kind, nothing changes, and Apply returns an error. After Close it returns [core.ErrClosed].
//
// Permits that are taken or held stay so. Tokens of a bucket are returned at the new rate; if its limit grows, the difference is available
// immediately, and if it shrinks, the bucket may be in debt. If a bucket's rate changes, leases from before return nothing when they are
// settled. Permits of a window are returned as the options said under which they were taken.
//
// Other processes continue with their own limits. While the limits differ, each process decides by its own.
func (e *Limiter) Apply(limit core.Options) error {
	if e.options.Store == nil {
		return core.ErrClosed
	}
	f := newFaults()
	limits := limitsOf(limit, e.options.TTL, f)
	if f.Err() == nil && limits.kind != e.kind {
		f.Addf("%q is %v, want no %v", e.options.Key, e.kind, limits.kind.noun())
	}
	if err := f.Err(); err != nil {
		return err
	}
	return e.apply(limits)
}

// String returns a human-readable line: the limiter's kind, key and statistics. It does not call the store.
func (e *Limiter) String() string {
	if e.options.Store == nil {
		return "redislimit: not made by its constructor"
	}
	e.mu.Lock()
	defer e.unlock()
	return fmt.Sprintf("%v at %q: %v", e.kind, e.options.Key, e.statisticsLocked())
}

// Reset resets a rate limit for all processes: all permits are available, and debts are canceled.
// This process's waiters are served. Statistics stay. Leases from before the Reset return nothing
// when they are settled. Other processes may still spend the permits that they have prefetched.
// Reset returns when the store has replied or Timeout is over. If the store is unavailable, nothing
// happens; use TryReset to find out. Reset of a concurrency limit does nothing.
func (e *Limiter) Reset() { _ = e.TryReset() }

// errNoRate is the error of what only a rate limit can do.
var errNoRate = errors.New("redislimit: a concurrency limit's permits come back when leases are released")

// TryReset is like Reset, but returns an error if the store did not confirm the reset. If the store is unavailable, the error matches
// [ErrStore]; after a timeout the limit may have been reset anyway. TryReset may be called after Close. It returns an error for a
// concurrency limit.
func (e *Limiter) TryReset() error {
	switch {
	case e.options.Store == nil:
		return core.ErrClosed
	case e.kind == kindConcurrency:
		return errNoRate
	}
	return e.perform(func() *task {
		e.cache.prefetch.permits = 0
		return e.task(resetOp())
	}).err
}

// GiveBack returns n permits of a rate limit whose lease no longer exists, for all processes. It pays debts first and never returns more
// than is missing; in a window, the oldest permits are returned. It serves this process's waiters that now fit. Leases from before
// may return nothing when they are settled afterwards. If n <= 0, or for a concurrency limit, GiveBack does nothing. It returns when the
// store has replied or Timeout is over. If the store is unavailable, nothing happens. If you still have the lease, use its Settle or
// Refund.
func (e *Limiter) GiveBack(n int) {
	if !e.AutoReplenishing() {
		return
	}
	for left := min(int64(n), maxNumber); left > 0; {
		t := e.do(returnOp(left))
		if left -= t.result.done; t.result.retry == 0 { // a window is to be asked again if it has returned many segments
			return
		}
	}
}

// TryReplenish does nothing and returns false, because permits are returned by themselves.
func (*Limiter) TryReplenish() bool { return false }

// AutoReplenishing reports whether the limiter is a rate limiter.
func (e *Limiter) AutoReplenishing() bool { return e.options.Store != nil && e.kind != kindConcurrency }

// ReplenishmentPeriod returns the time from one replenishment to the next, as the store counts it: the period of a bucket, or
// the length of a fixed window or of a sliding window's segment. It is 0 for a concurrency limit.
func (e *Limiter) ReplenishmentPeriod() time.Duration {
	if !e.AutoReplenishing() {
		return 0
	}
	e.mu.Lock()
	defer e.unlock()
	l := e.limits
	switch {
	case l.kind == kindBucket:
		return lasts(l.span)
	case l.ofCalendar():
		return l.windowOf(e.cache.window)
	}
	return lasts(l.span) / time.Duration(l.step)
}
