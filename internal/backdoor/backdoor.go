// Package backdoor gives the packages of this module access to what they need of core's limiters
// and users of core do not.
//
// Package core installs the functions. The other packages get them with the types of core, which
// this package cannot name because core imports it:
//
//	ways := backdoor.Core[core.Limiter, core.Lease]()
//
// # Plain permits
//
// A lease exists so that any copy may be released any number of times. A package that itself
// returns each grant exactly once does not need one. [Ways.Permits] takes and returns
// plain permits of a *core.ConcurrencyLimiter, and those of core.Unlimited. It accepts exactly these types:
// a type that embeds one may override its methods, which must then be called.
//
//	permits, ok := ways.Permits(limiter) // once, when the limiter is given
//	if ok && permits.TryTake(1) {        // per item
//		...
//		permits.Give(1)                  // or: lease := permits.Lease(1)
//	}
//
// # Waiting whatever the queue limit is
//
// QueueLimit bounds the callers of a limiter's Acquire: a server sheds load with it. The primitives of this
// module (channels, pipes, readers, pools) wait like their counterparts in Go, whatever QueueLimit is.
// [Ways.Acquire] is how they ask:
//
//	lease, _, err := ways.Acquire(ctx, limiter, n, nil, backdoor.Beyond)
//
// It is Acquire, with the same errors and counts, but if the permits are not available the request enters
// the queue of core's limiters beyond QueueLimit. It is served in its order there. It is not evicted by newer
// requests, it does not take room that QueueLimit gives to others, and Statistics.Queued counts it. It is
// never rejected, nor counted in Rejected, because the queue is full. It ends with its permits, ctx, a deadline that is
// too soon, Close, or because it wants more permits than the limit. A grant that does not wait allocates nothing.
//
// The request passes through chains, through the views of core, and through each [Waiter] and each limiter that
// has [Waits]. Any other limiter is called by one plain Acquire, and its answer is the answer, also a rejection.
// The mark is in no context, so neither such a limiter nor the context of a task inherits it. The answer is
// always in valid form: the lease is acquired if and only if the error is nil.
//
// [Permits.Take] is the same for plain permits, and package hold has it for both.
//
// # Watched leases
//
// [Ways.Watch] is for a limiter that uses a core.ConcurrencyLimiter and learns from its leases.
// Each watched lease carries the time of its grant, and the release that wins, of whichever copy,
// calls a hook with the time for which the lease was held and with a cause. None of this allocates,
// and a limiter that is not watched pays nothing for it.
//
//	inner, err := core.NewConcurrencyLimiter(options)
//	watched, _ := ways.Watch(inner, hook)
//	lease := inner.TryAcquire(1)
//	lease.Release()                    // calls hook.Ended with Released
//	watched.End(lease, backdoor.Dropped) // would call it with Dropped; does nothing here, after Release
//
// Update, Close, Statistics, Available and IdleFor are called on the inner limiter.
//
// # Limiters that come and go
//
// [Ways.Retire] is for a package that holds many limiters and drops idle ones while other
// goroutines use them. A retired limiter grants nothing any more, so another can take its
// place, and its users need not be counted. A request that comes too late gets core.ErrClosed,
// and its caller looks for the new limiter.
//
//	retired := ways.Retire(bucket, time.Minute) // false: it was used within the minute
//
// # Joined leases
//
// [Ways.NewJoiner] is for a limiter that takes the same from several others permits and returns one
// lease. Releasing any copy of the joined lease releases its parts, once, last first. Settle of the
// lease settles the parts, last first.
//
//	joiner := ways.NewJoiner(2, nil) // once, when the limiter is made
//	parts := joiner.Begin()
//	parts.Add(first.TryAcquire(1))
//	parts.Add(second.TryAcquire(1))
//	lease := parts.Join(1)
package backdoor

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
	"github.com/sluice-go/sluice/internal/wait"
)

// Permits are the plain permits of one concurrency limiter. L is core.Lease. It is safe for concurrent use.
type Permits[L any] interface {
	// TryTake takes n permits, at least 1, if they are available and no request has to wait
	// for them. It counts as a grant; if it fails it leaves no trace. It calls no user's code.
	TryTake(n int) bool

	// Try is TryTake that counts a rejection, and returns the error of TryAcquire. It calls no user's code.
	Try(n int) error

	// Take waits for n permits [Beyond] the limiter's QueueLimit, as [Ways.Acquire] does. It returns
	// the same errors and counts in the same way, but does not try quietly first. The wait ends with s too,
	// which may be nil; the error is then the source's cause.
	Take(ctx context.Context, s *wait.Source, n int) error

	// Give returns n permits that were taken here. The caller must not give permits back
	// twice.
	Give(n int)

	// Pass is Give of n permits and TryTake of as many, at once. If it returns false, the caller has the permits still.
	Pass(n int) bool

	// Lease makes a lease of n permits that were taken here. From then on the lease gives them back, and the
	// caller must not. No new grant is counted.
	Lease(n int) L
}

