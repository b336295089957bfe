package limitertest

import (
	"testing"

	"github.com/sluice-go/sluice/core"
)

// NoLeaks fails the test at its end, in a Cleanup, if one of the limiters has a lease out
// that holds permits, or somebody still waits in its queue. Call it at the beginning, or
// where the limiters are made, so that Cleanups registered later run before; a test has to
// wait for its own goroutines.
//
// What it goes by depends on what a limiter tells of itself:
//
//   - A [core.Reporter] that tells its Limit and whose permits do not come back with time:
//     Available must be Limit.
//   - A [core.Replenisher] with a period: its leases hold nothing, and what is missing comes
//     back with time, so only the queue is looked at.
//   - A [core.ChainedLimiter]: each of its limiters. A view that has a method Unwrap()
//     core.Limiter, as [core.WithReason] makes them: what it is a view of.
//   - A [core.Idler] that is no Reporter: it must be idle.
//   - Any other: as many permits must be available as were when NoLeaks was called.
//
// A nil limiter fails the test at once.
func NoLeaks(tb testing.TB, limiters ...core.Limiter) {
	tb.Helper()
	limiters = unchained(limiters)
	before := make([]int, len(limiters))
	for i, l := range limiters {
		if l == nil {
			tb.Fatalf("limitertest: NoLeaks limiter %d is nil", i)
			return
		}
		before[i] = l.Available()
	}
	tb.Cleanup(func() {
		tb.Helper()
		for i, l := range limiters {
			noLeak(tb, i, l, before[i])
		}
	})
}

// unchained returns the limiters, and for each chain among them those that it is made of,
// whatever they are seen through.
func unchained(limiters []core.Limiter) []core.Limiter {
	all := make([]core.Limiter, 0, len(limiters))
	for _, l := range limiters {
		switch v := l.(type) {
		case *core.ChainedLimiter:
			if v != nil {
				all = append(all, unchained(v.Limiters())...)
				continue
			}
		case interface{ Unwrap() core.Limiter }:
			if inner := v.Unwrap(); inner != nil {
				all = append(all, unchained([]core.Limiter{inner})...)
				continue
			}
		}
		all = append(all, l)
	}
	return all
}

func noLeak(tb testing.TB, i int, l core.Limiter, before int) {
	tb.Helper()
	replenishes := offersOf(l, 0).replenisher
	r, reports := l.(core.Reporter)
	if reports {
		st := r.Statistics()
		if st.Queued > 0 {
			tb.Errorf("limitertest: limiter %d (%T): %d permits still wait in the queue", i, l, st.Queued)
		}
		if !replenishes && st.Available < st.Limit {
			tb.Errorf("limitertest: limiter %d (%T): %d of %d permits were not released", i, l, st.Limit-st.Available, st.Limit)
		}
		if st.Limit > 0 {
			return
		}
	}
	if replenishes {
		return
	}
	if idler, ok := l.(core.Idler); ok && !reports {
		if _, idle := idler.IdleFor(); !idle {
			tb.Errorf("limitertest: limiter %d (%T) is not idle: a lease was not released", i, l)
		}
		return
	}
	if now := l.Available(); now < before {
		tb.Errorf("limitertest: limiter %d (%T): %d permits were not released", i, l, before-now)
	}
}
