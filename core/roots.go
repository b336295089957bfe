package core

import (
	"slices"

	"github.com/sluice-go/sluice/internal/backdoor"
)

// engineOf returns the engine of one of the four limiters, or nil.
func engineOf(limiter Limiter) *engine {
	l, ok := limiter.(interface {
		itself() Limiter
		base() *engine
	})
	if !ok || isNil(limiter) || l.itself() != limiter {
		return nil
	}
	return l.base()
}

// root is a limiter that asks no other limiter.
type root struct {
	Limiter
	shadowed bool // its rejections have no effect

	// In a chain:
	at     int     // its place among the limiters
	engine *engine // engine of the limiter, or nil
}

// rootsOf returns the limiters that l uses, through the chains and views of this package; for any other
// limiter, l itself.
func rootsOf(l Limiter) []root {
	if k, ok := l.(interface{ roots() []root }); ok && !embeds(l) {
		return k.roots()
	}
	return []root{{Limiter: l}}
}

// allRoots is rootsOf, but also through custom limiters that name the limiters they ask: by a method Unwrap()
// Limiter or Limiters() []Limiter, or as a backdoor.Asker. A limiter that embeds one of this package's may take
// from that one too.
func allRoots(l Limiter, binding bool) []Limiter {
	var all []Limiter
	for _, r := range rootsOf(l) {
		if binding && r.shadowed {
			continue
		}
		if inner := embedded(r.Limiter); inner != nil {
			all = append(all, allRoots(inner, binding)...)
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

// returnsWithTime reports whether all that l grants is returned with time alone: it is one of this package's rate
// limiters, or Unlimited, or a chain or view of nothing else. A Switch, and a limiter per key, is what it uses now.
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
