package core

import "sync/atomic"

// Grant returns an acquired lease, for limiters outside this package. The first Release of the
// lease, and no other, calls release, which may be nil. If permits is negative, the lease is
// not acquired, its error is [ErrNegativePermits], and release is never called.
func Grant(permits int, release func(), metadata ...Metadata) Lease {
	if permits < 0 {
		return Lease{bits: uint64(negative)}
	}
	l := newLease(nil, granted, permits, unknown, unknown, 0)
	if release == nil {
		if len(metadata) > 0 {
			l = l.With(metadata...)
		}
		return l
	}
	x := l.copyExtra()
	x.of, x.release, x.meta = nil, release, mergeMetadata(nil, metadata)
	l.bits ^= uint64(granted ^ held)
	return l.with(nil, x)
}

// grants returns a function that returns leases of no permits, one after another: each may be had once the one
// before was released, and its release calls release. They share a handle.
func grants(release func()) (next func() Lease) {
	g := new(struct {
		handle
		extra
	})
	g.handle.x = &g.extra
	return func() Lease {
		g.release = release
		return newLease(&g.handle, held, 0, unknown, unknown, atomic.LoadInt64(&g.generation))
	}
}

// Reject returns a lease that is not acquired, for limiters outside this package. Its error is
// a *[RejectedError] whose fields are taken from the metadata: [LimiterName], [ReasonPhrase]
// and [RetryAfter].
func Reject(metadata ...Metadata) Lease {
	if len(metadata) == 0 {
		return Lease{}
	}
	l, _ := Lease{}.With(metadata...).refusal()
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
