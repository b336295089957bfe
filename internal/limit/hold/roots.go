package hold

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// ReturnsWithTime reports whether all permits of l are returned with time, whatever their users do: l is one of core's
// rate limiters, or a chain or a view of nothing else. A Switch, and a limiter per key, counts as what it uses now. The
// leases of any other limiter may hold permits until they are released.
func ReturnsWithTime(l core.Limiter) bool { return ways.ReturnsWithTime(l) }

// Roots returns the limiters that l uses in the end, through chains, views and keys.
func Roots(l core.Limiter) []core.Limiter { return ways.Roots(l, false) }

// BindingRoots returns the limiters for which a request of l may have to wait.
func BindingRoots(l core.Limiter) []core.Limiter { return ways.Roots(l, true) }

// Without returns the part of l that is left for a caller that would hold its permits while it waits for those of
// below: if it requested permits of a limiter that is among those too, it could wait for itself forever. The rest
// is l without these limiters: l itself if it has none of them, and nil if it has no others. Limiters whose
// permits return with time stay. Without returns an error if l cannot be separated from one of below.
func Without(l core.Limiter, below []core.Limiter) (core.Limiter, error) {
	var rest []core.Limiter
	roots := Roots(l)
	for _, root := range roots {
		if ReturnsWithTime(root) || !isAmong(root, below) {
			rest = append(rest, root)
		}
	}
	switch len(rest) {
	case len(roots):
		return l, nil
	case 0:
		return nil, nil
	case 1:
		return separated(rest[0], l, below)
	}
	chain, err := core.Chain(rest...)
	if err != nil {
		return nil, err
	}
	return separated(chain, l, below)
}

// separated returns rest if it asks none of below. A limiter that embeds another one may ask that one too.
func separated(rest, l core.Limiter, below []core.Limiter) (core.Limiter, error) {
	for _, root := range Roots(rest) {
		if !ReturnsWithTime(root) && isAmong(root, below) {
			return nil, fmt.Errorf("a stream with %s over a stream with %s would wait for itself, because both take permits of the latter",
				backdoor.Describe(l), backdoor.Describe(root))
		}
	}
	return rest, nil
}

func isAmong(l core.Limiter, below []core.Limiter) bool {
	return slices.ContainsFunc(below, func(b core.Limiter) bool { return backdoor.Same(l, b) })
}

// SameRoots reports whether two lists have the same limiters in the same order. Limiters that cannot be compared
// count as the same if they are of one type.
func SameRoots(a, b []core.Limiter) bool {
	return slices.EqualFunc(a, b, func(a, b core.Limiter) bool {
		return backdoor.Same(a, b) || reflect.TypeOf(a) == reflect.TypeOf(b) && !reflect.ValueOf(a).Comparable()
	})
}
