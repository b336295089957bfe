package hold

import (
	"slices"

	"github.com/sluice-go/sluice/core"
)

// Order returns the order in which the queue of l is served now: see [backdoor.Ways.Order].
func Order(l core.Limiter) core.QueueOrder { return core.QueueOrder(ways.Order(l)) }

// Replenishes reports whether l is a rate limiter, or asks one now.
func Replenishes(l core.Limiter) bool {
	return isRate(l) || slices.ContainsFunc(ways.Roots(l, false), isRate)
}

func isRate(l core.Limiter) bool {
	r, ok := l.(core.Replenisher)
	return ok && r.ReplenishmentPeriod() > 0
}
