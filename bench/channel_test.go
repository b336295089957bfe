package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

const capacity = 128 // items

// route is a way from senders to receivers. send and receive run once per goroutine: send sends the numbers from first
// to first+n-1, and receive adds up what it receives until the channel is closed and empty.
type route struct {
	send    func(first, n int)
	receive func() (sum int)
	close   func()
}

// BenchmarkChannel passes items from senders to as many receivers. The channel holds 128 items.
func BenchmarkChannel(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	sized(b, "pairs", []int{1, 4, 64}, func(b *testing.B, pairs int) {
		compare(b,
			impl{"sluice", func(b *testing.B) {
				c := core.Must(channel.New(channel.Options[int]{Limiter: newConcurrency(b, capacity)}))
				carry(b, pairs, limited(b, ctx, c))
			}},
			impl{"sluice-bounded", func(b *testing.B) {
				carry(b, pairs, limited(b, ctx, core.Must(channel.Bounded[int](capacity))))
			}},
			impl{"native", func(b *testing.B) { carry(b, pairs, native()) }},
			impl{"native-select", func(b *testing.B) { carry(b, pairs, selecting(ctx)) }},
		)
	})
}

// carry sends b.N items and checks the sum of the received items.
func carry(b *testing.B, pairs int, r route) {
	b.Helper()
	var sum, next atomic.Int64
	var receivers sync.WaitGroup
	for range pairs {
		receivers.Go(func() { sum.Add(int64(r.receive())) })
	}
	spread(b, pairs, func(n int) { r.send(int(next.Add(int64(n)))-n, n) })
	b.StartTimer() // the last items are received after the last one is sent
	r.close()
	receivers.Wait()
	b.StopTimer()
	if want := int64(b.N) * int64(b.N-1) / 2; sum.Load() != want {
		b.Fatalf("sum of the received items is %d, want %d", sum.Load(), want)
	}
}

func limited(b *testing.B, ctx context.Context, c *channel.LimitedChannel[int]) route {
	b.Helper()
	return route{
		send: func(first, n int) {
			for i := range n {
				if err := c.Send(ctx, first+i); err != nil {
					b.Error(err)
					return
				}
			}
		},
		receive: func() (sum int) {
			for {
				v, err := c.Receive(ctx)
				if err != nil {
					if !errors.Is(err, channel.ErrClosed) {
						b.Error(err)
					}
					return sum
				}
				sum += v
			}
		},
		close: func() { _ = c.Close() },
	}
}

func native() route {
	c := make(chan int, capacity)
	return route{
		send: func(first, n int) {
			for i := range n {
				c <- first + i
			}
		},
		receive: func() (sum int) {
			for v := range c {
				sum += v
			}
			return sum
		},
		close: func() { close(c) },
	}
}

// selecting is a native channel whose users also watch a context, as those of a Bounded channel do.
func selecting(ctx context.Context) route {
	c := make(chan int, capacity)
	return route{
		send: func(first, n int) {
			for i := range n {
				select {
				case c <- first + i:
				case <-ctx.Done():
					return
				}
			}
		},
		receive: func() (sum int) {
			for {
				select {
				case v, ok := <-c:
					if !ok {
						return sum
					}
					sum += v
				case <-ctx.Done():
					return sum
				}
			}
		},
		close: func() { close(c) },
	}
}

// parcel is an item of 4 KiB.
type parcel struct {
	n int
	_ [4096 - 8]byte
}

// BenchmarkLargeItems passes items of 4 KiB from one sender to one receiver.
func BenchmarkLargeItems(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	sized(b, "capacity", []int{1, 64}, func(b *testing.B, capacity int) {
		compare(b,
			impl{"sluice", func(b *testing.B) {
				c := core.Must(channel.New(channel.Options[parcel]{Limiter: newConcurrency(b, capacity)}))
				carry(b, 1, parcels(b, ctx, c))
			}},
			impl{"sluice-bounded", func(b *testing.B) {
				carry(b, 1, parcels(b, ctx, core.Must(channel.Bounded[parcel](capacity))))
			}},
			impl{"native", func(b *testing.B) {
				c := make(chan parcel, capacity)
				carry(b, 1, route{
					send: func(first, n int) {
						for i := range n {
							c <- parcel{n: first + i}
						}
					},
					receive: func() (sum int) {
						for v := range c {
							sum += v.n
						}
						return sum
					},
					close: func() { close(c) },
				})
			}},
		)
	})
}

func parcels(b *testing.B, ctx context.Context, c *channel.LimitedChannel[parcel]) route {
	b.Helper()
	return route{
		send: func(first, n int) {
			for i := range n {
				if err := c.Send(ctx, parcel{n: first + i}); err != nil {
					b.Error(err)
					return
				}
			}
		},
		receive: func() (sum int) {
			for {
				v, err := c.Receive(ctx)
				if err != nil {
					return sum
				}
				sum += v.n
			}
		},
		close: func() { _ = c.Close() },
	}
}
