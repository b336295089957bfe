package channel_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/sluice-go/sluice/channel"
)

// way is a way to pass items on: each bench has one send and one receive per item.
type way struct {
	name    string
	send    func(ctx context.Context, v int)
	receive func(ctx context.Context) bool // false: closed and empty
	close   func()
}

const benchCapacity = 128

func native() way {
	c := make(chan int, benchCapacity)
	return way{
		"native",
		func(_ context.Context, v int) { c <- v },
		func(context.Context) bool { _, ok := <-c; return ok },
		func() { close(c) },
	}
}

func nativeSelect() way {
	c := make(chan int, benchCapacity)
	return way{
		"native-select",
		func(ctx context.Context, v int) {
			select {
			case c <- v:
			case <-ctx.Done():
			}
		},
		func(ctx context.Context) bool {
			select {
			case _, ok := <-c:
				return ok
			case <-ctx.Done():
				return false
			}
		},
		func() { close(c) },
	}
}

func sluice(name string, c *channel.LimitedChannel[int]) way {
	return way{
		name,
		func(ctx context.Context, v int) { _ = c.Send(ctx, v) },
		func(ctx context.Context) bool { _, err := c.Receive(ctx); return err == nil },
		func() { _ = c.Close() },
	}
}

func limited(b *testing.B) *channel.LimitedChannel[int] {
	b.Helper()
	return open(b, channel.Options[int]{Limiter: permits(b, benchCapacity)})
}

func BenchmarkChannel(b *testing.B) {
	for _, n := range []int{1, 4, 64} {
		for _, open := range []func() way{
			native,
			nativeSelect,
			func() way { return sluice("bounded", bounded(b, benchCapacity)) },
			func() way { return sluice("limiter", limited(b)) },
		} {
			w := open()
			b.Run(fmt.Sprintf("impl=%s/shape=%d:%d", w.name, n, n), func(b *testing.B) {
				b.ReportAllocs()
				pass(b, open(), n)
			})
		}
	}
}

// pass passes b.N items from n senders to n receivers.
func pass(b *testing.B, w way, n int) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var senders, receivers sync.WaitGroup
	for range n {
		receivers.Go(func() {
			for w.receive(ctx) {
			}
		})
	}
	for i := range n {
		senders.Go(func() {
			for v := i; v < b.N; v += n {
				w.send(ctx, v)
			}
		})
	}
	senders.Wait()
	w.close()
	receivers.Wait()
}

func BenchmarkTry(b *testing.B) {
	c := make(chan int, benchCapacity)
	b.Run("impl=native", func(b *testing.B) {
		for b.Loop() {
			select {
			case c <- 1:
			default:
			}
			select {
			case <-c:
			default:
			}
		}
	})
	for name, c := range map[string]*channel.LimitedChannel[int]{
		"bounded": bounded(b, benchCapacity),
		"limiter": limited(b),
	} {
		b.Run("impl="+name, func(b *testing.B) {
			for b.Loop() {
				_ = c.TrySend(1)
				c.TryReceive()
			}
		})
	}
}
