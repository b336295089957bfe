package channels

import (
	"context"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

// room is the sum of the weights that may be queued: 128 of the heaviest items.
const room = capacity << 20

var weights = []int{1, 16, 256, 4096, 65_536, 1 << 20}

// BenchmarkChannelWeight passes items from one sender to one receiver through a channel
// that is bounded by their weight, and holds 128 of them: each item costs 1 to 1,048,576
// permits. What a permit stands for must not matter.
func BenchmarkChannelWeight(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	sidebyside.Compare(b,
		sidebyside.Impl{Name: "sluice", Run: func(b *testing.B) {
			sidebyside.Over(b, "weight", weights, func(b *testing.B, w int) { carry(b, 1, weightedRoute(b, ctx, w)) })
		}},
		sidebyside.Impl{Name: "xsync-semaphore+native", Run: func(b *testing.B) {
			sidebyside.Over(b, "weight", weights, func(b *testing.B, w int) { carry(b, 1, weightedSemaphoreRoute(b, ctx, w)) })
		}},
	)
}

func weightedRoute(b *testing.B, ctx context.Context, weight int) route {
	b.Helper()
	limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		PermitLimit: capacity * weight, QueueLimit: room,
	})
	if err != nil {
		b.Fatal(err)
	}
	c, err := channel.New(channel.Options[int]{Limiter: limiter, Permits: func(int) int { return weight }})
	if err != nil {
		b.Fatal(err)
	}
	return routeOf(b, ctx, c)
}

func weightedSemaphoreRoute(b *testing.B, ctx context.Context, weight int) route {
	b.Helper()
	s, c := semaphore.NewWeighted(int64(capacity*weight)), make(chan int, capacity)
	w := int64(weight)
	return route{
		send: func(first, n int) {
			for i := range n {
				if err := s.Acquire(ctx, w); err != nil {
					b.Error(err)
					return
				}
				c <- first + i
			}
		},
		receive: func() (sum uint64) {
			for v := range c {
				s.Release(w)
				sum += uint64(v)
			}
			return sum
		},
		finish: func() { close(c) },
	}
}
