package limitertest

import (
	"testing"

	"github.com/sluice-go/sluice/core"
)

// NoLeaks fails the test when it ends if a lease of one of the limiters has not been released,
// or if a request still waits in a queue. It checks in a Cleanup: call NoLeaks at the start
// of the test, or where the limiters are made, so that Cleanups registered later run first. The
// test must wait for its own goroutines. A nil limiter fails the test immediately.
//
// What it compares depends on the limiter:
//
//   - A [core.Replenisher] with a period: only its queue. Its leases hold nothing, and its
//     permits come back with time.
//   - Any other [core.Reporter] that reports its Limit: Available must be Limit.
//   - A [core.Idler] that is not a Reporter: it must be idle.
//   - A [core.ChainedLimiter]: each of its limiters.
//   - A view with a method Unwrap() core.Limiter, such as that of [core.WithReason]: the
//     limiter behind it.
//   - Any other: at least as many permits must be available as when NoLeaks was called.
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

// unchained returns the limiters, with each chain, even behind views, replaced by its limiters.
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
	replenishes := replenishes(l)
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

// replenishes reports whether permits are returned with time: a chain is a Replenisher with a period
// of 0 if nothing in it replenishes.
func replenishes(l core.Limiter) bool {
	r, ok := l.(core.Replenisher)
	return ok && r.ReplenishmentPeriod() > 0
}
