package core

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/limiter"
	"github.com/sluice-go/sluice/internal/machine"
)

// How a limiter uses the limiters below it. A limiter is recognized as one of this package by
// its type, never by its methods: a type that embeds one has all its methods, and may have
// overridden some.

// quiet is a limiter of this package that can be tried without a trace of a rejection.
type quiet interface {
	tryQuietly(permits int) (Lease, bool)
}

// TryQuietly is TryAcquire, but a rejection leaves no trace: it is not counted, and no reason
// is given. It is for a caller that tries before it waits. If it returns false, it has taken
// nothing; if l is a chain, the limiters that came before the one that rejected have counted a
// grant. For a view made by [Shadow], and for a limiter that is not of this package, even if it
// embeds one that is, TryQuietly always returns false.
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
	if t := e.epoch.Load(); t != nil && t.Kind == machine.Concurrency && t.sureNot(t.word.Load(), permits) {
		return Lease{}, false
	}
	return e.tryQuietlySlow(permits)
}

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
			if t := e.epoch.Load(); t != nil && permits > t.Most() {
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

// answered returns the answer of a foreign limiter's Acquire in valid form: an acquired lease,
// or the error and a lease that has it.
func checkedAnswer(l Limiter, lease Lease, err error) (Lease, error) {
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
	return a == b //nolint:errorlint // exactly that error
}

// isNil reports whether l is nil, or holds a nil pointer.
func isNil(l Limiter) bool { return argument.IsNil(l) }

// identical reports whether a and b are one limiter. Only pointers can tell, and not pointers
// to types of size zero, which may all be equal.
func identical(a, b Limiter) bool {
	t := reflect.TypeOf(a)
	return t == reflect.TypeOf(b) && t.Kind() == reflect.Pointer && t.Elem().Size() > 0 && a == b
}

// settle calls Settle if l is a Settler. Otherwise it leaves the lease as it is, unless permits
// is 0 or less: then it refunds or releases the lease.
func settle(l Limiter, lease Lease, permits int) Lease {
	if s, ok := l.(Settler); ok {
		return s.Settle(lease, permits)
	}
	if permits <= 0 {
		limiter.Refund(l, lease)
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

// describe returns a human-readable line: the kind of limiter, its name and its statistics.
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
