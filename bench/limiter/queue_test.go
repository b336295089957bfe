package limiter

import (
	"context"
	"fmt"
	"testing"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"golang.org/x/sync/semaphore"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
)

// contender is a semaphore whose permits are all held. release gives them back, cycle
// acquires and releases one permit n times.
type contender struct {
	release func()
	cycle   func(n int)
}

var contenders = []struct {
	name string
	new  func(b *testing.B, ctx context.Context, permits int) contender
}{
	{"sluice", func(b *testing.B, ctx context.Context, permits int) contender {
		l := newConcurrency(b, permits)
		held := l.TryAcquire(permits)
		return contender{held.Release, func(n int) {
			for range n {
				lease, err := l.Acquire(ctx, 1)
				if err != nil {
					b.Error(err)
					return
				}
				lease.Release()
			}
		}}
	}},
	{"xsync-semaphore", func(b *testing.B, ctx context.Context, permits int) contender {
		s := semaphore.NewWeighted(int64(permits))
		s.TryAcquire(int64(permits))
		return contender{func() { s.Release(int64(permits)) }, func(n int) {
			for range n {
				if err := s.Acquire(ctx, 1); err != nil {
					b.Error(err)
					return
				}
				s.Release(1)
			}
		}}
	}},
	{"channel", func(b *testing.B, ctx context.Context, permits int) contender {
		c := make(chan struct{}, permits)
		for range permits {
			c <- struct{}{}
		}
		release := func() {
			for range permits {
				<-c
			}
		}
		return contender{release, func(n int) {
			for range n {
				select {
				case c <- struct{}{}:
				case <-ctx.Done():
					b.Error(ctx.Err())
					return
				}
				<-c
			}
		}}
	}},
	{"failsafe-bulkhead", func(b *testing.B, ctx context.Context, permits int) contender {
		h := bulkhead.New[any](uint(permits))
		for range permits {
			h.TryAcquirePermit()
		}
		release := func() {
			for range permits {
				h.ReleasePermit()
			}
		}
		return contender{release, func(n int) {
			for range n {
				if err := h.AcquirePermit(ctx); err != nil {
					b.Error(err)
					return
				}
				h.ReleasePermit()
			}
		}}
	}},
}

// BenchmarkHandOver hands permits from waiter to waiter: all goroutines are in the queue,
// and whoever gets a permit gives it to the next and queues again.
func BenchmarkHandOver(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	for _, size := range []struct{ goroutines, permits int }{{16, 1}, {sidebyside.Size(1000), 2}} {
		b.Run(fmt.Sprintf("goroutines=%d/permits=%d", size.goroutines, size.permits), func(b *testing.B) {
			impls := []sidebyside.Impl{}
			for _, c := range contenders {
				impls = append(impls, sidebyside.Impl{Name: c.name, Run: func(b *testing.B) {
					x := c.new(b, ctx, size.permits)
					sidebyside.HandOver(b, size.goroutines, x.release, x.cycle)
				}})
			}
			sidebyside.Compare(b, impls...)
		})
	}
}
