package channel_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
)

// takers are ways in which a receiver takes items until the channel is closed and empty.
// Each adds to got.
func takers(t *testing.T) map[string]func(c *channel.LimitedChannel[int], got *atomic.Int64) {
	t.Helper()
	return map[string]func(*channel.LimitedChannel[int], *atomic.Int64){
		"TryReceive": func(c *channel.LimitedChannel[int], got *atomic.Int64) {
			for {
				select {
				case <-c.Done():
					return
				default:
				}
				if _, ok := c.TryReceive(); ok {
					got.Add(1)
				}
				runtime.Gosched()
			}
		},
		"Receive": func(c *channel.LimitedChannel[int], got *atomic.Int64) {
			for range c.All(t.Context()) {
				got.Add(1)
			}
		},
		"ReceiveBatch": func(c *channel.LimitedChannel[int], got *atomic.Int64) {
			for dst := make([]int, 3); ; {
				n, err := c.ReceiveBatch(t.Context(), dst)
				if err != nil {
					return
				}
				got.Add(int64(n))
			}
		},
		"Chan": func(c *channel.LimitedChannel[int], got *atomic.Int64) {
			for range c.Chan(t.Context()) {
				got.Add(1)
			}
		},
	}
}

// TestStressMailbox has senders that drop and a receiver at a small channel: each item is received,
// dropped or refused. With core's concurrency limiter no send is refused, whatever the receiver
// takes meanwhile; but a Chan's consumer may hold all the permits.
func TestStressMailbox(t *testing.T) {
	const senders, each = 3, 600
	for mode := channel.DropOldest; mode <= channel.DropNewest; mode++ {
		for _, room := range []int{1, 2} {
			for way, take := range takers(t) {
				for name, l := range limiters(t, refusing(t, room)) {
					t.Run(mode.String()+" "+way+" "+name, func(t *testing.T) {
						var got, dropped, refused atomic.Int64
						c := open(t, channel.Options[int]{Limiter: l, Overflow: mode, OnDrop: func(int) { dropped.Add(1) }})
						var receiver, all sync.WaitGroup
						receiver.Go(func() { take(c, &got) })
						for range senders {
							all.Go(func() {
								for i := range each {
									var err error
									if i%4 == 0 {
										err = c.Send(t.Context(), i)
									} else {
										err = c.TrySend(i)
									}
									if err != nil {
										refused.Add(1)
									}
									if i%50 == 0 {
										runtime.Gosched()
									}
								}
							})
						}
						all.Wait()
						require.NoError(t, c.Close())
						receiver.Wait()
						if name == "itself" && way != "Chan" {
							require.Zero(t, refused.Load(), "refused")
						}
						require.EqualValues(t, senders*each, got.Load()+dropped.Load()+refused.Load())
						require.Equal(t, room, l.Available())
					})
				}
			}
		}
	}
}
