package core

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/sluice-go/sluice/internal/backdoor"
)

// Functions for any limiter, whether it is of this package or not. The methods that a limiter has are
// its methods, promoted or not: only TryQuietly and acquireWaiting look whether they are those of an
// embedded limiter. The other packages of this module get these functions from package backdoor.

// embeds reports whether l is of a type that embeds a limiter of this package. Such a type has all
// methods of that limiter, and may have overridden some: a promoted TryQuietly would bypass its TryAcquire.
func embeds(l Limiter) bool {
	k, ours := l.(interface{ itself() Limiter })
	return ours && k.itself() != l
}

func (l *ConcurrencyLimiter) itself() Limiter  { return l }
func (l *TokenBucket) itself() Limiter         { return l }
func (l *FixedWindow) itself() Limiter         { return l }
func (l *SlidingWindow) itself() Limiter       { return l }
func (c *ChainedLimiter) itself() Limiter      { return c }
func (u *unlimited) itself() Limiter           { return u }
func (r *failing) itself() Limiter             { return r }
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

// isClosed reports whether a limiter of this package is closed. Zero values are; a view is not, because it has no Close.
func isClosed(l Limiter) bool {
	switch l := l.(type) {
	case *unlimited:
		return l.closed.Load()
	case *shut:
		return l.closing.Cause() != nil
	case *ChainedLimiter:
		return l.limiters == nil || l.source.Cause() != nil
	case *Switch:
		st := l.now.Load()
		return st == nil || st.closed
	}
	e := engineOf(l)
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed || e.settings.Load() == nil
}

// checkedAnswer returns the answer of a limiter's Acquire in valid form: an acquired lease, or the error and
// a lease that has it. If both are rejections, the lease keeps its metadata. An acquired lease that
// comes with an error is refunded.
func checkedAnswer(lease Lease, err error) (Lease, error) {
	switch {
	case err == nil && lease.Acquired():
		return lease, nil
	case err == nil:
		err = lease.Err()
	case lease.Acquired():
		lease.undo()
		return Fail(err), err
	}
	switch {
	case same(lease.Err(), err):
		return lease, err
	case lease.rejected() && errors.Is(err, ErrRejected):
		return lease.failing(err), err
	}
	return Fail(err), err
}

// same reports whether a and b are one error.
func same(a, b error) bool { return backdoor.Same(a, b) }

// isNil reports whether a limiter or Options is nil, or holds a nil pointer.
func isNil(l any) bool { return backdoor.IsNil(l) }

// identical reports whether a and b are one limiter. Only pointers can tell: two limiters of another type
// may be equal and still be two.
func identical(a, b Limiter) bool {
	return reflect.TypeOf(a).Kind() == reflect.Pointer && backdoor.Same(a, b)
}

// describe returns a human-readable line about any limiter.
func describe(l Limiter) string {
	if s, ok := l.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T: %d available", l, l.Available())
}

// root is a limiter that asks no other limiter.
type root struct {
	Limiter
	at       int  // its place among the limiters of a chain
	shadowed bool // its rejections have no effect
}

// roots returns the limiters that l asks, through the chains and views of this package; for any other
// limiter, l itself.
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

// allRoots is roots, but also through limiters of other packages that name the limiters they ask: by a method
// Unwrap() Limiter or Limiters() []Limiter, or as a backdoor.Asker. A limiter that embeds one of this
// package's may take from that one too.
func allRoots(l Limiter, binding bool) []any {
	var all []any
	for _, r := range roots(l) {
		if binding && r.shadowed {
			continue
		}
		if k, ok := r.Limiter.(interface{ itself() Limiter }); ok && k.itself() != r.Limiter {
			all = append(all, allRoots(k.itself(), binding)...)
		}
		var asked []Limiter
		switch k := r.Limiter.(type) {
		case interface{ Unwrap() Limiter }:
			asked = []Limiter{k.Unwrap()}
		case interface{ Limiters() []Limiter }:
			asked = k.Limiters()
		case backdoor.Asker[Limiter]:
			asked = k.Asks()
		}
		if len(asked) == 0 {
			all = append(all, r.Limiter)
		}
		for _, a := range asked {
			if !isNil(a) {
				all = append(all, allRoots(a, binding)...)
			}
		}
	}
	return all
}

// returnsWithTime reports whether all that l grants comes back with time alone: it is one of this package's
// rate limiters, or Unlimited, or a chain or view of nothing else. A Switch, and a limiter per key, is what it asks now.
func returnsWithTime(l Limiter) bool {
	for _, r := range roots(l) {
		switch k := r.Limiter.(type) {
		case *TokenBucket, *FixedWindow, *SlidingWindow, *unlimited:
		case *Switch:
			if !returnsWithTime(k.Limiter()) {
				return false
			}
		case backdoor.Asker[Limiter]:
			asked := k.Asks()
			if len(asked) == 0 || !allReturnWithTime(asked) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func allReturnWithTime(limiters []Limiter) bool {
	return !slices.ContainsFunc(limiters, func(l Limiter) bool { return isNil(l) || !returnsWithTime(l) })
}

// orderOf returns the order in which the queue of l is served now: see backdoor.Ways.
func orderOf(l Limiter) QueueOrder {
	switch k := l.(type) {
	case interface{ QueueOrder() QueueOrder }:
		return k.QueueOrder()
	case *ChainedLimiter:
		return orderOfAny(k.limiters)
	case interface{ Unwrap() Limiter }:
		return orderOf(k.Unwrap())
	case interface{ Limiters() []Limiter }:
		return orderOfAny(k.Limiters())
	case backdoor.Asker[Limiter]:
		return orderOfAny(k.Asks())
	}
	return OldestFirst
}

func orderOfAny(limiters []Limiter) (order QueueOrder) {
	for _, l := range limiters {
		order = max(order, orderOf(l))
	}
	return order
}
