package core

import (
	"context"
	"time"
)

// Limiter decides whether an operation may proceed, and grants permits as a [Lease].
//
// Implementations are safe for concurrent use. They check a request in this order: fewer than
// zero permits fail with [ErrNegativePermits]; Acquire with a context that is already done
// returns the context's error, even if permits are free; a closed limiter fails with
// [ErrClosed]; more permits than the limit fail at once with [ErrPermitsExceedLimit]. None of
// these failures counts in the [Statistics].
//
// A request for zero permits takes nothing. It is granted if at least one permit is available,
// whatever is queued; otherwise TryAcquire rejects it, and Acquire waits until a permit is
// available, whatever the queue limit is.
type Limiter interface {
	// TryAcquire takes permits if they are available now. It never blocks. The lease reports
	// whether it was acquired; if not, its Err is the reason and its metadata may say when to
	// retry.
	TryAcquire(permits int) Lease

	// Acquire takes permits, waiting in the limiter's queue if necessary. If it returns an
	// error, the returned lease is not acquired, has that error, and carries the metadata of
	// the rejection. If ctx is done, Acquire stops waiting and returns ctx.Err(), unchanged. If
	// a grant and a cancellation race, exactly one of them wins, and a cancelled Acquire keeps
	// no permits. A limiter that knows when the permits come, as a rate limiter does, may reject
	// at once a request whose wait would outlast ctx's deadline.
	Acquire(ctx context.Context, permits int) (Lease, error)

	// Available estimates how many permits could be taken now. It is for diagnostics: the
	// number may have changed by the time it returns.
	Available() int
}

// Reporter is a Limiter that counts its decisions.
type Reporter interface {
	// Statistics returns the counts.
	Statistics() Statistics
}

// Idler is a Limiter that knows how long it has been idle, which means that all its permits are
// available. A map of limiters uses it to choose which ones to drop.
type Idler interface {
	// IdleFor returns how long all permits have been available, and whether they are.
	IdleFor() (d time.Duration, idle bool)
}

// QuietTrier is a Limiter that can be tried without a trace. All limiters of this package are
// QuietTriers, and so are the views that its functions return.
type QuietTrier interface {
	// TryQuietly is TryAcquire, but a rejection is not counted and no reason is given. If it
	// returns false, it has taken nothing. It never blocks. Call it through the function
	// [TryQuietly].
	TryQuietly(permits int) (Lease, bool)
}

// Refunder is a Limiter that can undo a grant that was not used.
type Refunder interface {
	// Refund gives the lease's permits back, at once. A rate limiter takes them back too, but
	// never above its limit, and only as far as they are certain to be still missing because of
	// the grant. For a concurrency limiter, Refund is Release. Call Refund once, and instead of
	// Release or before it: after Release it may do nothing, and a rate limiter remembers
	// nothing of a lease, so that a second call gives back again. Refund ignores a lease that
	// was not acquired, or that another limiter granted.
	Refund(Lease)
}

// Settler is a Limiter that can correct the cost of a grant once the cost is known: the tokens
// of a language model, the rows of a query, the bytes of a response. All limiters of this
// package are Settlers. Refund(l) is Settle(l, 0).
type Settler interface {
	// Settle records that the grant of l has cost permits. It returns a lease that replaces l:
	// acquired, of that number of permits, with the metadata of l. If permits is what l has, it
	// is l.
	//
	// If the grant has cost less, Settle gives the difference back, as Refund does, and serves
	// the waiters that now fit. If the grant has cost more, Settle takes the difference at
	// once, even above the limit: it neither waits nor is rejected, and nothing is available
	// until that debt is paid. Permits below 0 count as 0. A lease that is not acquired, or that
	// another limiter granted, is returned unchanged, and nothing happens. Settle does not
	// count in the statistics.
	//
	// Settle a lease once. A lease that holds permits, which are those of concurrency limiters,
	// of chains and of [Grant], is spent with its copies: releasing, refunding or settling them
	// again does nothing. For a rate limiter's lease each call counts.
	Settle(l Lease, permits int) Lease
}

// Resetter is a rate limiter, or a chain that contains one, that can return to its initial
// state.
type Resetter interface {
	// Reset fills a bucket, empties a window, forgets debts and serves waiters. The statistics
	// continue. A chain resets those of its limiters that are Resetters.
	Reset()
}

// As returns l, or the first of the limiters that it is a view of, that is a T: a [Reporter], an
// [Idler], a [Replenisher], a [Resetter] or an [io.Closer], say. It returns false if none is. It
// looks through limiters that have a method Unwrap() Limiter, as errors.AsType looks through
// errors.
//
// As is for interfaces that look at a limiter or steer it. To take permits, or to give them back,
// through a limiter that a view hides would bypass the view: for [QuietTrier], [Refunder] and
// [Settler] use a type assertion on the limiter itself.
func As[T any](l Limiter) (T, bool) {
	for l != nil {
		if t, ok := l.(T); ok {
			return t, true
		}
		u, ok := l.(interface{ Unwrap() Limiter })
		if !ok {
			break
		}
		l = u.Unwrap()
	}
	var none T
	return none, false
}

// TryQuietly is TryAcquire, but a rejection leaves no trace: it is not counted, and no reason
// is given. It is for a caller that tries before it waits. If it returns false, it has taken
// nothing; if l is a chain, the limiters that came before the one that rejected have counted a
// grant. For a limiter that is not a [QuietTrier], and for one that embeds a limiter of this
// package, TryQuietly always returns false.
func TryQuietly(l Limiter, permits int) (Lease, bool) {
	if q, ok := l.(QuietTrier); ok && !embeds(l) {
		k, ok := q.TryQuietly(permits)
		return k, ok && k.Acquired()
	}
	return Lease{}, false
}

// Replenisher is a rate limiter: its permits come back with time.
type Replenisher interface {
	// TryReplenish adds the permits that are due by now and reports whether any came back.
	// Under automatic replenishment it changes nothing and returns false.
	TryReplenish() bool

	// ReplenishmentPeriod returns the time from one replenishment to the next: a bucket's
	// period, the length of a fixed window, or that of a sliding window's segment, rounded down
	// to the nanosecond.
	ReplenishmentPeriod() time.Duration

	// AutoReplenishing reports whether permits come back without calls of TryReplenish.
	AutoReplenishing() bool
}
