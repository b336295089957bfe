package core

import (
	"context"
	"errors"
	"fmt"
)

// Shadowed is set on a lease that [Shadow] granted although its limiter did not: the limiter's
// error.
var Shadowed = NewMetadataKey[error]("SHADOWED")

// Shadow returns a view of l that grants every request, while l decides and counts. Use it to
// observe a limit before enforcing it.
//
// TryAcquire and Acquire both call l's TryAcquire, so no request waits. A request that would
// have waited in l counts as rejected, with a [RetryAfter] that says how long the wait would
// have been. A lease that l grants is returned unchanged. If l does not grant, even with
// [ErrClosed] or [ErrPermitsExceedLimit], the view returns an acquired lease that holds nothing
// and has [Shadowed] in its metadata. Negative permits and a done context are errors, as for
// any limiter.
//
// The statistics and everything else are l's. Closing the view closes l, and the view continues
// to grant. The view is a [Replenisher] and [Resetter] if l is a Replenisher, and has a method
// Unwrap() Limiter that returns l. The view of a nil Limiter grants every request, with a
// Shadowed error that says so.
func Shadow(l Limiter) Limiter {
	if isNil(l) {
		l = &refusing{errNoShadow}
	}
	if k, ok := l.(Replenisher); ok {
		return &shadowReplenisher{shadow{view: view{l}}, replenishing{k}}
	}
	return &shadow{view: view{l}}
}

var errNoShadow = errors.New("core: Shadow of a nil Limiter: it grants everything")

type shadow struct {
	view
	handle handle // of the leases that hold nothing
}

type shadowReplenisher struct {
	shadow
	replenishing
}

func (s *shadow) TryAcquire(permits int) Lease {
	l := s.Limiter.TryAcquire(permits)
	if l.Acquired() || permits < 0 {
		return l
	}
	return newLease(&s.handle, granted, permits, unknown, unknown, 0).With(Shadowed.With(l.Err()))
}

func (s *shadow) Acquire(ctx context.Context, permits int) (Lease, error) {
	if err := ctx.Err(); err != nil && permits >= 0 {
		return Fail(err), err
	}
	l := s.TryAcquire(permits)
	return l, l.Err()
}

// Settle settles what l granted. A lease that holds nothing becomes one of the given number of
// permits.
func (s *shadow) Settle(l Lease, permits int) Lease {
	if s.handle.of(l) {
		return l.replacement(&s.handle, granted, max(permits, 0), 0)
	}
	return s.view.Settle(l, permits)
}

func (s *shadow) Refund(l Lease) {
	if !s.handle.of(l) {
		s.view.Refund(l)
	}
}

// String returns a human-readable line: that of the limiter, marked as shadowed.
func (s *shadow) String() string { return describe(s.Limiter) + ", shadowed" }

var _ fmt.Stringer = (*shadow)(nil)
