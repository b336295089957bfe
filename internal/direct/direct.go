// Package direct is the way into core for the packages of this module: what they need of a
// limiter of core and its users do not.
//
// core installs it; the others ask for it with their lease type, which this package cannot
// name as core imports it:
//
//	ways := direct.Core[core.Lease]()
//
// # Plain permits
//
// A package that gives back each grant exactly once by itself does not need a lease, which
// exists so that any copy may be released any number of times. [Ways.Permits] takes and
// gives back bare permits of a *core.ConcurrencyLimiter, each in one swap. It knows only
// that very type: a type that embeds one may override its methods, and is asked through
// those.
//
//	permits, ok := ways.Permits(limiter) // once, when the limiter is given
//	if ok && permits.TryTake(1) {        // per item
//		...
//		permits.Give(1)                  // or: lease := ways.Lease(permits, 1)
//	}
//
// # Watched leases
//
// [Ways.Watch] is for a limiter that stands on a core.ConcurrencyLimiter and learns from
// its leases: they carry the instant of their grant, and the release that wins, of whichever
// copy, calls a hook with the time that the lease was held and with a cause. None of it
// allocates, and a limiter that is not watched pays nothing for it.
//
//	inner, err := core.NewConcurrencyLimiter(options)
//	watched, _ := ways.Watch(inner, hook)
//	lease := watched.TryAcquire(1)
//	lease.Release()                    // the hook is told: Released
//	watched.End(lease, direct.Dropped) // the same with another cause; here too late, so nothing
//
// Update, Close, Statistics, Available and IdleFor are the inner limiter's own.
//
// # Limiters that come and go
//
// [Ways.Retire] is for a keeper of many limiters that drops the idle ones while others use
// them: a limiter that it retired grants nothing any more, so that another can take its
// place, and its users need not be counted. A request that comes too late is refused as by a
// closed limiter, and looks for the other.
//
//	retired := ways.Retire(bucket, time.Minute) // false: it was used within the minute
//
// # Joined leases
//
// [Ways.NewJoiner] is for a limiter that asks several others for the same permits and returns
// one lease. Releasing any copy of the joined lease releases its parts, once, last first.
// Split ends the lease and leaves the parts to the caller, who settles or refunds each with
// its own limiter.
//
//	joiner := ways.NewJoiner(2) // once, when the limiter is made
//	parts := joiner.Begin()
//	parts.Add(first.TryAcquire(1))
//	parts.Add(second.TryAcquire(1))
//	lease := parts.Join(1)
//
//	if parts, ok := joiner.Split(lease); ok { // false: a copy was released or split before
//		for i, part := range parts.Leases() {
//			parts.Leases()[i] = settle(i, part, 3)
//		}
//		lease = parts.Rejoin(lease, 3)
//	}
package direct

import (
	"context"
	"time"
)

// Permits are the plain permits of one concurrency limiter. Safe for concurrent use.
type Permits interface {
	// TryTake takes n permits, at least 1, if they are available and no request has to wait
	// for them. It counts as a grant; if it fails it leaves no trace. It calls nobody else's code.
	TryTake(n int) bool

	// Take is the limiter's Acquire: it waits in the queue and returns the same errors,
	// with the same effect on the counters.
	Take(ctx context.Context, n int) error

	// Give gives back n permits that were taken here. The caller sees to it that none is
	// given back twice.
	Give(n int)
}

// Watched grants leases whose end the hook of [Ways.Watch] is told of; L is core.Lease.
type Watched[L any] interface {
	// TryAcquire and Acquire are the limiter's own, whose leases are watched too.
	TryAcquire(permits int) L
	Acquire(ctx context.Context, permits int) (L, error)

	// Resize puts another limit in force, from 1 to the limiter's PermitLimit. It costs a
	// lock and an allocation; what is held stays held, and a waiter that now fits is served at once. A
	// request for more than the limit in force waits or is rejected: ErrPermitsExceedLimit is
	// measured against the PermitLimit. The leases, their metadata and the statistics tell
	// of the limit in force. The limiter's Update puts its own limit in force again.
	Resize(limit int)

	// End releases the lease with a cause. A lease that was released before, that is not
	// acquired, or that another limiter granted is left alone.
	End(lease L, cause Cause)
}

