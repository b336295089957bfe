package core

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/clock"
)

// Grant returns an acquired lease, for limiters outside this package. The first Release of the
// lease, and no other, calls release, which may be nil. Refund, and Settle to 0, are that Release. The
// lease cannot be settled to another number of permits: see [GrantFrom]. If permits is negative, the
// lease is not acquired, its error is [ErrNegativePermits], and release is never called.
func Grant(permits int, release func(), metadata ...Metadata) Lease {
	switch {
	case permits < 0:
		return Lease{bits: uint64(negative)}
	case release == nil && len(metadata) == 0:
		return newLease(nil, granted, permits, unknown, unknown, 0)
	}
	k := new(struct {
		handle
		extra
	})
	if release == nil {
		return grantBy(&k.handle, &k.extra, permits, granted, nil, metadata)
	}
	return grantBy(&k.handle, &k.extra, permits, held, released(release), metadata)
}

// Granter is a limiter outside this package, or a part of one, that can correct the cost of its leases: see
// [GrantFrom].
//
// If a Granter also has a method Release(permits int), its leases hold their permits: the first Release of a
// lease, and no other, calls that method with the permits of the lease. Otherwise a Release does nothing, as
// for a rate limiter.
type Granter interface {
	// Settle is called when a lease of had permits is settled to now permits; a Refund settles it to 0.
	// Settle takes or returns the difference, and returns the permits that the lease has then. If it
	// returns had, the lease could not be settled and stays as it is.
	Settle(had, now int) int
}

// releaser is a Granter whose leases hold permits.
type releaser interface{ Release(permits int) }

// GrantFrom is like [Grant], but the lease can be settled: [Lease.Settle] and [Lease.Refund] call g.Settle.
//
// Whatever is called on copies of the lease, g is told once. The calls for one lease come one after
// another, and none comes after its Release. A lease of zero permits, also one that was settled to 0,
// calls no Release. If g.Settle panics, the lease is released. The lease that replaces a settled one keeps
// the metadata.
func GrantFrom(g Granter, permits int, metadata ...Metadata) Lease {
	if g == nil {
		return Grant(permits, nil, metadata...)
	}
	if permits < 0 {
		return Lease{bits: uint64(negative)}
	}
	return grantFrom(g, permits, metadata)
}

// heldBy returns the outcome of a lease of a Granter.
func heldBy(g Granter, permits int) outcome {
	if _, holds := g.(releaser); holds && permits > 0 {
		return held
	}
	return granted
}

// released is the function of a Grant, the owner of its lease.
type released func()

func (f released) release(l Lease) {
	if l.handle().end(l.at) {
		f()
	}
}

func (f released) settle(l Lease, n int) Lease {
	if n > 0 || !l.handle().end(l.at) {
		return l
	}
	f()
	return l.replacement(nil, granted, 0, 0)
}

func (f released) window(*settings) int64 { return 0 }

// granter is the owner of a lease of GrantFrom.
type granter struct{ Granter }

func (g *granter) release(l Lease) {
	if l.handle().end(l.at) {
		g.released(l.permits())
	}
}

func (g *granter) settle(l Lease, n int) Lease {
	if l.permits() > 0 {
		if got, ended := l.settleOnce(g, n); ended {
			return l.replacement(l.handle(), heldBy(g.Granter, got), got, l.at+perGeneration)
		}
		return l
	}
	// It holds nothing and does not end, so each settlement begins a lease of its own.
	if n = g.tell(0, n); n > 0 {
		return grantFrom(g.Granter, n, l.copyExtra().meta)
	}
	return l
}

func (g *granter) window(*settings) int64 { return 0 }

func (g *granter) tell(had, n int) int { return max(g.Settle(had, n), 0) }

func (g *granter) released(permits int) {
	if r, holds := g.Granter.(releaser); holds {
		r.Release(permits)
	}
}

func (g *granter) undone(permits int) { g.released(permits) }

// grantFrom returns a lease of GrantFrom.
func grantFrom(g Granter, permits int, metadata []Metadata) Lease {
	k := new(struct { // in one allocation
		handle
		extra
		granter
	})
	k.granter.Granter = g
	return grantBy(&k.handle, &k.extra, permits, heldBy(g, permits), &k.granter, metadata)
}

// grantBy returns a lease of Grant or GrantFrom, with a handle and an extra of its own.
func grantBy(h *handle, x *extra, permits int, o outcome, by owner, metadata []Metadata) Lease {
	l := newLease(h, o, permits, unknown, unknown, 0)
	*x = l.copyExtra()
	x.base, x.owner = nil, by
	if len(metadata) > 0 {
		x.meta = mergeMetadata(nil, metadata)
	}
	h.x, l.h = x, h
	return l
}

