package core

import (
	"context"
	"time"
)

// Limiter decides whether an operation may proceed, and hands out permits as a [Lease].
//
// Implementations are safe for concurrent use. The checks come in this order: negative
// permits are refused with [ErrNegativePermits]; Acquire with a context that is done
// returns its error, even if permits are free; a closed limiter refuses with
// [ErrClosed]; more permits than the limit are refused at once with
// [ErrPermitsExceedLimit]. None of these counts in the [Statistics].
//
// Zero permits is a probe: it is acquired if at least one permit is available, whatever
// is queued, and takes nothing.
type Limiter interface {
	// TryAcquire takes permits if they can be had now. It never blocks. The lease says
	// whether it was acquired; if not, its Err says why and its metadata when to retry.
	TryAcquire(permits int) Lease

	// Acquire takes permits, waiting in the limiter's queue if need be. If it returns an
	// error, the lease beside it is not acquired, has that error, and carries the
	// refusal's metadata. A done ctx ends the wait with ctx.Err(), unchanged; of a grant
	// and a cancellation that race exactly one wins, and a cancelled Acquire keeps nothing.
	Acquire(ctx context.Context, permits int) (Lease, error)

	// Available estimates how many permits could be taken now. It is for diagnostics: by
	// the time it returns, the answer may be another.
	Available() int
}

// Reporter is a Limiter that counts what it does.
type Reporter interface {
	Statistics() Statistics
}

// Idler is a Limiter that knows since when it has been idle: all its permits are
// available. A map of limiters can tell by it which ones to drop.
type Idler interface {
	// IdleFor returns how long every permit has been available, and whether that is so.
	IdleFor() (d time.Duration, idle bool)
}

// Refunder is a Limiter that can undo an acquisition that was not used.
type Refunder interface {
	// Refund gives the lease's permits back, at once and at most once per lease: to a rate
	// limiter too, never above its limit, and as far as they are still missing because of the
	// grant. For a concurrency limiter it is Release. It comes before Release: after it, it may
	// do nothing. A lease that was not acquired, or not from this limiter, is ignored.
	Refund(Lease)
}

// Settler is a Limiter in which the cost of a grant can be put right once it is known: the
// tokens of a language model, the rows of a query, the bytes of an answer. All limiters of this
// package are Settlers. Refund(l) is Settle(l, 0).
type Settler interface {
	// Settle says that the grant of l has cost permits. The lease that it returns stands in the
	// place of l, acquired, of so many permits, with the metadata of l; l and its copies are
	// spent, and to release, refund or settle them does nothing.
	//
	// If the grant has cost less, the difference is given back, as by Refund, and waiters that
	// now fit are served. If it has cost more, the difference is taken at once, even above the
	// limit: Settle does not wait and is not refused, and until that debt is paid nothing is
	// available. Permits below 0 count as 0. A lease that is not acquired, is another limiter's
	// or is spent comes back as it is, and nothing happens. Settle counts in no statistic.
	Settle(l Lease, permits int) Lease
}

// Resetter is a rate limiter, or a chain of some, that can be made as new.
type Resetter interface {
	// Reset fills a bucket, empties a window, forgets debts and serves waiters. The statistics
	// go on. A chain resets those of its limiters that are Resetters.
	Reset()
}

// Replenisher is a rate limiter: its permits come back with time.
type Replenisher interface {
	// TryReplenish applies what is due by now and reports whether permits came back. Under
	// automatic replenishment it changes nothing and returns false.
	TryReplenish() bool

	// ReplenishmentPeriod is the time from one replenishment to the next: a bucket's
	// period, a fixed window, a sliding window's segment (rounded down to the nanosecond).
	ReplenishmentPeriod() time.Duration

	// AutoReplenishing reports whether permits come back by themselves.
	AutoReplenishing() bool
}
