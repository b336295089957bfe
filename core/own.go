package core

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/limiter"
)

// What limiters that stand on limiters do with them. A limiter is one of this package's by its
// type, never by its methods: whoever embeds a limiter of this package has them all, and may
// have overridden some.

// quiet is a limiter of this package that can be asked without a trace of a refusal.
type quiet interface {
	tryQuietly(permits int) (Lease, bool)
}

// TryQuietly is TryAcquire, but a refusal leaves no trace: it is not counted as rejected, and
// no reason is given. It is for a caller that tries before it waits. From a limiter that is not
// of this package, or that embeds one of it, it takes nothing and returns false.
func TryQuietly(l Limiter, permits int) (Lease, bool) {
	var q quiet
	switch l := l.(type) {
	case *ConcurrencyLimiter:
		q = l
	case *TokenBucket:
		q = l
	case *FixedWindow:
		q = l
	case *SlidingWindow:
		q = l
	case *ChainedLimiter:
		return l.tryQuietly(permits)
	case *unlimited:
		return l.tryQuietly(permits)
	case *reasoned:
		return TryQuietly(l.Limiter, permits)
	case *reasonedReplenisher:
		return TryQuietly(l.Limiter, permits)
	default:
		return Lease{}, false
	}
	e := engineOf(l)
	if e == nil {
		return Lease{}, false
	}
	if lease, ok := q.tryQuietly(permits); ok {
		return lease, true
	}
	if t := e.epoch.Load(); t != nil && t.Kind == 0 && t.sureNot(t.word.Load(), permits) {
		return Lease{}, false
	}
	return e.tryQuietlySlow(permits)
}

// exceeding returns the refusal of permits that are more than the limit of one of the chain's limiters;
// false if they are not. Only limiters of this package are looked at.
func (c *ChainedLimiter) exceeding(permits int) (Lease, bool) {
	for _, r := range c.roots {
		if e := engineOf(r.Limiter); e != nil && !r.shadowed {
			if t := e.epoch.Load(); t != nil && permits > t.Most() {
				refused := r.Limiter.TryAcquire(permits)
				e.Refund(refused) // an Update may have come between
				return refused, refused.outcome() == exceeds
			}
		}
	}
	return Lease{}, false
}

// root is a limiter that asks no other.
type root struct {
	Limiter
	at       int  // its place among the limiters of a chain
	shadowed bool // its refusals refuse nobody
}

// roots returns the limiters that l stands on, through chains and views; of any other, l.
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

// answered returns the answer of somebody else's Acquire as it should have been: an
// acquired lease, or the error and a lease that has it.
func answered(l Limiter, lease Lease, err error) (Lease, error) {
	lease, err = limiter.Checked(l, lease, err)
	switch {
	case err == nil || same(lease.Err(), err):
		return lease, err
	case lease.rejected() && errors.Is(err, ErrRejected):
		return lease.failing(err), err // the metadata is the rejection's
	}
	return Refuse(err), err
}

// same reports whether a and b are one error. Errors that cannot be compared, such as lists,
// never are.
func same(a, b error) bool {
	if reflect.TypeOf(b).Kind() != reflect.Pointer && (!reflect.ValueOf(a).Comparable() || !reflect.ValueOf(b).Comparable()) {
		return false
	}
	return a == b //nolint:errorlint // that very error
}

// isNil reports whether l is nil, or holds a nil pointer.
func isNil(l Limiter) bool { return argument.IsNil(l) }

// identical reports whether a and b are one limiter. Only pointers tell; and not those to
// types of no size, which may all be the same.
func identical(a, b Limiter) bool {
	t := reflect.TypeOf(a)
	return t == reflect.TypeOf(b) && t.Kind() == reflect.Pointer && t.Elem().Size() > 0 && a == b
}

// settle passes Settle on; a lease of a limiter that is no Settler stays as it is, but for one
// that has cost nothing, which is refunded or released.
func settle(l Limiter, lease Lease, permits int) Lease {
	if s, ok := l.(Settler); ok {
		return s.Settle(lease, permits)
	}
	if permits <= 0 {
		limiter.Refund(l, lease)
	}
	return lease
}

// describe returns a line for a person about any limiter.
func describe(l Limiter) string {
	if s, ok := l.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T: %d available", l, l.Available())
}

// describe returns a line for a person: what kind of limiter this is, and how it stands.
func (e *engine) describe(kind string) string {
	t := e.epoch.Load()
	if t == nil {
		return kind + " (not made by its constructor)"
	}
	if t.name != "" {
		kind += fmt.Sprintf(" %q", t.name)
	}
	return kind + ": " + e.Statistics().String()
}
