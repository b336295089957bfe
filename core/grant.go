package core

// Grant returns an acquired lease, for limiters outside this package. The first Release of the
// lease, and no other, calls release, which may be nil. If permits is negative, the lease is
// not acquired, its error is [ErrNegativePermits], and release is never called.
func Grant(permits int, release func(), metadata ...Metadata) Lease {
	if permits < 0 {
		return Lease{bits: uint64(negative)}
	}
	l := grant(nil, free, 0, permits, -1, -1)
	if release == nil {
		if len(metadata) > 0 {
			l = l.With(metadata...)
		}
		return l
	}
	x := extra{release: release, meta: mergeMetadata(nil, metadata)}
	if l.t != nil {
		x.figures = l.t.x.figures
	}
	l.bits ^= uint64(free ^ held)
	return l.with(x)
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

// Refuse returns a lease that is not acquired and whose Err is err, such as [ErrClosed]. If err
// is nil, it returns the lease of [Reject].
func Refuse(err error) Lease {
	if err == nil {
		return Lease{}
	}
	return Lease{bits: uint64(failed)}.with(extra{err: err})
}

// grant returns the lease of n permits that a limiter has granted.
func grant(t *ticket, o outcome, generation uint64, n int, state, at int64) Lease {
	l := Lease{t: t, bits: uint64(o) | generation<<generationShift, state: state, at: at}
	if uint64(n) <= maxPermits {
		l.bits |= uint64(n) << outcomeBits
		return l
	}
	f := l.figures()
	f.permits = n
	return l.with(extra{home: t, figures: &f})
}

// reject returns the lease of a rejection under the terms of t.
func reject(t *ticket, o outcome, f figures) Lease {
	l := Lease{t: t, bits: uint64(o), state: f.retry, at: f.reset}
	if f.permits <= maxRefused && f.left <= maxRefused {
		l.bits |= uint64(f.permits)<<outcomeBits | uint64(f.left)<<(outcomeBits+refusedBits)
		return l
	}
	wide := f // f itself stays on the stack
	wide.limit = t.Limit
	return l.with(extra{figures: &wide})
}
