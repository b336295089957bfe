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

// engineOf returns the engine of one of the four limiters, or nil.
func engineOf(limiter any) *engine {
	l, ok := limiter.(interface {
		itself() Limiter
		base() *engine
	})
	if !ok || isNil(limiter) || l.itself() != limiter {
		return nil
	}
	return l.base()
}

// isClosed reports whether a limiter of this package is closed. Zero values are; a view is not, because it has no Close.
func isClosed(l Limiter) bool {
	k, ok := l.(interface{ isClosed() bool })
	return ok && !embeds(l) && k.isClosed()
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
	shadowed bool // its rejections have no effect

	// In a chain:
	at     int     // its place among the limiters
	engine *engine // that of the limiter, or nil
}

// rootsOf returns the limiters that l asks, through the chains and views of this package; for any other
// limiter, l itself.
func rootsOf(l Limiter) []root {
	if k, ok := l.(interface{ roots() []root }); ok && !embeds(l) {
		return k.roots()
	}
	return []root{{Limiter: l}}
}

// allRoots is rootsOf, but also through limiters of other packages that name the limiters they ask: by a method
// Unwrap() Limiter or Limiters() []Limiter, or as a backdoor.Asker. A limiter that embeds one of this
// package's may take from that one too.
func allRoots(l Limiter, binding bool) []any {
	var all []any
	for _, r := range rootsOf(l) {
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
	for _, r := range rootsOf(l) {
		if e := engineOf(r.Limiter); e != nil && !e.current().Held() {
			continue
		}
		switch k := r.Limiter.(type) {
		case *unlimited:
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
	case interface{ parts() []Limiter }:
		return orderOfAny(k.parts())
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
