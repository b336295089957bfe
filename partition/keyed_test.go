package partition_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/partition"
)

// The lease is the limiter's own: it has the limiter's metadata.
func TestLeaseComesBackUnchanged(t *testing.T) {
	k := newKeyed(t, options{})
	a := takes(t, k, "a", 1)
	name, _ := core.LimiterName.From(a)
	require.Equal(t, "a", name)
	a.Refund()
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

// A panic of a limiter does not keep its partition from being dropped.
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
	core.Grant(1, nil).Refund()
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
	_, err := partition.New(partition.Options[string, string]{
		IdleTimeout: -time.Second, MaxPartitions: -1,
	})
	for _, want := range []string{
		"partition: Options.Key = nil, want a function",
		"partition: Options.New = nil, want a function",
		"partition: Options.IdleTimeout = -1s, want at least 0",
		"partition: Options.MaxPartitions = -1, want at least 0",
	} {
		require.ErrorContains(t, err, want)
	}
	_, err = partition.NewByKey[int](nil)
	require.EqualError(t, err, "partition: Options.New = nil, want a function")
	k := newKeyed(t, options{IdleTimeout: math.MaxInt64, MaxPartitions: math.MaxInt})
	takes(t, k, "a", 1)
	require.Zero(t, k.Sweep())
}

func TestZeroValueRefuses(t *testing.T) {
	var k keyed
	refused(t, &k, "a", 1, core.ErrClosed)
	_, err := k.Acquire(t.Context(), "a", 1)
	require.ErrorIs(t, err, core.ErrClosed)
	core.Grant(1, nil).Refund()
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

// A partition takes at most 200 bytes beyond its key and its limiter.
func TestMemoryOfAPartition(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector needs memory of its own")
	}
	const n = 50_000
	shared := bare{semaphore("", 1)}
	keys := make([]string, n)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return shared, nil }})
	before := heap()
	for _, key := range keys {
		k.TryAcquire(key, 0)
	}
	bytes := float64(heap()-before) / n
	require.Equal(t, n, k.Len())
	t.Logf("%.1f bytes a partition, the string's header included", bytes)
	require.LessOrEqual(t, bytes, 200.0+16)
}

// heap returns how many bytes are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestString(t *testing.T) {
	k := newKeyed(t, options{Name: "api", MaxPartitions: 1})
	takes(t, k, "secret", 1)
	refused(t, k, "b", 1, core.ErrRejected)
	require.Equal(t, `partitions "api": 1 live, 1 created, 0 dropped, 1 overflowed`, k.String())
	live, gone := fmt.Sprint(partition.For[string](k, "secret")), fmt.Sprint(partition.For[string](k, "b"))
	require.Contains(t, live, `one of partitions "api": `)
	require.Equal(t, `one of partitions "api": not live`, gone)
	require.Equal(t, 1, k.Len(), "none was created")

	k = newKeyed(t, options{})
	require.Equal(t, "partitions: 0 live, 0 created, 0 dropped, 0 overflowed", k.String())
	chain := must(partition.Chain[string](k, partition.Shared[string](bare{})))
	require.Equal(t, "chain of "+k.String()+", shared partition_test.bare", fmt.Sprint(chain))
	require.Equal(t, "translated "+k.String(), fmt.Sprint(partition.Translate[string](k, self)))
	require.Equal(t, "partitions: 0 live, 0 created, 0 dropped, 0 overflowed", new(keyed).String())
}

// A request for a live partition allocates nothing.
func TestNothingIsAllocated(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	k := newKeyed(t, options{MaxPartitions: 2, Group: self, New: func(key string) (core.Limiter, error) {
		if key == "bucket" {
			return bucket(1<<30, 1), nil
		}
		return semaphore(key, 5), nil
	}})
	takes(t, k, "a", 1)
	takes(t, k, "bucket", 1)
	chain := must(partition.Chain(k, partition.Shared[string](semaphore("", 5))))
	bound := partition.For(chain, "a")
	for name, f := range map[string]func(){
		"try":            func() { k.TryAcquire("a", 1).Release() },
		"acquire":        func() { must(k.Acquire(t.Context(), "a", 1)).Release() },
		"bucket":         func() { k.TryAcquire("bucket", 1) },
		"no room":        func() { k.TryAcquire("no room", 1).Release() },
		"for":            func() { partition.For[string](k, "a").TryAcquire(1).Release() },
		"for, quietly":   func() { l, _ := core.TryQuietly(partition.For[string](k, "a"), 1); l.Release() },
		"chain":          func() { chain.TryAcquire("a", 1).Release() },
		"chain, quietly": func() { l, _ := core.TryQuietly(bound, 1); l.Release() },
		"chain, refund":  func() { chain.TryAcquire("a", 1).Refund() },
		"chain, refused": func() { chain.TryAcquire("a", 6) },
		"chain, settle":  func() { chain.TryAcquire("a", 3).Settle(2).Release() },
	} {
		require.Zero(t, testing.AllocsPerRun(1000, f), name)
	}
}
