package partition_test

import (
	"context"
	"errors"
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/partition"
)

func TestEachKeyHasItsOwnLimiter(t *testing.T) {
	k := newKeyed(t, options{})
	a := takes(t, k, "a", 1)
	refused(t, k, "a", 1, core.ErrRejected)
	takes(t, k, "b", 1)
	a.Release()
	takes(t, k, "a", 1)
	require.Equal(t, map[string]bool{"a": true, "b": true}, live(k))
	require.Equal(t, partition.Counts{Live: 2, Created: 2}, k.Counts())
}

// The lease is the limiter's own: its metadata, and its identity for a refund.
func TestLeaseComesBackUnchanged(t *testing.T) {
	k := newKeyed(t, options{})
	a := takes(t, k, "a", 1)
	name, _ := core.LimiterName.From(a)
	require.Equal(t, "a", name)
	limiter, ok := k.Get("a")
	require.True(t, ok)
	limiter.(core.Refunder).Refund(a)
	takes(t, k, "a", 1)

	l := k.TryAcquire("a", 1)
	var rejected *core.RejectedError
	require.ErrorAs(t, l.Err(), &rejected)
	require.Equal(t, "a", rejected.Limiter)
}

func TestOrderOfChecks(t *testing.T) {
	asked := 0
	k := newKeyed(t, options{Key: func(s string) string { asked++; return s }})
	done, cancel := context.WithCancel(t.Context())
	cancel()

	require.ErrorIs(t, k.TryAcquire("a", -1).Err(), core.ErrNegativePermits)
	l, err := k.Acquire(done, "a", -1)
	require.ErrorIs(t, err, core.ErrNegativePermits)
	require.ErrorIs(t, l.Err(), core.ErrNegativePermits)
	l, err = k.Acquire(done, "a", 1)
	require.Equal(t, context.Canceled, err)
	require.Equal(t, err, l.Err())
	require.Zero(t, asked, "none of these asks for the key")

	_, err = k.Acquire(t.Context(), "a", 2)
	require.ErrorIs(t, err, core.ErrPermitsExceedLimit)
	require.Equal(t, 1, asked)

	require.NoError(t, k.Close())
	require.ErrorIs(t, k.TryAcquire("a", -1).Err(), core.ErrNegativePermits)
	_, err = k.Acquire(done, "a", 1)
	require.Equal(t, context.Canceled, err)
	_, err = k.Acquire(t.Context(), "a", 1)
	require.ErrorIs(t, err, core.ErrClosed)
	refused(t, k, "a", 1, core.ErrClosed)
	require.Equal(t, 1, asked)
}

func TestProbe(t *testing.T) {
	k := newKeyed(t, options{})
	require.True(t, k.TryAcquire("a", 0).Acquired())
	takes(t, k, "a", 1)
	require.False(t, k.TryAcquire("a", 0).Acquired())
	require.Equal(t, 1, k.Len())
}

func TestAcquireWaitsInTheLimitersQueue(t *testing.T) {
	t.Run("served", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return bucket(1, time.Second), nil }})
			start := time.Now()
			for i := range 4 {
				_, err := k.Acquire(t.Context(), "a", 1)
				require.NoError(t, err)
				require.Equal(t, time.Duration(i)*time.Second, time.Since(start))
			}
		})
	})
	t.Run("cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := newKeyed(t, options{})
			a := takes(t, k, "a", 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := k.Acquire(ctx, "a", 1)
			require.Equal(t, context.DeadlineExceeded, err)
			a.Release()
			takes(t, k, "a", 1)
		})
	})
}

// Somebody's limiter that is careless with its answers does not get a caller started.
func TestCarelessLimiters(t *testing.T) {
	odd := errors.New("odd")
	for name, acquire := range map[string]func(context.Context, int) (core.Lease, error){
		"not acquired, no error":   func(context.Context, int) (core.Lease, error) { return core.Lease{}, nil },
		"error, acquired":          func(_ context.Context, n int) (core.Lease, error) { return core.Grant(n, nil), odd },
		"error, another's refusal": func(context.Context, int) (core.Lease, error) { return core.Lease{}, odd },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(busy)
			f.acquire = acquire
			k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return f, nil }})
			l, err := k.Acquire(t.Context(), "a", 1)
			require.Error(t, err)
			require.False(t, l.Acquired())
			require.ErrorIs(t, l.Err(), err)
		})
	}
}

