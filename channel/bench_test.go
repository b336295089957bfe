package channel_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/sluice-go/sluice/channel"
)

const benchCapacity = 128

// BenchmarkTry passes one item at a time on one goroutine; package bench has the rest.
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
		"limiter": open(b, channel.Options[int]{Limiter: permits(b, benchCapacity)}),
	} {
		b.Run("impl="+name, func(b *testing.B) {
			for b.Loop() {
				_ = c.TrySend(1)
				c.TryReceive()
			}
		})
	}
}

// BenchmarkBounded passes items through one place, where nearly each send and receive waits.
func BenchmarkBounded(b *testing.B) {
	native, c := make(chan int, 1), bounded(b, 1)
	for _, impl := range []struct {
		name          string
		send, receive func()
	}{
		{"native", func() { native <- 1 }, func() { <-native }},
		{"sluice", func() { _ = c.Send(b.Context(), 1) }, func() { _, _ = c.Receive(b.Context()) }},
	} {
		for _, senders := range []int{1, 100} {
			b.Run(fmt.Sprintf("senders=%d/impl=%s", senders, impl.name), func(b *testing.B) {
				b.ReportAllocs()
				var all sync.WaitGroup
				for i := range senders {
					all.Go(func() {
						for range (b.N + i) / senders {
							impl.send()
						}
					})
				}
				for range b.N {
					impl.receive()
				}
				all.Wait()
			})
		}
	}
}
