package hold

import "github.com/sluice-go/sluice/core"

// Order returns a function that reports the order in which the queue of l is served, which an Update can
// change; nil if l has no queue whose order is known. A chain has the order of the limiter that it asks whose
// order differs most from [core.OldestFirst]. A limiter reports its order by a method QueueOrder: core's own
// have it, and a user's may.
func Order(l core.Limiter) func() core.QueueOrder {
	switch l := l.(type) {
	case interface{ QueueOrder() core.QueueOrder }:
		return l.QueueOrder
	case interface{ Unwrap() core.Limiter }:
		return Order(l.Unwrap())
	case interface{ Limiters() []core.Limiter }:
		return orderOfAny(l.Limiters())
	}
	return nil
}

func orderOfAny(limiters []core.Limiter) func() core.QueueOrder {
	var orders []func() core.QueueOrder
	for _, l := range limiters {
		if order := Order(l); order != nil {
			orders = append(orders, order)
		}
	}
	if orders == nil {
		return nil
	}
	return func() (order core.QueueOrder) {
		for _, o := range orders {
			order = max(order, o())
		}
		return order
	}
}

// FairShare returns a function that reports whether the [Order] of l is [core.FairShare]; nil if it never is.
func FairShare(l core.Limiter) func() bool {
	order := Order(l)
	if order == nil {
		return nil
	}
	return func() bool { return order() == core.FairShare }
}
