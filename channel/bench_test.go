package channel_test

import (
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