// grants returns a function that returns leases of no permits, one after another: each may be had once the one
// before was released, and its release calls release. They share a handle.
func grants(release func()) (next func() Lease) {
	g := new(struct {
		handle
		extra
	})
	g.handle.x, g.owner = &g.extra, released(release)
	return func() Lease {
		return newLease(&g.handle, held, 0, unknown, unknown, atomic.LoadInt64(&g.generation))
	}
}

// Reject returns a lease that is not acquired, for limiters outside this package. Its error is
// a *[RejectedError] whose fields are taken from the metadata: [LimiterName], [PermitLimit],
// [Remaining], [ReasonPhrase] and [RetryAfter].
func Reject(metadata ...Metadata) Lease {
	if len(metadata) == 0 {
		return Lease{}
	}
	l, _ := Lease{}.With(metadata...).asError()
	return l
}

// Fail returns a lease that is not acquired and whose Err is err, such as [ErrClosed]. If err
// is nil, it returns the lease of [Reject].
func Fail(err error) Lease {
	if err == nil {
		return Lease{}
	}
	return Lease{bits: uint64(failed)}.with(nil, extra{err: err})
}

// Unlimited returns a limiter that grants every request, for code that requires a limiter where you
// want no limit. Available returns math.MaxInt. Negative permits, a done context and requests after
// Close are errors, as for any limiter. The statistics count its grants.
func Unlimited() Limiter {
	u := new(unlimited)
	u.clock.Start()
	return u
}

type unlimited struct {
	clock   clock.Clock
	granted atomic.Uint64
	closed  atomic.Bool
}

func (u *unlimited) TryAcquire(permits int) Lease {
	switch {
	case permits < 0:
		return Lease{bits: uint64(negative)}
	case u.closed.Load():
		return Lease{bits: uint64(closed)}
	}
	u.granted.Add(1)
	return newLease(&free, granted, permits, unknown, unknown, 0)
}

func (u *unlimited) Acquire(ctx context.Context, permits int) (Lease, error) {
	return acquireNow(ctx, u, permits)
}

// acquireNow is the Acquire of a limiter in which no request waits.
func acquireNow(ctx context.Context, l Limiter, permits int) (Lease, error) {
	if err := ctx.Err(); err != nil && permits >= 0 {
		return Fail(err), err
	}
	return l.TryAcquire(permits).asError()
}

func (u *unlimited) TryQuietly(permits int) (Lease, bool) {
	l := u.TryAcquire(permits)
	return l, l.Acquired()
}

func (u *unlimited) Available() int { return math.MaxInt }

func (u *unlimited) Statistics() Statistics {
	return Statistics{Limit: math.MaxInt, Available: math.MaxInt, Granted: u.granted.Load()}
}

// IdleFor returns the time since the limiter was made: nothing can be taken from it.
func (u *unlimited) IdleFor() (time.Duration, bool) {
	return time.Duration(max(u.clock.Elapsed(), 0)), true
}

func (u *unlimited) Close() error {
	u.closed.Store(true)
	return nil
}

func (u *unlimited) String() string  { return "unlimited: " + u.Statistics().String() }
func (u *unlimited) itself() Limiter { return u }
func (u *unlimited) isClosed() bool  { return u.closed.Load() }

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

// ReleaseAll releases each of the leases. It is faster than calling Release for each: permits of
// adjacent leases of one concurrency limiter come back together, and its waiters are served once. If
// the release function of a [Grant] panics, ReleaseAll still releases the other leases.
func ReleaseAll(leases []Lease) {
	next := 0
	defer func() {
		if next < len(leases) { // the one before panicked
			ReleaseAll(leases[next:])
		}
	}()
	for next < len(leases) {
		c := leases[next].simpleOwner()
		if c == nil {
			next++
			leases[next-1].Release()
			continue
		}
		c.mu.Lock()
		n := 0
		for ; next < len(leases) && leases[next].simpleOwner() == c; next++ {
			l := leases[next]
			k := l.permits()
			if n+k < n {
				break // the sum would overflow
			}
			if l.h.endLocked(l.at) {
				n += k
				c.account.spareLocked(l.h, l.h.settings(), c.settings.Load())
			}
		}
		if n > 0 {
			c.m.Release(0, n)
		}
		c.unlockAndWake(0)
	}
}

// simpleOwner returns the concurrency limiter whose permits the lease holds, if its release only returns those
// permits, or nil.
func (l Lease) simpleOwner() *ConcurrencyLimiter {
	if l.outcome() != held || l.h.x != nil {
		return nil
	}
	if s := l.h.settings(); s.hook == nil {
		c, _ := s.owner.(*ConcurrencyLimiter)
		return c
	}
	return nil
}
