package channel_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

// exact is a channel with a drop mode and core's concurrency limiter, on which senders send while
// something else goes on: none of them may be refused.
type exact struct {
	*testing.T
	c                    *channel.LimitedChannel[int]
	got, dropped, failed atomic.Int64
}

func newExact(t *testing.T, o channel.Options[int]) *exact {
	t.Helper()
	e := &exact{T: t}
	o.OnDrop = func(int) { e.dropped.Add(1) }
	e.c = open(t, o)
	return e
}

// run sends each times from three goroutines, while beside runs in another until stop is closed.
// Each item is received or dropped, and none refused.
func (e *exact) run(each int, send func(v int) error, beside func(stop <-chan struct{})) {
	e.Helper()
	stop := make(chan struct{})
	var senders, others sync.WaitGroup
	others.Go(func() { beside(stop) })
	for range 3 {
		senders.Go(func() {
			for v := range each {
				if err := send(v); err != nil {
					e.failed.Add(1)
					e.Error(err)
				}
			}
		})
	}
	senders.Wait()
	close(stop)
	others.Wait()
	e.dropped.Add(int64(e.c.Len()))
	e.c.Discard()
	require.Zero(e, e.failed.Load(), "refused what an empty channel takes")
}

func stopped(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

// batches receives in batches until stop is closed, each time for as long as f runs.
func (e *exact) batches(stop <-chan struct{}, f func()) {
	dst := make([]int, 3)
	for !stopped(stop) {
		f()
		ctx, cancel := context.WithTimeout(e.Context(), time.Microsecond)
		n, _ := e.c.ReceiveBatch(ctx, dst)
		e.got.Add(int64(n))
		cancel()
	}
}

func TestExactBesideBatchesAndAbandonedChans(t *testing.T) {
	for _, mode := range []channel.Overflow{channel.DropOldest, channel.DropNewest} {
		for name, o := range map[string]channel.Options[int]{
			"permits":  {Limiter: refusing(t, 4), Overflow: mode},
			"capacity": {Limiter: refusing(t, 9), Capacity: 1, Overflow: mode},
		} {
			t.Run(mode.String()+" "+name+" standing still", func(t *testing.T) {
				e := newExact(t, o)
				ctx, cancel := context.WithCancel(t.Context())
				a, b := e.c.Chan(ctx), e.c.Chan(ctx)
				e.run(5000, e.c.TrySend, func(stop <-chan struct{}) { e.batches(stop, func() {}) })
				cancel()
				<-a
				<-b
			})
			t.Run(mode.String()+" "+name+" abandoned", func(t *testing.T) {
				e := newExact(t, o)
				e.run(5000, e.c.TrySend, func(stop <-chan struct{}) {
					e.batches(stop, func() {
						ctx, cancel := context.WithCancel(t.Context())
						abandoned := e.c.Chan(ctx)
						runtime.Gosched()
						cancel()
						for range abandoned {
							e.got.Add(1)
						}
					})
				})
			})
		}
	}
}

// Sends, batches and TrySends of a drop mode are all exact beside one another.
func TestExactBesideSendsAndBatches(t *testing.T) {
	for _, mode := range []channel.Overflow{channel.DropOldest, channel.DropNewest} {
		for _, room := range []int{1, 2} {
			t.Run(mode.String(), func(t *testing.T) {
				l := permits(t, room)
				e := newExact(t, channel.Options[int]{Limiter: l, Overflow: mode})
				send := func(v int) error {
					switch v % 3 {
					case 0:
						return e.c.Send(t.Context(), v)
					case 1:
						_, err := e.c.SendBatch(t.Context(), []int{v, v})
						return err
					}
					return e.c.TrySend(v)
				}
				e.run(3000, send, func(stop <-chan struct{}) {
					for !stopped(stop) {
						e.c.TryReceive()
						runtime.Gosched()
					}
				})
				require.Equal(t, room, l.Available())
				require.Zero(t, l.Statistics().Queued)
			})
		}
	}
}

// slow is a limiter of a user that takes its time, and grants n permits.
func slow(t *testing.T, n int, asked *atomic.Int64) *user {
	t.Helper()
	l := &user{Limiter: refusing(t, n)}
	l.try = func(n int) core.Lease {
		asked.Add(1)
		time.Sleep(time.Millisecond)
		return l.Limiter.TryAcquire(n)
	}
	return l
}

func TestSlowLimiterIsNotFlooded(t *testing.T) {
	const senders, places = 4, 2
	for _, mode := range []channel.Overflow{channel.DropOldest, channel.DropNewest, channel.DropIncoming} {
		bubble(t, mode.String(), func(t *testing.T) {
			var asked atomic.Int64
			refused := slow(t, places, &asked)
			c := open(t, channel.Options[int]{Limiter: refused, Overflow: mode})
			sends(t, c, 1)
			stranger := refused.Limiter.TryAcquire(1)
			asked.Store(0)
			begin := time.Now()
			var wg sync.WaitGroup
			for v := range senders {
				wg.Go(func() { _ = c.TrySend(v) })
			}
			wg.Wait()
			// Each item that is dropped, and each send, is a question; there are no others.
			require.LessOrEqual(t, asked.Load(), int64(2*senders+places))
			require.LessOrEqual(t, time.Since(begin), 20*time.Millisecond)
			stranger.Release()
		})
	}
	bubble(t, "of which strangers hold all", func(t *testing.T) {
		var asked atomic.Int64
		l := slow(t, 3, &asked)
		c, dropped := dropping(t, channel.Options[int]{Limiter: l, Overflow: channel.DropOldest})
		sends(t, c, 1, 2)
		stranger := l.Limiter.TryAcquire(1)
		l.acquire = func(ctx context.Context, _ int) (core.Lease, error) { return core.Reject(), ctx.Err() }
		l.try = func(int) core.Lease { asked.Add(1); return core.Reject(core.ReasonPhrase.With("busy")) }
		asked.Store(0)
		refuses(t, c.TrySend(3), "busy")
		require.Equal(t, []int{1, 2}, *dropped, "one after the other, until nothing is left")
		require.EqualValues(t, 3, asked.Load())
		stranger.Release()
	})
}
