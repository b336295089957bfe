package core

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/sluice-go/sluice/internal/anylimiter"
)

// How a limiter uses the limiters below it.

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

// embeds reports whether l is of a type that embeds a limiter of this package. Such a type has all
// methods of that limiter, and may have overridden some, so only those of Limiter and Refunder
// are called: its Settle and TryQuietly may bypass what it overrides.
func embeds(l Limiter) bool {
	k, ours := l.(interface{ itself() Limiter })
	return ours && k.itself() != l
}

var _ = anylimiter.Install(func(limiter any) bool {
	l, ok := limiter.(Limiter)
	return ok && embeds(l)
})

func (l *ConcurrencyLimiter) itself() Limiter  { return l }
func (l *TokenBucket) itself() Limiter         { return l }
func (l *FixedWindow) itself() Limiter         { return l }
func (l *SlidingWindow) itself() Limiter       { return l }
func (c *ChainedLimiter) itself() Limiter      { return c }
func (u *unlimited) itself() Limiter           { return u }
func (r *refusing) itself() Limiter            { return r }
func (r *reasoned) itself() Limiter            { return r }
func (r *reasonedReplenisher) itself() Limiter { return r }
func (s *shadow) itself() Limiter              { return s }
func (s *shadowReplenisher) itself() Limiter   { return s }

// engineOf returns the engine of one of the four limiters, or nil.
func engineOf(limiter any) *engine {
	switch l := limiter.(type) {
	case *ConcurrencyLimiter:
		if l != nil {
			return &l.engine
		}
	case *TokenBucket:
		if l != nil {
			return &l.engine
		}
	case *FixedWindow:
		if l != nil {
			return &l.engine
		}
	case *SlidingWindow:
		if l != nil {
			return &l.engine
		}
	}
	return nil
}

// exceeding returns the answer of the first limiter whose limit is less than permits; false if
// there is none. It considers only limiters of this package.
func (c *ChainedLimiter) exceeding(permits int) (Lease, bool) {
	for _, r := range c.roots {
		if e := engineOf(r.Limiter); e != nil && !r.shadowed {
			if s := e.settings.Load(); s != nil && permits > s.Most() {
				refused := r.Limiter.TryAcquire(permits)
				e.Refund(refused) // an Update may have come between
				return refused, refused.outcome() == exceeds
			}
		}
	}
	return Lease{}, false
}

// root is a limiter that asks no other limiter.
type root struct {
	Limiter
	at       int  // its place among the limiters of a chain
	shadowed bool // its rejections have no effect
}

// roots returns the limiters that l asks, through chains and views; for any other limiter, l
// itself.
func roots(l Limiter) []root {
	switch l := l.(type) {
	case *ChainedLimiter:
		return l.roots
	case *reasoned:
		return roots(l.Limiter)
	case *reasonedReplenisher:
		return roots(l.Limiter)
	case *shadow:
		return shadowedRoots(l.Limiter)
	case *shadowReplenisher:
		return shadowedRoots(l.Limiter)
	}
	return []root{{Limiter: l}}
}

func shadowedRoots(l Limiter) []root {
	all := slices.Clone(roots(l))
	for i := range all {
		all[i].shadowed = true
	}
	return all
}

// checkedAnswer returns the answer of a foreign limiter's Acquire in valid form: an acquired lease,
// or the error and a lease that has it. If both are rejections, it has the metadata of the lease.
func checkedAnswer(l Limiter, lease Lease, err error) (Lease, error) {
	return anylimiter.Checked(l, lease, err, func(lease Lease, err error) Lease {
		if lease.rejected() && errors.Is(err, ErrRejected) {
			return lease.failing(err)
		}
		return Fail(err)
	})
}

// same reports whether a and b are one error.
func same(a, b error) bool { return anylimiter.Same(a, b) }

// isNil reports whether l is nil, or holds a nil pointer.
func isNil(l Limiter) bool { return anylimiter.IsNil(l) }

// identical reports whether a and b are one limiter. Only pointers can tell, and not pointers
// to types of size zero, which may all be equal.
func identical(a, b Limiter) bool {
	t := reflect.TypeOf(a)
	return t == reflect.TypeOf(b) && t.Kind() == reflect.Pointer && t.Elem().Size() > 0 && a == b
}

// settle calls Settle if l is a Settler that embeds no limiter of this package. Otherwise it leaves the
// lease as it is, unless permits is 0 or less: then it refunds or releases the lease.
func settle(l Limiter, lease Lease, permits int) Lease {
	if s, ok := l.(Settler); ok && !embeds(l) {
		return s.Settle(lease, permits)
	}
	if permits <= 0 {
		anylimiter.Refund(l, lease)
	}
	return lease
}

// describe returns a human-readable line about any limiter.
func describe(l Limiter) string {
	if s, ok := l.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T: %d available", l, l.Available())
}
