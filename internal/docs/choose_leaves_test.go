package docs_test

import (
	"time"

	"github.com/sluice-go/sluice/core"
)

// A leaf of the decision in docs/choose.md: the limit as text and its constructor, which the page
// shows.
type leaf struct {
	name  string // of the test
	spec  string
	build func() (core.Limiter, error)
	waits bool // Acquire is called; otherwise TryAcquire, and the queue does not matter
}

var leaves = []leaf{
	{"bucket", "10/s burst 10", as(bucket), false},
	{"even", "10/s burst 1 queue 30", as(even), true},
	{"fixed", "fixed 10/1s", as(fixed), false},
	{"sliding", "sliding 10/1s", as(sliding), false},
	{"concurrency", "concurrency 5", as(concurrency), false},
	{"queue", "10/s burst 10 queue 10", as(queue), true},
	{"newest", "concurrency 5 queue 10 newest-first", as(newest), true},
}

func as[L core.Limiter](build func() (L, error)) func() (core.Limiter, error) {
	return func() (core.Limiter, error) { return build() }
}

func bucket() (*core.TokenBucket, error) {
	return core.NewTokenBucket(core.PerSecond(10, 10))
}

func even() (*core.TokenBucket, error) {
	o := core.PerSecond(10, 1)
	o.QueueLimit = 30
	return core.NewTokenBucket(o)
}

func fixed() (*core.FixedWindow, error) {
	return core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 10, Window: time.Second})
}

func sliding() (*core.SlidingWindow, error) {
	return core.NewSlidingWindow(core.SlidingWindowOptions{PermitLimit: 10, Window: time.Second, SegmentsPerWindow: 10})
}

func concurrency() (*core.ConcurrencyLimiter, error) {
	return core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 5})
}

func queue() (*core.TokenBucket, error) {
	o := core.PerSecond(10, 10)
	o.QueueLimit = 10
	return core.NewTokenBucket(o)
}

func newest() (*core.ConcurrencyLimiter, error) {
	return core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		PermitLimit: 5, QueueLimit: 10, QueueOrder: core.NewestFirst,
	})
}