// Queueing says how a request may wait.
type Queueing bool

// The ways of waiting.
const (
	Bounded Queueing = false // the request waits as far as QueueLimit permits
	Beyond  Queueing = true  // it waits whatever QueueLimit is
)

// Waiter is a limiter outside core that passes a request of [Ways.Acquire] that waits [Beyond] QueueLimit on to the
// limiters that it asks; L is core.Lease. Its type is not exported: a user could embed it, and override its Acquire,
// which must then be called. Exported types have [Waits].
type Waiter[L any] interface {
	// AcquireWaiting is Acquire of a request that waits beyond QueueLimit.
	AcquireWaiting(ctx context.Context, permits int) (L, error)
}

// Waits makes a limiter of an exported type a [Waiter] without a method that users could call. The type embeds it under
// an unexported name, and its constructor sets it to [WaitsBy]. A type of a user that embeds the limiter has its Waits
// too, but is not the limiter that WaitsBy was told: its own Acquire is called. L is core.Lease.
type Waits[L any] struct {
	limiter any
	waiter  waiterFunc[L]
}

// WaitsBy makes acquire the AcquireWaiting of limiter, the pointer to what embeds the Waits.
func WaitsBy[L any](limiter any, acquire func(ctx context.Context, permits int) (L, error)) Waits[L] {
	return Waits[L]{limiter, acquire}
}

func (w *Waits[L]) waits() *Waits[L] { return w }

type waiterFunc[L any] func(ctx context.Context, permits int) (L, error)

func (f waiterFunc[L]) AcquireWaiting(ctx context.Context, permits int) (L, error) {
	return f(ctx, permits)
}

// WaiterOf returns limiter as a Waiter, or nil.
func WaiterOf[L any](limiter any) Waiter[L] {
	switch k := limiter.(type) {
	case Waiter[L]:
		return k
	case interface{ waits() *Waits[L] }:
		if w := k.waits(); w.limiter == limiter {
			return w.waiter
		}
	}
	return nil
}

// Embeds reports whether limiter is of a type that embeds a limiter that has [Waits].
func Embeds[L any](limiter any) bool {
	k, ok := limiter.(interface{ waits() *Waits[L] })
	return ok && k.waits().limiter != limiter
}

// Asker is a limiter that says which limiters it asks now, for [Ways.Roots]; Limiter is core.Limiter.
type Asker[Limiter any] interface{ Asks() []Limiter }

// Watched is a limiter whose leases call the hook of [Ways.Watch] when they end; L is core.Lease. The
// leases are those of the limiter's own methods. The time of a lease starts at its grant; for a caller
// that waited, that is before Acquire returns.
type Watched[L any] interface {
	// Resize puts another current limit, from 0 to the limiter's PermitLimit. Permits that are
	// held stay held, and a waiter that now fits is served immediately. A request for more than the
	// current limit waits or is rejected: ErrPermitsExceedLimit is for requests above the
	// PermitLimit. The leases, their metadata and the statistics have the current limit; a lease
	// that has ended may report a later one. The limiter's Update puts its own current limit
	// again. Resize takes a lock and allocates.
	Resize(limit int)

	// End releases the lease with a cause. It does nothing to a lease that was released before,
	// that is not acquired, or that another limiter granted.
	End(lease L, cause Cause)
}

// Cause is how a watched lease ended.
type Cause uint8

// The causes. Release gives Released, Refund gives Refunded, and End gives any. Core attaches no
// meaning to the others.
const (
	Released Cause = iota
	Refunded       // a grant that was not used: by Refund, or Settle to 0
	Dropped
	Ignored
)

// Hook is called at the end of each watched lease.
type Hook interface {
	// Ended runs on the releasing goroutine, after the permits are back, with no lock held;
	// many goroutines may call it at the same time.
	Ended(c Cause, e End)
}

// End describes how a watched lease was held. It has four words, and the cause beside it is a
// fifth: the compiler keeps no larger struct in registers.
type End struct {
	Granted  time.Duration // the time of the grant, since the limiter's creation; below 0 in a synctest bubble where it is earlier
	Held     time.Duration // time from the grant to the release; below 0 if the lease moved to such a bubble
	Permits  int           // permits of this lease, at least 1: a lease of zero permits is not watched
	InFlight int           // permits held just before the release, this lease's included
}

// Joiner makes one lease of several; L is core.Lease. It is safe for concurrent use.
type Joiner[L any] interface {
	// Begin returns no parts, for the caller to add to.
	Begin() Parts[L]
}

// Parts are the leases that are joined into one. They belong to the goroutine that called
// Begin until it calls Join or Drop, and must not be used after that.
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

	// Drop forgets the parts. It releases none of them.
	Drop()
}

