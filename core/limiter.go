package core

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Limiter decides whether an operation may proceed, and grants permits as a [Lease].
//
// Implementations are safe for concurrent use. They check a request in this order:
//
//  1. A request for fewer than zero permits fails with [ErrNegativePermits].
//  2. If the context of Acquire is already done, Acquire returns ctx.Err(), even if permits are
//     available.
//  3. After Close, a request fails with [ErrClosed].
//  4. A request for more permits than the limit fails immediately with [ErrPermitsExceedLimit].
//  5. If the permits are available and, unless the order is [NewestFirst], no other request waits,
//     the request is granted. Otherwise Acquire waits if the queue has room. All other requests are
//     rejected with a *[RejectedError].
//
// The [Statistics] count grants and rejections, and none of the earlier failures.
//
// A request for zero permits takes nothing. It is granted if at least one permit is available,
// even while other requests wait. Otherwise TryAcquire rejects it, and Acquire waits until a
// permit is available, even if QueueLimit is 0.
type Limiter interface {
	// TryAcquire takes permits if they are available now. It does not wait for permits; a
	// limiter of package redislimit may wait for its store. The lease reports whether it was
	// acquired. If it was not, its Err is the reason, and its metadata may say when to retry.
	TryAcquire(permits int) Lease

	// Acquire takes permits. If they are not available, it waits in the limiter's queue. If the
	// queue has no room, as with a QueueLimit of 0, the request is rejected immediately; see "Does
	// Acquire wait?" in the package comment.
	//
	// If ctx is done before or during the wait, Acquire returns ctx.Err(), unchanged. If a grant
	// and a cancellation race, exactly one of them wins, and a canceled Acquire keeps no permits.
	// A rate limiter may immediately reject a request whose wait would outlast ctx's deadline; the
	// error then also matches [context.DeadlineExceeded]. If the limiter is closed during the
	// wait, Acquire returns [ErrClosed].
	//
	// If Acquire returns an error, the returned lease is not acquired, its Err is that error, and
	// its metadata is that of the rejection.
	Acquire(ctx context.Context, permits int) (Lease, error)

	// Available estimates how many permits could be taken now. It is for diagnostics: the
	// number may have changed by the time it returns.
	Available() int
}

// Reporter is implemented by limiters that count their decisions.
type Reporter interface {
	// Statistics returns the counts.
	Statistics() Statistics
}

// Idler is implemented by limiters that know how long they have been idle, which means that all
// their permits are available. A map of limiters uses it to choose which ones to drop.
type Idler interface {
	// IdleFor returns how long all permits have been available. It returns 0 and false if some
	// are not.
	IdleFor() (d time.Duration, idle bool)
}

// QuietTrier is implemented by limiters that can be tried without counting a rejection. All
// limiters of this package are QuietTriers.
type QuietTrier interface {
	// TryQuietly is like TryAcquire, but a rejection is not counted and has no reason. If it returns false, it has
	// taken nothing. The lease's Err is then a *RejectedError without a reason, or one of the other errors of
	// TryAcquire. It does not wait. Call it through the function [TryQuietly].
	TryQuietly(permits int) (Lease, bool)
}

// Resetter is implemented by rate limiters, and by chains that contain one: they can
// return to their initial state.
type Resetter interface {
	// Reset fills a bucket, empties a window, forgets debts and serves waiters. The statistics
	// continue. A chain resets those of its limiters that are Resetters.
	Reset()
}

// As returns l, or the first limiter below it, that has type T. It follows the method
// Unwrap() Limiter, as errors.As does for errors, and returns false if no limiter matches.
//
// Use As to inspect or control a limiter, for example as a [Reporter], [Idler], [Replenisher],
// [Resetter] or [io.Closer]. Do not use it to take permits, because that would bypass the wrappers: for
// [QuietTrier] use the function [TryQuietly], and for [Reserver] a type assertion on l.
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

// Replenisher is implemented by rate limiters, whose permits become available again with
// time.
type Replenisher interface {
	// TryReplenish adds the permits that are due by now and reports whether any were returned.
	// Under automatic replenishment, and after Close, it changes nothing and returns false.
	TryReplenish() bool

	// ReplenishmentPeriod returns the time from one replenishment to the next: a bucket's
	// period, the length of a fixed window, or the length of a sliding window's segment, rounded
	// down to the nanosecond. With a [Calendar] it is the length of the current window.
	ReplenishmentPeriod() time.Duration

	// AutoReplenishing reports whether permits are returned without calls of TryReplenish.
	AutoReplenishing() bool
}

// Statistics is a snapshot of a limiter's state and counts. Each field was correct at some time
// during the call.
type Statistics struct {
	Limit     int    // current limit, in permits
	Available int    // permits that are not taken
	Queued    int    // permits (not requests) waiting
	Granted   uint64 // leases granted, including those of zero permits
	Rejected  uint64 // requests rejected: failed tries, full queue, evictions, deadlines too soon
}

// String returns a human-readable line: the fields.
func (s Statistics) String() string {
	return fmt.Sprintf("%d of %d available, %d queued, %d granted, %d rejected",
		s.Available, s.Limit, s.Queued, s.Granted, s.Rejected)
}

// LogValue implements [slog.LogValuer] with a group of the five fields.
func (s Statistics) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("limit", s.Limit),
		slog.Int("available", s.Available),
		slog.Int("queued", s.Queued),
		slog.Uint64("granted", s.Granted),
		slog.Uint64("rejected", s.Rejected),
	)
}

// Reserver is a rate limiter that can promise permits for later. The rate limiters of this package are
// Reservers. A [ChainedLimiter], a [Switch], [WithReason] and [Shadow] have a Reserve that works if the
// limiters below are Reservers.
type Reserver interface {
	// Reserve takes permits now or reserves them, without waiting: see [TokenBucket.Reserve].
	Reserve(permits int) Lease
}

// Must returns v, or panics with err if err is not nil. Use it if the options are constants:
//
//	var mail = core.Must(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 1000, Window: 24 * time.Hour}))
//
// It works with every constructor that returns one value and an error; pipe.New and pipe.Conns return two
// values. If the options come from a flag, a file or a user, handle the error instead.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
