package limitertest_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/limitertest"
)

const limit = 5

// must returns the limiter; the options of these tests are right.
func must[L core.Limiter](l L, err error) core.Limiter {
	if err != nil {
		panic(err)
	}
	return l
}

func concurrency(queue int, order core.QueueOrder) core.Limiter {
	return must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		Name: "slots", PermitLimit: limit, QueueLimit: queue, QueueOrder: order,
	}))
}

func bucket(queue int, order core.QueueOrder, manual bool) core.Limiter {
	return must(core.NewTokenBucket(core.TokenBucketOptions{
		Name: "bucket", TokenLimit: limit, TokensPerPeriod: 2, ReplenishmentPeriod: 10 * time.Second,
		QueueLimit: queue, QueueOrder: order, ManualReplenishment: manual,
	}))
}

func fixed(queue int, order core.QueueOrder, manual bool) core.Limiter {
	return must(core.NewFixedWindow(core.FixedWindowOptions{
		Name: "fixed", PermitLimit: limit, Window: time.Minute,
		QueueLimit: queue, QueueOrder: order, ManualReplenishment: manual,
	}))
}

func sliding(queue int, order core.QueueOrder, manual bool) core.Limiter {
	return must(core.NewSlidingWindow(core.SlidingWindowOptions{
		Name: "sliding", PermitLimit: limit, Window: 100, SegmentsPerWindow: 7,
		QueueLimit: queue, QueueOrder: order, ManualReplenishment: manual,
	}))
}

// kind is one of the built-in limiters.
type kind struct {
	name   string
	refill time.Duration
	make   func(queue int, order core.QueueOrder, manual bool) core.Limiter
}

var kinds = []kind{
	{"concurrency", 0, func(queue int, order core.QueueOrder, _ bool) core.Limiter { return concurrency(queue, order) }},
	{"bucket", 30 * time.Second, bucket},
	{"fixed", time.Minute, fixed},
	{"sliding", 100, sliding},
}

// update applies another limit, of one of the built-in limiters or a view of one.
func update(l core.Limiter, limit int) error {
	switch l := l.(type) {
	case *core.ConcurrencyLimiter:
		o := l.Options()
		o.PermitLimit = limit
		return l.Update(o)
	case *core.TokenBucket:
		o := l.Options()
		o.TokenLimit, o.TokensPerPeriod = limit, min(o.TokensPerPeriod, max(limit, 1))
		return l.Update(o)
	case *core.FixedWindow:
		o := l.Options()
		o.PermitLimit = limit
		return l.Update(o)
	case *core.SlidingWindow:
		o := l.Options()
		o.PermitLimit = limit
		return l.Update(o)
	case interface{ Unwrap() core.Limiter }:
		return update(l.Unwrap(), limit)
	}
	return nil
}

// eachLimiter runs f on all kinds, in all orders, with queues of these sizes, manual and automatic.
func eachLimiter(t *testing.T, queues []int, f func(*testing.T, limitertest.Config)) {
	t.Helper()
	for _, k := range kinds {
		for _, order := range []core.QueueOrder{core.OldestFirst, core.NewestFirst, core.FairShare} {
			for _, queue := range queues {
				for _, manual := range []bool{false, true} {
					if manual && k.refill == 0 {
						continue
					}
					t.Run(fmt.Sprintf("%s/%v/queue=%d/manual=%v", k.name, order, queue, manual), func(t *testing.T) {
						c := limitertest.Config{
							New:   func() core.Limiter { return k.make(queue, order, manual) },
							Limit: limit, QueueLimit: queue, QueueOrder: order, Refill: k.refill, Manual: manual,
							Update: update,
						}
						f(t, c)
					})
				}
			}
		}
	}
}

func TestBuiltInLimitersConform(t *testing.T) {
	eachLimiter(t, []int{0, 3, queue, math.MaxInt}, func(t *testing.T, c limitertest.Config) { limitertest.Run(t, c) })
}

func TestLimitsAtTheEdgeConform(t *testing.T) {
	for name, c := range map[string]limitertest.Config{
		"a limit of one": {Limit: 1, QueueLimit: 3, New: func() core.Limiter {
			return must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 3}))
		}},
		"a huge limit": {Limit: math.MaxInt - 1, QueueLimit: math.MaxInt, New: func() core.Limiter {
			return must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: math.MaxInt - 1, QueueLimit: math.MaxInt}))
		}},
		"a token each nanosecond": {Limit: limit, QueueLimit: 9, Refill: limit, New: func() core.Limiter {
			return must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: 1, ReplenishmentPeriod: 1, QueueLimit: 9}))
		}},
		"a window of a nanosecond": {Limit: limit, QueueLimit: 9, Refill: 1, New: func() core.Limiter {
			return must(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: limit, Window: 1, QueueLimit: 9}))
		}},
		"a segment for each nanosecond": {Limit: limit, QueueLimit: 9, Refill: time.Second, New: func() core.Limiter {
			return must(core.NewSlidingWindow(core.SlidingWindowOptions{PermitLimit: limit, Window: time.Second, SegmentsPerWindow: 1e9, QueueLimit: 9}))
		}},
	} {
		t.Run(name, func(t *testing.T) { limitertest.Run(t, c) })
	}
}