// Ways are the functions of core that this package passes on; Limiter is core.Limiter, and L is core.Lease.
type Ways[Limiter, L any] struct {
	// Permits returns the plain permits of a limiter; false unless the limiter is exactly a
	// *core.ConcurrencyLimiter or a core.Unlimited, made by its constructor.
	Permits func(limiter Limiter) (Permits[L], bool)

	// Watch returns a Watched for limiter, and calls hook at the end of each lease of the limiter,
	// however it was made; false unless limiter is exactly a *core.ConcurrencyLimiter made by its
	// constructor. Call it at most once for a limiter, before the limiter is used.
	Watch func(limiter Limiter, hook Hook) (Watched[L], bool)

	// Retire closes a limiter that has been idle for at least idle, as its IdleFor measures it,
	// and reports whether it did: all permits are available, no request waits, and the limiter
	// has granted its last lease. idle is at least 0. Retire sees every grant made before it,
	// and a request after it gets core.ErrClosed. It also returns true for an idle limiter that
	// was closed before. It accepts core's own four limiters, made by their constructors, and
	// not types that embed them; for anything else it returns false.
	Retire func(limiter Limiter, idle time.Duration) bool

	// Closed reports whether a limiter is closed, without a request that it would count. Of a limiter that is none of
	// core's own it returns false.
	Closed func(limiter Limiter) bool

	// Acquire is the Acquire of limiter. Beyond makes it wait whatever QueueLimit is: see the package comment. If s is
	// not nil, the wait ends with s too: the error then is that of ctx, or context.Canceled, and waited reports whether
	// the request has waited in a queue. A wait in one of core's limiters makes no context.
	Acquire func(ctx context.Context, limiter Limiter, permits int, s *wait.Source, q Queueing) (lease L, waited bool, err error)

	// Checked is the function of that name of this package.
	Checked func(lease L, err error) (L, error)

	// Reserve is the limiter's Reserve; of a limiter that is no core.Reserver, a lease whose error says so.
	Reserve func(limiter Limiter, permits int) L

	// Roots returns the limiters that limiter uses in the end, through chains and views of any package that
	// name the limiters they ask: by a method Unwrap() core.Limiter, Limiters() []core.Limiter, or as an
	// [Asker]. For any other limiter it is the limiter itself. Whoever holds permits of one limiter and waits
	// for those of another with a common root may wait for itself: compare roots with [Same].
	//
	// If binding is set, Roots leaves out the limiters whose rejections have no effect, because limiter asks them
	// through core.Shadow: no request waits for those.
	Roots func(limiter Limiter, binding bool) []Limiter

	// Order returns the core.QueueOrder in which the queue of limiter is served now. An Update can change it, and so can
	// whatever exchanges the limiter that it uses. A chain has the order of the limiter that it uses whose order differs
	// most from core.OldestFirst, which is the order of a limiter that has no queue. A limiter reports its order by a
	// method QueueOrder: core's own have it, and a user's may. Of core's limiters it allocates nothing.
	Order func(limiter Limiter) uint8

	// ReturnsWithTime reports whether all permits of limiter are returned with time alone: it is one of core's rate limiters,
	// core.Unlimited, or a chain or view of core's of nothing else. Of a Switch, and of an [Asker], it is about the limiters that
	// it uses now. Of any other limiter the leases may hold permits until they are released.
	ReturnsWithTime func(limiter Limiter) bool

	// Terms returns the current terms of one of core's four limiters, and a copy of its account. Both are nil for
	// anything else.
	Terms func(limiter Limiter) (*machine.Terms, machine.Account)

	// Granters returns the core.Granters that granted lease: the one of core.GrantFrom, or those of the parts of a joined lease.
	// A joined lease that has ended, or that another call is settling, has none.
	Granters func(lease L) []any

	// Describe gives metadata to a lease of core.GrantFrom or core.Fail that nobody else has yet. by has a method
	// Metadata() []core.Metadata, which is called when somebody asks for metadata, and always returns the same: each name
	// once. A limiter whose leases are rarely asked need not make metadata for each of them.
	Describe func(lease L, by any)

	// Grants returns a function that returns leases of no permits, as core.Grant does: the first release of
	// each calls release. The next one may be had once the one before was released, also in release. None
	// of them allocates.
	Grants func(release func()) (next func() L)

	// ChainOf returns a *core.ChainedLimiter of limiters, which are not compared.
	ChainOf func(limiters []Limiter) Limiter

	// NewJoiner returns a Joiner of leases with this number of parts. Settle of a joined lease calls settle with the
	// parts, which it may replace, and with the permits to settle to. Settle returns the permits that the lease has
	// then: if those are the ones that it had, the lease stays as it is; if it is 0, the parts are dropped. If settle is nil,
	// each part is settled, last first.
	NewJoiner func(parts int, settle func(parts []L, permits int) int) Joiner[L]
}

// installed is a *Ways[core.Limiter, core.Lease], set once while package core is initialized.
var installed any

// Install is called by core.
func Install[Limiter, L any](w *Ways[Limiter, L]) *Ways[Limiter, L] {
	installed = w
	return w
}

// Core returns what core installed; Limiter is core.Limiter, and L is core.Lease.
func Core[Limiter, L any]() *Ways[Limiter, L] { return installed.(*Ways[Limiter, L]) }
