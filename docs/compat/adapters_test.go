package compat_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// Adapters of the kind that real programs have, written from the documentation of the interfaces. The
// interfaces are written down here, so that nothing of Kubernetes or Caddy is required.

// flowRateLimiter is the interface flowcontrol.RateLimiter of k8s.io/client-go.
type flowRateLimiter interface {
	TryAccept() bool                // true if a token is taken immediately, false otherwise
	Accept()                        // returns once a token becomes available
	Stop()                          // stops the rate limiter
	QPS() float32                   // the queries a second
	Wait(ctx context.Context) error // returns nil if a token is taken before ctx is done
}

// flow is a flowRateLimiter on a token bucket.
type flow struct{ bucket *core.TokenBucket }

func newFlow(qps float32, burst int) (*flow, error) {
	bucket, err := core.NewTokenBucket(core.Rate(float64(qps), burst))
	return &flow{bucket}, err
}

func (f *flow) TryAccept() bool { return f.bucket.TryAcquire(1).Acquired() }
func (f *flow) Accept()         { _, _ = f.bucket.Acquire(context.Background(), 1) }
func (f *flow) Stop()           { _ = f.bucket.Close() }
func (f *flow) QPS() float32    { return float32(f.bucket.Options().Rate()) }

func (f *flow) Wait(ctx context.Context) error {
	if _, err := f.bucket.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("client rate limiter Wait returned an error: %w", err)
	}
	return nil
}

func TestFlowRateLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := newFlow(0.4, 2)
		require.NoError(t, err)
		var l flowRateLimiter = f
		require.Equal(t, float32(0.4), l.QPS()) //nolint:testifylint // the very number
		require.True(t, l.TryAccept())
		require.True(t, l.TryAccept())
		require.False(t, l.TryAccept())
		start := time.Now()
		l.Accept()
		require.InDelta(t, 2.5, time.Since(start).Seconds(), 1e-7)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, l.Wait(ctx), context.DeadlineExceeded)
		require.Less(t, time.Since(start), 3*time.Second, "a hopeless wait fails immediately")
		waits := make(chan error)
		go func() { waits <- l.Wait(t.Context()) }()
		synctest.Wait()
		l.Stop()
		require.ErrorIs(t, <-waits, core.ErrClosed)
		l.Accept()
		require.False(t, l.TryAccept())
	})
	for _, qps := range []float32{0, -1, float32(math.Inf(1)), float32(math.NaN())} {
		_, err := newFlow(qps, 1)
		require.ErrorContains(t, err, "core: Rate = ")
	}
}

// queueRateLimiter is the interface workqueue.TypedRateLimiter of k8s.io/client-go.
type queueRateLimiter[T comparable] interface {
	When(item T) time.Duration // how long the item should wait
	Forget(item T)             // the item is finished, for good or bad
	NumRequeues(item T) int    // how many failures the item has had
}

// retries is a queueRateLimiter: the larger of a backoff per item and of the delay in a bucket that all items
// share. The queue sleeps, not the limiter.
type retries[T comparable] struct {
	base, most time.Duration
	bucket     *core.TokenBucket

	mu       sync.Mutex
	failures map[T]int
}

func (r *retries[T]) When(item T) time.Duration {
	r.mu.Lock()
	n := r.failures[item]
	r.failures[item]++
	r.mu.Unlock()
	backoff := r.most
	if n < 63 && r.base <= r.most>>n {
		backoff = r.base << n
	}
	delay, _ := core.Delay.From(r.bucket.Reserve(1))
	return max(backoff, delay)
}

func (r *retries[T]) Forget(item T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failures, item)
}

func (r *retries[T]) NumRequeues(item T) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures[item]
}

func TestQueueRateLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := core.Must(core.NewTokenBucket(core.PerSecond(10, 3)))
		var l queueRateLimiter[string] = &retries[string]{
			base: 5 * time.Millisecond, most: time.Second, bucket: bucket, failures: make(map[string]int),
		}
		for i, want := range []time.Duration{
			5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, // the backoff
			100 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond, // the bucket
		} {
			require.Equal(t, want, l.When("a"), i)
		}
		require.Equal(t, 400*time.Millisecond, l.When("b"), "all items share the bucket")
		require.Equal(t, 6, l.NumRequeues("a"))
		require.Equal(t, 1, l.NumRequeues("b"))
		l.Forget("a")
		require.Zero(t, l.NumRequeues("a"))
		time.Sleep(time.Minute)
		require.Equal(t, 5*time.Millisecond, l.When("a"))
		for range 100 {
			time.Sleep(time.Second)
			require.LessOrEqual(t, l.When("c"), time.Second)
		}
		require.Equal(t, time.Second, l.When("c"), "the most")
	})
}

// zone is what a rate limit module of a web server keeps per zone and key, with a ring of timestamps: at most
// a number of events in a window that slides. Its limits change while it is in use; 0 events block all.
type zone struct {
	mu     sync.Mutex // guards the fields below
	events int
	window time.Duration

	keys *partition.Keyed[string, string]
}

func newZone(events int, window time.Duration) (*zone, error) {
	z := &zone{events: events, window: window}
	var err error
	z.keys, err = partition.NewByKey(func(string) (core.Limiter, error) {
		l, err := z.limiter()
		return core.NewSwitch(l), err
	})
	return z, err
}

func (z *zone) limiter() (core.Limiter, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.events == 0 {
		return core.Blocked(), nil
	}
	return core.NewSlidingWindow(z.options())
}

func (z *zone) options() core.SlidingWindowOptions {
	return core.SlidingWindowOptions{PermitLimit: z.events, Window: z.window, SegmentsPerWindow: 100}
}

// When takes an event and returns 0, or how long to wait for one; math.MaxInt64: none will come.
func (z *zone) When(key string) time.Duration {
	err := z.keys.TryAcquire(key, 1).Err()
	var rejected *core.RejectedError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &rejected) && rejected.RetryAfter > 0:
		return rejected.RetryAfter
	}
	return math.MaxInt64
}

// Set changes the limits of all keys. What was taken stays taken.
func (z *zone) Set(events int, window time.Duration) error {
	z.mu.Lock()
	z.events, z.window = events, window
	z.mu.Unlock()
	for _, l := range z.keys.All() {
		s := l.(*core.Switch)
		if w, ok := s.Limiter().(*core.SlidingWindow); ok && events > 0 {
			if err := w.Update(z.options()); err != nil {
				return err
			}
			continue
		}
		next, err := z.limiter()
		if err != nil {
			return err
		}
		s.Set(next)
	}
	return nil
}

func TestZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, err := newZone(3, 10*time.Second)
		require.NoError(t, err)
		for i := range 3 {
			require.Zero(t, z.When("a"), i)
			time.Sleep(time.Second)
		}
		wait := z.When("a")
		require.Greater(t, wait, 6*time.Second)
		require.LessOrEqual(t, wait, 7100*time.Millisecond)
		require.Zero(t, z.When("b"), "each key has its own")
		time.Sleep(wait)
		require.Zero(t, z.When("a"))

		require.NoError(t, z.Set(5, 10*time.Second))
		require.Zero(t, z.When("a"))
		require.Zero(t, z.When("a"))
		require.Positive(t, z.When("a"))
		require.NoError(t, z.Set(0, time.Second))
		require.Equal(t, time.Duration(math.MaxInt64), z.When("a"))
		require.Equal(t, time.Duration(math.MaxInt64), z.When("new"))
		require.NoError(t, z.Set(1, time.Second))
		require.Zero(t, z.When("a"))
		require.Zero(t, z.When("new"))
		require.Positive(t, z.When("new"))
		require.Error(t, z.Set(1, 0))
	})
}