// A rejection keeps its metadata also where the limiter's lease makes its error anew each time
// that it is asked, as core's do: alone, in a chain, and as Overflow.
func TestRejectionWhoseErrorIsMadeAnew(t *testing.T) {
	f := newFake(busy)
	f.try = func(int) core.Lease {
		b := bucket(1, time.Hour)
		b.TryAcquire(1)
		return b.TryAcquire(1)
	}
	k := newKeyed(t, options{MaxPartitions: 1, Overflow: f, New: func(string) (core.Limiter, error) { return f, nil }})
	chain, err := partition.Chain[string](k)
	require.NoError(t, err)
	for name, l := range map[string]core.Limiter{
		"Keyed": partition.For[string](k, "a"), "Overflow": partition.For[string](k, "b"), "Chain": partition.For(chain, "a"),
		"Shared chain": partition.For(must(partition.Chain(partition.Shared[string](f))), "a"),
	} {
		t.Run(name, func(t *testing.T) {
			lease, err := l.Acquire(t.Context(), 1)
			require.ErrorIs(t, err, core.ErrRejected)
			require.Same(t, err, lease.Err())
			window, ok := core.Window.From(lease)
			require.True(t, ok)
			require.Equal(t, time.Hour, window)
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A limiter that panics leaves nothing behind that would keep its partition for ever.
func TestLimiterThatPanics(t *testing.T) {
	f := newFake(time.Hour)
	f.try = func(int) core.Lease { panic("odd") }
	f.acquire = func(context.Context, int) (core.Lease, error) { panic("odd") }
	k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return f, nil }})
	require.PanicsWithValue(t, "odd", func() { k.TryAcquire("a", 1) })
	require.PanicsWithValue(t, "odd", func() { _, _ = k.Acquire(t.Context(), "a", 1) })
	require.Equal(t, 1, k.Sweep())
}

func TestGetAndStatisticsCreateNothing(t *testing.T) {
	k := newKeyed(t, options{})
	_, ok := k.Get("a")
	require.False(t, ok)
	_, ok = k.Statistics("a")
	require.False(t, ok)
	k.Refund("a", core.Grant(1, nil))
	require.Equal(t, partition.Counts{}, k.Counts())

	takes(t, k, "a", 1)
	s, ok := k.Statistics("a")
	require.True(t, ok)
	require.Equal(t, core.Statistics{Limit: 1, Granted: 1}, s)
	limiter, ok := k.Get("a")
	require.True(t, ok)
	require.NoError(t, limiter.(*core.ConcurrencyLimiter).Update(core.ConcurrencyLimiterOptions{PermitLimit: 2}))
	takes(t, k, "a", 1)
}

func TestStatisticsOfNoReporter(t *testing.T) {
	k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return newFake(busy), nil }})
	takes(t, k, "a", 1)
	s, ok := k.Statistics("a")
	require.True(t, ok)
	require.Equal(t, core.Statistics{Available: 7}, s)
}

// The body of All may call anything, and end early.
func TestAll(t *testing.T) {
	k := newKeyed(t, options{})
	for i := range 100 {
		takes(t, k, strconv.Itoa(i), 1).Release()
	}
	seen := make(map[string]int)
	for key, limiter := range k.All() {
		seen[key]++
		require.NotNil(t, limiter)
		takes(t, k, key+"+", 1)
		k.Sweep()
	}
	for i := range 100 {
		require.Equal(t, 1, seen[strconv.Itoa(i)])
	}
	for range k.All() {
		break
	}
	require.NoError(t, k.Close())
	for range k.All() {
		t.Fatal("nothing is live")
	}
}

func TestOptionFaults(t *testing.T) {
	var none *core.TokenBucket
	_, err := partition.New(partition.Options[string, string]{
		IdleTimeout: -time.Second, MaxPartitions: -1, Overflow: none,
	})
	for _, want := range []string{
		"partition: Options.Key = nil, want a function",
		"partition: Options.New = nil, want a function",
		"partition: Options.IdleTimeout = -1s, want at least 0",
		"partition: Options.MaxPartitions = -1, want at least 0",
		"partition: Options.Overflow = (*core.TokenBucket)(nil), want a limiter, or nil itself",
	} {
		require.ErrorContains(t, err, want)
	}
	k := newKeyed(t, options{IdleTimeout: math.MaxInt64, MaxPartitions: math.MaxInt})
	takes(t, k, "a", 1)
	require.Zero(t, k.Sweep())
}

func TestZeroValueRefuses(t *testing.T) {
	var k keyed
	refused(t, &k, "a", 1, core.ErrClosed)
	_, err := k.Acquire(t.Context(), "a", 1)
	require.ErrorIs(t, err, core.ErrClosed)
	k.Refund("a", core.Grant(1, nil))
	_, ok := k.Get("a")
	require.False(t, ok)
	_, ok = k.Statistics("a")
	require.False(t, ok)
	for range k.All() {
		t.Fatal("nothing is live")
	}
	require.Zero(t, k.Len())
	require.Zero(t, k.Counts())
	require.Zero(t, k.Sweep())
	require.ErrorIs(t, partition.For[string](&k, "a").TryAcquire(1).Err(), core.ErrClosed)
	require.NoError(t, k.Close())
}

func TestLivePartitionAllocatesNothing(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	for name, l := range map[string]core.Limiter{"semaphore": semaphore("", 5), "bucket": bucket(1<<30, 1)} {
		k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return l, nil }})
		bound := partition.For[string](k, "a")
		for what, f := range map[string]func(){
			"try":     func() { k.TryAcquire("a", 1).Release() },
			"acquire": func() { l, _ := k.Acquire(t.Context(), "a", 1); l.Release() },
			"refused": func() { k.TryAcquire("a", 0).Release() },
			"bound":   func() { bound.TryAcquire(1).Release() },
			"find":    func() { _, _ = k.Get("a") },
		} {
			require.Zero(t, testing.AllocsPerRun(1000, f), "%s: %s", name, what)
		}
	}
}
