package core

import (
	"sync/atomic"
)

// Grant returns an acquired lease, for limiters outside this package. The first Release of the lease, and no other,
// calls release, which may be nil. Refund and Settle(0) count as a Release. The lease cannot be settled to another
// number of permits: see [GrantFrom]. If permits is negative, the lease is not acquired, its error is
// [ErrNegativePermits], and release is never called.
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
	// Settle changes a lease from had permits to now permits; for a Refund, now is 0. Settle takes or returns the
	// difference, and returns the number of permits that the lease then has. If it returns had, the lease could not be
	// settled and stays as it is.
	Settle(had, now int) int
}

// releaser is a Granter whose leases hold permits.
type releaser interface{ Release(permits int) }

// GrantFrom is like [Grant], but the lease can be settled: [Lease.Settle] and [Lease.Refund] call g.Settle.
//
// If the lease has permits, each settlement, refund or release reaches g once, even if it is called on several copies
// of the lease. The calls for one lease are made one after another, and none after its Release. A lease of zero
// permits, including one that was settled to 0, holds nothing: its Release does not call g, and each Settle to another
// number does. If g.Settle panics, the lease is released. The lease that replaces a settled one keeps the metadata.
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
		return grantFrom(g.Granter, n, l.extra().metadata())
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
