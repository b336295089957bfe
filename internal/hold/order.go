package hold

import (
	"slices"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Order returns the order in which the queue of l is served now. An Update can change it, and so can whatever
// exchanges the limiter that l asks. A chain has the order of the limiter that it asks whose order differs
// most from [core.OldestFirst], which is the order of a limiter that has no queue. A limiter reports its order by a
// method QueueOrder: core's own have it, and a user's may.
func Order(l core.Limiter) (order core.QueueOrder) {
	if o, ok := l.(interface{ QueueOrder() core.QueueOrder }); ok {
		return o.QueueOrder()
	}
	for _, a := range asked(l) {
		order = max(order, Order(a))
	}
	return order
}

// Replenishes reports whether l is a rate limiter, or asks one now.
func Replenishes(l core.Limiter) bool {
	if r, ok := l.(core.Replenisher); ok && r.ReplenishmentPeriod() > 0 {
		return true
	}
	return slices.ContainsFunc(asked(l), Replenishes)
}

// asked returns the limiters that l asks now, as a view, a chain, a Switch or a key.
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
