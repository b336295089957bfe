package hold

import (
	"slices"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Order returns the order in which the queue of l is served now: see [backdoor.Ways.Order].
func Order(l core.Limiter) core.QueueOrder { return core.QueueOrder(ways.Order(l)) }

// Replenishes reports whether l is a rate limiter, or asks one now.
func Replenishes(l core.Limiter) bool {
	if r, ok := l.(core.Replenisher); ok && r.ReplenishmentPeriod() > 0 {
		return true
	}
	return slices.ContainsFunc(asked(l), Replenishes)
}

// asked returns the limiters that l uses now, as a view, a chain, a Switch or a key.
func asked(l core.Limiter) []core.Limiter {
	switch l := l.(type) {
	case interface{ Unwrap() core.Limiter }:
		return []core.Limiter{l.Unwrap()}
	case interface{ Limiters() []core.Limiter }:
		return l.Limiters()
	case backdoor.Asker[core.Limiter]:
		return l.Asks()
	}
	return nil
}
