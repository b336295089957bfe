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
)

// exact is a channel with a drop mode and core's concurrency limiter, on which senders send while
// something else runs: none of them may be rejected.
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
