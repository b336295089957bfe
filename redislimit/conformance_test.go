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
func conforms(t *testing.T, c limitertest.Config, build func(redislimit.StoreOptions) (core.Limiter, error)) {
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

func TestConformance(t *testing.T) {
	const limit = 5
	for _, o := range []struct {
		name  string
		order core.QueueOrder
		queue int
	}{
		{"oldest first", core.OldestFirst, 7},
		{"newest first", core.NewestFirst, 7},
		{"a short queue", core.OldestFirst, 3},
		{"no queue", core.OldestFirst, 0},
	} {
		c := limitertest.Config{Limit: limit, Grain: time.Microsecond, Lag: 100 * time.Millisecond, QueueLimit: o.queue, QueueOrder: o.order}
		t.Run("concurrency, "+o.name, func(t *testing.T) {
			conforms(t, c, func(s redislimit.StoreOptions) (core.Limiter, error) {
				return redislimit.NewConcurrencyLimiter(redislimit.ConcurrencyLimiterOptions{
					Shared:                    s,
					ConcurrencyLimiterOptions: core.ConcurrencyLimiterOptions{Name: "c", PermitLimit: limit, QueueLimit: o.queue, QueueOrder: o.order},
				})
			})
		})
		t.Run("bucket, "+o.name, func(t *testing.T) {
			c := c
			c.Refill = 3 * time.Second
			// It is a lower bound where waiters take more than one tick brings.
			c.Skip = []string{"retry after counts the queue ahead"}
			conforms(t, c, func(s redislimit.StoreOptions) (core.Limiter, error) {
				return redislimit.NewTokenBucket(redislimit.TokenBucketOptions{Shared: s, TokenBucketOptions: core.TokenBucketOptions{
					Name: "b", TokenLimit: limit, TokensPerPeriod: 2, ReplenishmentPeriod: time.Second, QueueLimit: o.queue, QueueOrder: o.order,
				}})
			})
		})
		t.Run("fixed, "+o.name, func(t *testing.T) {
			c := c
			c.Refill = time.Second
			conforms(t, c, func(s redislimit.StoreOptions) (core.Limiter, error) {
				return redislimit.NewFixedWindow(redislimit.FixedWindowOptions{Shared: s, FixedWindowOptions: core.FixedWindowOptions{
					Name: "f", PermitLimit: limit, Window: time.Second, Anchor: time.Now(), QueueLimit: o.queue, QueueOrder: o.order,
				}})
			})
		})
		t.Run("sliding, "+o.name, func(t *testing.T) {
			c := c
			c.Refill = time.Second
			conforms(t, c, func(s redislimit.StoreOptions) (core.Limiter, error) {
				return redislimit.NewSlidingWindow(redislimit.SlidingWindowOptions{Shared: s, SlidingWindowOptions: core.SlidingWindowOptions{
					Name: "s", PermitLimit: limit, Window: time.Second, SegmentsPerWindow: 4, Anchor: time.Now(), QueueLimit: o.queue, QueueOrder: o.order,
				}})
			})
		})
	}
}
