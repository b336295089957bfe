package core

import (
	"context"
	"errors"
	"fmt"
)

// Shadowed is on a grant of [Shadow]'s that the limiter would have refused: the limiter's error.
var Shadowed = NewMetadataKey[error]("SHADOWED")

// Shadow returns a view of l that grants everything, while l decides and counts: so a limit
// can be watched before it is enforced.
//
// TryAcquire and Acquire both ask l's TryAcquire, so that nobody waits; a wait that l
// would have allowed counts as a rejection, whose RetryAfter says how long it would have been.
// A grant of l's comes back as it is. Any refusal of l's, [ErrClosed] and
// [ErrPermitsExceedLimit] too, becomes a grant that holds nothing and carries [Shadowed].
// Negative permits and a done context are errors as ever.
//
// The statistics and all else are l's; closing the view closes l, and it goes on granting.
// The view is a [Replenisher] and [Resetter] if l is a Replenisher, and has a method
// Unwrap() Limiter that returns l. A view of nil grants everything, with a Shadowed that says
// so.
func Shadow(l Limiter) Limiter {
	if isNil(l) {
		l = &refusing{errNoShadow}
	}
	s := shadow{view{l}}
	if k, ok := l.(Replenisher); ok {
		return &shadowReplenisher{s, replenishing{k}}
	}
	return &s
}

var errNoShadow = errors.New("core: Shadow of a nil Limiter: it grants everything")

type shadow struct{ view }

type shadowReplenisher struct {
	shadow
	replenishing
}

func (s *shadow) TryAcquire(permits int) Lease {
	l := s.Limiter.TryAcquire(permits)
	if l.Acquired() || permits < 0 {
		return l
	}
	return Grant(permits, nil, Shadowed.With(l.Err()))
}

func (s *shadow) Acquire(ctx context.Context, permits int) (Lease, error) {
	if err := ctx.Err(); err != nil && permits >= 0 {
		return Refuse(err), err
	}
	l := s.TryAcquire(permits)
	return l, l.Err()
}

// Settle settles what l granted. A grant that holds nothing becomes one of so many permits.
func (s *shadow) Settle(l Lease, permits int) Lease {
	if _, ok := Shadowed.From(l); ok && l.outcome() == free {
		return l.complete(max(permits, 0))
	}
	return s.view.Settle(l, permits)
}

func (s *shadow) Refund(l Lease) { s.Settle(l, 0) }

// String returns a line for a person: the limiter's, and that it is shadowed.
func (s *shadow) String() string { return describe(s.Limiter) + ", shadowed" }

var _ fmt.Stringer = (*shadow)(nil)
