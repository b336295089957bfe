package hold

import "github.com/sluice-go/sluice/core"

// FairShare returns a function that reports whether the queue of l, or of a limiter that l asks, is in
// the order of [core.FairShare], which an Update can change; or nil if it never is. A limiter reports
// its order by a method QueueOrder: core's own have it, and a user's may.
func FairShare(l core.Limiter) func() bool {
	switch l := l.(type) {
	case interface{ QueueOrder() core.QueueOrder }:
		return func() bool { return l.QueueOrder() == core.FairShare }
	case interface{ Unwrap() core.Limiter }:
		return FairShare(l.Unwrap())
	case interface{ Limiters() []core.Limiter }:
		return anyFair(l.Limiters())
	}
	return nil
}

func anyFair(limiters []core.Limiter) func() bool {
	var fair []func() bool
	for _, l := range limiters {
		if f := FairShare(l); f != nil {
			fair = append(fair, f)
		}
	}
	if fair == nil {
		return nil
	}
	return func() bool {
		for _, f := range fair {
			if f() {
				return true
			}
		}
		return false
	}
}
