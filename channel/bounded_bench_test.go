package channel_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/sluice-go/sluice/channel"
)

// BenchmarkBounded passes items through few places, where nearly each send and receive waits. A native
// channel has no context; with a select on ctx.Done() it does what ours does.
func BenchmarkBounded(b *testing.B) {
	for _, capacity := range []int{1, 2, 4, 16, 64} {
		for _, senders := range []int{1, 100} {
			for _, impl := range []string{"native", "native-select", "sluice"} {
				b.Run(fmt.Sprintf("capacity=%d/senders=%d/impl=%s", capacity, senders, impl), func(b *testing.B) {
					ctx, cancel := context.WithCancel(b.Context())
					defer cancel()
					native := make(chan int, capacity)
					c, err := channel.Bounded[int](capacity)
					if err != nil {
						b.Fatal(err)
					}
					send := func(v int) { native <- v }
					receive := func() { <-native }
					switch impl {
					case "sluice":
						send = func(v int) { _ = c.Send(ctx, v) }
						receive = func() { _, _ = c.Receive(ctx) }
					case "native-select":
						send = func(v int) {
							select {
							case native <- v:
							case <-ctx.Done():
							}
						}
						receive = func() {
							select {
							case <-native:
							case <-ctx.Done():
							}
						}
					}
					b.ReportAllocs()
					b.ResetTimer()
					var all sync.WaitGroup
					for i := range senders {
						n := b.N / senders
						if i < b.N%senders {
							n++
						}
						all.Go(func() {
							for v := range n {
								send(v)
							}
						})
					}
					for range b.N {
						receive()
					}
					all.Wait()
				})
			}
		}
	}
}