// Cause says how a watched lease ended.
type Cause uint8

// The causes. Release gives Released; End gives any. The others mean to core what they mean
// to the hook.
const (
	Released Cause = iota
	Refunded       // a grant that was not used: the limiter's Refund
	Dropped
	Ignored
)

// Hook is told of the ends of watched leases.
type Hook interface {
	// Ended runs on the releasing goroutine, after the permits are back, with no lock held;
	// many goroutines may call it at once.
	Ended(c Cause, e End)
}

// End tells how a watched lease was held. It is four words and the cause a fifth beside it:
// the compiler keeps no larger struct in registers.
type End struct {
	Granted  time.Duration // the instant of the grant, since the limiter's creation
	Held     time.Duration // from the grant to the release, at least 0
	Permits  int           // of this lease; 0 for a probe
	InFlight int           // permits out just before the release, this lease's included
}

// Joiner makes one lease of several; L is core.Lease. Safe for concurrent use.
type Joiner[L any] interface {
	// Begin returns no parts, for the caller to add to.
	Begin() Parts[L]

	// Split ends a joined lease without releasing its parts, and returns them. Of all calls
	// of Split and Release with copies of a lease, one wins; the others do nothing. Split
	// returns false if it did not win, or if the lease is not of this joiner.
	Split(lease L) (Parts[L], bool)
}

// Parts are the leases that are joined into one. They belong to the goroutine that called
// Begin or Split until it calls Join, Rejoin or Drop, and must not be used after that.
//
// The parts are added one by one because a slice that is passed to a method of an interface
// escapes to the heap.
type Parts[L any] interface {
	// Add adds an acquired lease.
	Add(part L)

	// Leases returns the parts in the order in which they were added. The caller may replace
	// its elements.
	Leases() []L

	// Join returns a lease of permits that holds the parts. Its metadata is the union of
	// theirs; of each name, the first part's value. Join allocates nothing if the name, the
	// limit and the window in the metadata are those of the latest lease, and once otherwise.
	Join(permits int) L

	// Rejoin is Join for parts that were split from lease: what it returns has the metadata of
	// lease. Of 0 permits it holds nothing, and the parts are dropped.
	Rejoin(lease L, permits int) L

	// Drop forgets the parts. It releases none of them.
	Drop()
}

// Ways are the functions of core that this package passes on; L is core.Lease.
type Ways[L any] struct {
	// Permits returns the plain permits of a limiter; false unless it is exactly a
	// *core.ConcurrencyLimiter that its constructor made.
	Permits func(limiter any) (Permits, bool)

	// Lease makes a lease of n permits that were taken from p with TryTake or Take: from then
	// on the lease gives them back, and the caller must not. No new grant is counted.
	Lease func(p Permits, n int) L

	// Watch has hook told of each end of a lease granted by what it returns; false unless
	// limiter is exactly a *core.ConcurrencyLimiter that its constructor made. It is called
	// once for a limiter, before the limiter is used.
	Watch func(limiter any, hook Hook) (Watched[L], bool)

	// Retire closes a limiter that has been idle for so long by its IdleFor, at least 0, and
	// reports whether it did: all permits are available, nobody waits, and it has granted
	// its last lease. Of a grant and a Retire that race one finds out about the other. It
	// retires a limiter that was closed before too. It knows core's own four limiters, not
	// what embeds one; of all else, and of one that its constructor did not make, it says
	// false.
	Retire func(limiter any, idle time.Duration) bool

	// NewJoiner returns a Joiner of leases of so many parts.
	NewJoiner func(parts int) Joiner[L]
}

// installed is a *Ways[core.Lease], set once while package core is initialised.
var installed any

// Install is called by core.
func Install[L any](w *Ways[L]) *Ways[L] {
	installed = w
	return w
}

// Core returns what core installed; L is core.Lease.
func Core[L any]() *Ways[L] { return installed.(*Ways[L]) }
