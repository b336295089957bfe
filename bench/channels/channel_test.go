package channels

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/puzpuzpuz/xsync/v4"
	"golang.org/x/sync/semaphore"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

const capacity = 128

// route is one way from senders to receivers. Each of send and receive runs once per
// goroutine: send sends the numbers from first to first+n-1, receive adds up what it
// receives until finish has been called, after all is sent, and nothing is left.
type route struct {
	send    func(first, n int)
	receive func() (sum uint64)
	finish  func()
}

var routes = []struct {
	name string
	new  func(b *testing.B, ctx context.Context) route
}{
	{"sluice", limitedRoute},
	{"sluice-bounded", boundedRoute},
	{"native", nativeRoute},
	{"native-select", selectRoute},
	{"xsync-semaphore+native", semaphoreRoute},
	{"xsync-mpmc", mpmcRoute},
	{"sluice-batch", batchRoute},
}

// BenchmarkChannel passes items from senders to as many receivers through 128 places.
func BenchmarkChannel(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	for _, pairs := range []int{1, 4, 64} {
		b.Run(fmt.Sprintf("pairs=%d", pairs), func(b *testing.B) {
			impls := []sidebyside.Impl{}
			for _, r := range routes {
				impls = append(impls, sidebyside.Impl{Name: r.name, Run: func(b *testing.B) { carry(b, pairs, r.new(b, ctx)) }})
			}
			sidebyside.Compare(b, impls...)
		})
	}
}

// carry sends b.N items and checks the sum of the received items.
func carry(b *testing.B, pairs int, r route) {
	b.Helper()
	var sum atomic.Uint64
	var receivers sync.WaitGroup
	for range pairs {
		receivers.Go(func() { sum.Add(r.receive()) })
	}
	var next atomic.Int64
	sidebyside.Spread(b, pairs, func(n int) { r.send(int(next.Add(int64(n)))-n, n) })
	// The last items are received after the last is sent: some of at most 128.
	b.StartTimer()
	r.finish()
	receivers.Wait()
	b.StopTimer()
	if want := uint64(b.N) * uint64(b.N-1) / 2; sum.Load() != want {
		b.Fatalf("sum of the received items is %d, want %d", sum.Load(), want)
	}
}

// limitedRoute is what the package is for: a user's concurrency limiter, in whose queue
// any number of senders may wait.
func limitedRoute(b *testing.B, ctx context.Context) route {
	b.Helper()
	limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: capacity, QueueLimit: math.MaxInt})
	if err != nil {
		b.Fatal(err)
	}
	c, err := channel.New(channel.Options[int]{Limiter: limiter})
	if err != nil {
		b.Fatal(err)
	}
	return routeOf(b, ctx, c)
}

// boundedRoute is the drop-in for a native channel.
func boundedRoute(b *testing.B, ctx context.Context) route {
	b.Helper()
	c, err := channel.Bounded[int](capacity)
	if err != nil {
		b.Fatal(err)
	}
	return routeOf(b, ctx, c)
}

func routeOf(b *testing.B, ctx context.Context, c *channel.LimitedChannel[int]) route {
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
		receive: func() (sum uint64) {
			for {
				v, err := c.Receive(ctx)
				if err != nil {
					if !errors.Is(err, channel.ErrClosed) {
						b.Error(err)
					}
					return sum
				}
				sum += uint64(v)
			}
		},
		finish: func() { _ = c.Close() },
	}
}

// batchRoute is limitedRoute with batches.
func batchRoute(b *testing.B, ctx context.Context) route {
	b.Helper()
	limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: capacity, QueueLimit: math.MaxInt})
	if err != nil {
		b.Fatal(err)
	}
	c, err := channel.New(channel.Options[int]{Limiter: limiter})
	if err != nil {
		b.Fatal(err)
	}
	return route{
		send: func(first, n int) {
			batch := make([]int, min(n, capacity))
			for sent := 0; sent < n; {
				part := batch[:min(n-sent, len(batch))]
				for i := range part {
					part[i] = first + sent + i
				}
				if _, err := c.SendBatch(ctx, part); err != nil {
					b.Error(err)
					return
				}
				sent += len(part)
			}
		},
		receive: func() (sum uint64) {
			batch := make([]int, capacity)
			for {
				n, err := c.ReceiveBatch(ctx, batch)
				if err != nil {
					if !errors.Is(err, channel.ErrClosed) {
						b.Error(err)
					}
					return sum
				}
				for _, v := range batch[:n] {
					sum += uint64(v)
				}
			}
		},
		finish: func() { _ = c.Close() },
	}
}

// nativeRoute is a channel alone: nothing can be canceled.
func nativeRoute(*testing.B, context.Context) route {
	c := make(chan int, capacity)
	return route{
		send: func(first, n int) {
			for i := range n {
				c <- first + i
			}
		},
		receive: func() (sum uint64) {
			for v := range c {
				sum += uint64(v)
			}
			return sum
		},
		finish: func() { close(c) },
	}
}

// selectRoute is a channel whose senders and receivers can be canceled, as ours can.
func selectRoute(b *testing.B, ctx context.Context) route {
	b.Helper()
	c := make(chan int, capacity)
	return route{
		send: func(first, n int) {
			for i := range n {
				select {
				case c <- first + i:
				case <-ctx.Done():
					b.Error(ctx.Err())
					return
				}
			}
		},
		receive: func() (sum uint64) {
			for {
				select {
				case v, ok := <-c:
					if !ok {
						return sum
					}
					sum += uint64(v)
				case <-ctx.Done():
					b.Error(ctx.Err())
					return sum
				}
			}
		},
		finish: func() { close(c) },
	}
}

// semaphoreRoute is a channel with a semaphore in front, what one would write to have the
// senders limited. The channel itself has room for all that the semaphore lets in.
func semaphoreRoute(b *testing.B, ctx context.Context) route {
	b.Helper()
	s, c := semaphore.NewWeighted(capacity), make(chan int, capacity)
	return route{
		send: func(first, n int) {
			for i := range n {
				if err := s.Acquire(ctx, 1); err != nil {
					b.Error(err)
					return
				}
				c <- first + i
			}
		},
		receive: func() (sum uint64) {
			for v := range c {
				s.Release(1)
				sum += uint64(v)
			}
			return sum
		},
		finish: func() { close(c) },
	}
}

// mpmcRoute is a queue that cannot wait: who finds it full or empty yields and tries again,
// which keeps a core busy for each that waits.
func mpmcRoute(*testing.B, context.Context) route {
	q := xsync.NewMPMCQueue[int](capacity)
	var finished atomic.Bool
	return route{
		send: func(first, n int) {
			for i := range n {
				for !q.TryEnqueue(first + i) {
					runtime.Gosched()
				}
			}
		},
		receive: func() (sum uint64) {
			for {
				v, ok := q.TryDequeue()
				switch {
				case ok:
					sum += uint64(v)
				case !finished.Load():
					runtime.Gosched()
				default:
					// What was sent before the finish is in the queue by now.
					for v, ok := q.TryDequeue(); ok; v, ok = q.TryDequeue() {
						sum += uint64(v)
					}
					return sum
				}
			}
		},
		finish: func() { finished.Store(true) },
	}
}