// A bubble starts at midnight UTC on Saturday, 1 January 2000: a whole window is ahead of a new limiter there. Months
// are not checked, as they differ in length.
func TestCalendarsConform(t *testing.T) {
	for name, c := range map[string]struct {
		calendar core.Calendar
		refill   time.Duration
	}{
		"daily":  {core.Daily(nil), 24 * time.Hour},
		"weekly": {core.Weekly(time.Saturday, nil), 7 * 24 * time.Hour},
	} {
		for _, order := range []core.QueueOrder{core.OldestFirst, core.NewestFirst, core.FairShare} {
			t.Run(fmt.Sprintf("%s/%v", name, order), func(t *testing.T) {
				limitertest.Run(t, limitertest.Config{
					New: func() core.Limiter {
						return must(core.NewFixedWindow(core.FixedWindowOptions{
							PermitLimit: limit, Calendar: c.calendar, QueueLimit: 2*limit + 1, QueueOrder: order,
						}))
					},
					Limit: limit, QueueLimit: 2*limit + 1, QueueOrder: order, Refill: c.refill, Update: update,
				})
			})
		}
	}
}

func TestUnlimitedConforms(t *testing.T) {
	for name, wrap := range map[string]func(core.Limiter) core.Limiter{
		"bare":       func(l core.Limiter) core.Limiter { return l },
		"withReason": func(l core.Limiter) core.Limiter { return core.WithReason(l, "never") },
		"chain":      func(l core.Limiter) core.Limiter { return must(core.Chain(l, core.Unlimited())) },
	} {
		t.Run(name, func(t *testing.T) {
			limitertest.Run(t, limitertest.Config{
				New: func() core.Limiter { return wrap(core.Unlimited()) }, Limit: math.MaxInt,
			})
		})
	}
}

func TestViewsOfOneLimiterConform(t *testing.T) {
	for name, view := range map[string]func(core.Limiter) core.Limiter{
		"reason": func(l core.Limiter) core.Limiter { return core.WithReason(l, "not today") },
		"chain":  func(l core.Limiter) core.Limiter { return must(core.Chain(l)) },
		"switch": func(l core.Limiter) core.Limiter {
			s := core.NewSwitch(core.Blocked())
			s.Set(l)
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachLimiter(t, []int{3, queue}, func(t *testing.T, c limitertest.Config) {
				if name == "switch" && c.Manual {
					t.Skip("a Switch does not replenish")
				}
				inner := c.New
				c.New = func() core.Limiter { return view(inner()) }
				if name != "reason" {
					c.Update = nil
				}
				limitertest.Run(t, c)
			})
		})
	}
}

func TestChainOfBothKindsConforms(t *testing.T) {
	for _, order := range []core.QueueOrder{core.OldestFirst, core.NewestFirst} {
		for _, queue := range []int{0, 3, 2*limit + 1} {
			for name, chain := range map[string]func() core.Limiter{
				"slots first": func() core.Limiter {
					return must(core.Chain(concurrency(queue, order), bucket(queue, order, false)))
				},
				"slots last": func() core.Limiter {
					return must(core.Chain(fixed(queue, order, false), concurrency(queue, order)))
				},
				"of chains": func() core.Limiter {
					inner := must(core.Chain(core.Unlimited(), concurrency(queue, order)))
					return must(core.Chain(inner, must(core.Chain(core.WithReason(fixed(queue, order, false), "wait")))))
				},
			} {
				t.Run(fmt.Sprintf("%s/%v/queue=%d", name, order, queue), func(t *testing.T) {
					c := limitertest.Config{New: chain, Limit: limit, QueueLimit: queue, QueueOrder: order, Refill: time.Minute, Holds: true}
					if name == "slots first" {
						c.Refill = 30 * time.Second
					}
					if name == "slots last" {
						// All who waited for the window ask for a slot at the same time, in any order.
						c.Skip = []string{"queue"}
					}
					limitertest.Run(t, c)
				})
			}
		}
	}
}

func TestCustomLimitersConform(t *testing.T) {
	t.Run("semaphore", func(t *testing.T) {
		for _, queue := range []int{0, 1, 3, 2*limit + 1} {
			limitertest.Run(t, limitertest.Config{
				New: func() core.Limiter { return newSemaphore(queue, ledgerFaults{}) }, Limit: limit, QueueLimit: queue,
			})
		}
	})
	t.Run("quota", func(t *testing.T) {
		limitertest.Run(t, limitertest.Config{
			New: func() core.Limiter { return newQuota(time.Minute, 0) }, Limit: limit, Refill: time.Minute,
		})
	})
	t.Run("chain", func(t *testing.T) {
		limitertest.Run(t, limitertest.Config{
			New: func() core.Limiter {
				return must(core.Chain(newSemaphore(7, ledgerFaults{}), newQuota(time.Minute, 0)))
			},
			Limit: limit, QueueLimit: 7, Refill: time.Minute, Holds: true,
			Skip: []string{
				// Who waited for the semaphore may find the quota spent, and that has no queue.
				"queue", "statistics", "retry after in a queue", "deadlines", "concurrent callers",
				// The quota knows no refund, and not how long it has been idle.
				"refunds", "settlements", "resets", "idle",
			},
		})
	})
}
