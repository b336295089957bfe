package partition_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// A request of these tests is its key.
type (
	keyed   = partition.Keyed[string, string]
	options = partition.Options[string, string]
)

func self(key string) string { return key }

// newKeyed returns a Keyed with defaults: the key is the request, and each key has a concurrency limiter
// of one permit with a queue.
func newKeyed(t *testing.T, o options) *keyed {
	t.Helper()
	if o.Key == nil {
		o.Key = self
	}
	if o.New == nil {
		o.New = func(key string) (core.Limiter, error) { return semaphore(key, 1), nil }
	}
	k, err := partition.New(o)
	require.NoError(t, err)
	return k
}

func semaphore(name string, permits int) *core.ConcurrencyLimiter {
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		Name: name, PermitLimit: permits, QueueLimit: 1000,
	})
	if err != nil {
		panic(err)
	}
	return l
}

// bucket returns a token bucket of burst tokens, of which one comes every period.
func bucket(burst int, period time.Duration) *core.TokenBucket {
	o := core.Every(period, burst)
	l, err := core.NewTokenBucket(o)
	if err != nil {
		panic(err)
	}
	return l
}

// takes asks for permits and fails the test if they are not granted.
func takes(t *testing.T, k *keyed, key string, permits int) core.Lease {
	t.Helper()
	l := k.TryAcquire(key, permits)
	require.NoError(t, l.Err(), "key %q", key)
	return l
}

// refused asks for permits and fails the test if they are granted.
func refused(t *testing.T, k *keyed, key string, permits int, want error) {
	t.Helper()
	require.ErrorIs(t, k.TryAcquire(key, permits).Err(), want, "key %q", key)
}

// live is the set of live keys.
func live(k *keyed) map[string]bool {
	keys := make(map[string]bool)
	for key := range k.All() {
		keys[key] = true
	}
	return keys
}

// see asks all limiters whether they are idle: those of core count from when they are first asked.
func see(t *testing.T, k *keyed) {
	t.Helper()
	require.Zero(t, k.Sweep())
}

// fake is a user's limiter. Unless its fields say otherwise, it grants everything and is not closed.
type fake struct {
	try     func(permits int) core.Lease
	acquire func(ctx context.Context, permits int) (core.Lease, error)
	idle    atomic.Int64 // nanoseconds; below 0: not idle
	closed  atomic.Int32
	onClose func() error
}

func newFake(idle time.Duration) *fake {
	f := new(fake)
	f.idle.Store(int64(idle))
	return f
}

const busy = time.Duration(-1)

func (f *fake) TryAcquire(permits int) core.Lease {
	if f.try != nil {
		return f.try(permits)
	}
	return core.Grant(permits, nil)
}

func (f *fake) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if f.acquire != nil {
		return f.acquire(ctx, permits)
	}
	l := f.TryAcquire(permits)
	return l, l.Err()
}

func (f *fake) Available() int { return 7 }

func (f *fake) IdleFor() (time.Duration, bool) {
	d := time.Duration(f.idle.Load())
	return d, d >= 0
}

func (f *fake) Close() error {
	f.closed.Add(1)
	if f.onClose != nil {
		return f.onClose()
	}
	return nil
}

// bare is a limiter that can do nothing but limit.
type bare struct{ l core.Limiter }

func (b bare) TryAcquire(permits int) core.Lease { return b.l.TryAcquire(permits) }

func (b bare) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	return b.l.Acquire(ctx, permits)
}

func (b bare) Available() int { return b.l.Available() }

// nilContext is context.Background, for calls that are not about the context.
type nilContext struct{ context.Context }

func (nilContext) Err() error                  { return nil }
func (nilContext) Done() <-chan struct{}       { return nil }
func (nilContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (nilContext) Value(any) any               { return nil }

// isRejected reports whether a later request could be granted.
func isRejected(err error) bool { return errors.Is(err, core.ErrRejected) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// fixed and sliding return windows of so many permits, with a queue.
func fixed(permits int, window time.Duration) *core.FixedWindow {
	l, err := core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: permits, Window: window, QueueLimit: 1000})
	if err != nil {
		panic(err)
	}
	return l
}

func sliding(permits int, window time.Duration) *core.SlidingWindow {
	l, err := core.NewSlidingWindow(core.SlidingWindowOptions{
		PermitLimit: permits, Window: window, SegmentsPerWindow: 2, QueueLimit: 1000,
	})
	if err != nil {
		panic(err)
	}
	return l
}

// kinds are a limiter of each kind, of so many permits; rates come back in so long.
func kinds(permits int, back time.Duration) map[string]func() core.Limiter {
	return map[string]func() core.Limiter{
		"concurrency": func() core.Limiter { return semaphore("", permits) },
		"bucket":      func() core.Limiter { return bucket(permits, back/time.Duration(permits)) },
		"fixed":       func() core.Limiter { return fixed(permits, back) },
		"sliding":     func() core.Limiter { return sliding(permits, back) },
		"theirs":      func() core.Limiter { return slow{semaphore("", permits)} },
	}
}

// slow is a user's limiter that takes some time to report whether it is idle.
type slow struct{ *core.ConcurrencyLimiter }

func (s slow) IdleFor() (time.Duration, bool) {
	d, idle := s.ConcurrencyLimiter.IdleFor()
	for range 5 {
		runtime.Gosched()
	}
	return d, idle
}
