package redislimit_test

import (
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/limitertest"
	"github.com/sluice-go/sluice/redislimit"
)

// conforms runs the conformance suite on limiters that make returns, each on a server of
// its own, in the bubble of the rule.
func conforms(t *testing.T, c limitertest.Config, build func(redislimit.Options) (core.Limiter, error)) {
	t.Helper()
	var mu sync.Mutex
	servers := map[core.Limiter]*server{}
	c.New = func() core.Limiter {
		s := newServer()
		l, err := build(s.shared("key"))
		if err != nil {
			panic(err)
		}
		mu.Lock()
		servers[l] = s
		mu.Unlock()
		return l
	}
	c.Done = func(l core.Limiter) {
		mu.Lock()
		defer mu.Unlock()
		servers[l].close()
		delete(servers, l)
	}
	limitertest.Run(t, c)
}

// conforming returns the limiter of core whose limit a conformance test shares, and when all its permits are back.
func conforming(kind string, limit, queue int, order core.QueueOrder, unit time.Duration) (l core.Limiter, refill time.Duration) {
	switch kind {
	case "concurrency":
		return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
			Name: "c", PermitLimit: limit, QueueLimit: queue, QueueOrder: order,
		})), 0
	case "bucket":
		return core.Must(core.NewTokenBucket(core.TokenBucketOptions{
			Name: "b", TokenLimit: limit, TokensPerPeriod: 2, ReplenishmentPeriod: unit, QueueLimit: queue, QueueOrder: order,
		})), time.Duration((limit+1)/2) * unit
	case "fixed":
		return core.Must(core.NewFixedWindow(core.FixedWindowOptions{
			Name: "f", PermitLimit: limit, Window: unit, Anchor: time.Now(), QueueLimit: queue, QueueOrder: order,
		})), unit
	}
	return core.Must(core.NewSlidingWindow(core.SlidingWindowOptions{
		Name: "s", PermitLimit: limit, Window: unit, SegmentsPerWindow: 4, Anchor: time.Now(), QueueLimit: queue, QueueOrder: order,
	})), unit
}

func TestConformance(t *testing.T) {
	const limit = 5
	for _, o := range []struct {
		name  string
		order core.QueueOrder
		queue int
		kinds []string
	}{
		{"oldest first", core.OldestFirst, 7, []string{"concurrency", "bucket", "fixed", "sliding"}},
		{"newest first", core.NewestFirst, 7, []string{"concurrency", "bucket"}},
		{"a short queue", core.OldestFirst, 3, []string{"concurrency", "sliding"}},
		{"no queue", core.OldestFirst, 0, []string{"fixed"}},
		{"fair share", core.FairShare, 7, []string{"concurrency", "bucket", "fixed", "sliding"}},
	} {
		for _, kind := range o.kinds {
			t.Run(kind+", "+o.name, func(t *testing.T) {
				c := limitertest.Config{Limit: limit, Grain: time.Microsecond, QueueLimit: o.queue, QueueOrder: o.order}
				// Behind a queue, RetryAfter is a lower bound if waiters take more than one tick or window brings.
				c.Skip = []string{"retry after in a queue"}
				_, c.Refill = conforming(kind, limit, o.queue, o.order, time.Second)
				conforms(t, c, func(s redislimit.Options) (core.Limiter, error) {
					l, _ := conforming(kind, limit, o.queue, o.order, time.Second)
					return redislimit.New(optionsOf(l), s)
				})
			})
		}
	}
}
