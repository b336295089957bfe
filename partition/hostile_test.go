package partition_test

import (
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/partition"
)

// Requests that are each of another key do not grow the Keyed, and honest keys go on being
// limited exactly: 10 a second each. The figures at full size are in bench/partitions.
func TestHostileKeys(t *testing.T) {
	const most, honest, perSecond, seconds = 500, 50, 10_000, 2
	synctest.Test(t, func(t *testing.T) {
		k, err := partition.New(partition.Options[int, int]{
			Key:           func(n int) int { return n },
			New:           func(int) (core.Limiter, error) { return bucket(1, 100*time.Millisecond), nil },
			MaxPartitions: most,
		})
		require.NoError(t, err)
		granted := make(map[int]int)
		for i := range perSecond * seconds {
			key := -1 - i%honest // each 200 times a second: 20 times too often
			if k.TryAcquire(key, 1).Acquired() {
				granted[key]++
			}
			k.TryAcquire(i, 1)
			require.LessOrEqual(t, k.Len(), most)
			<-time.NewTimer(time.Second / perSecond).C
		}
		for key := range granted {
			require.Equal(t, 10*seconds, granted[key], "key %d", key)
		}
		require.Len(t, granted, honest)
		c := k.Counts()
		require.Equal(t, most, c.Live)
		require.NotZero(t, c.Overflowed)
		require.Greater(t, c.Dropped, uint64(4*most))
	})
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

// No call on the way to many keys copies a large table: none allocates much more than a page of one.
// How long the longest call takes with a million keys is measured in bench/partitions.
func TestWorkOfACallWhileKeysCome(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector makes this slow and allocates")
	}
	const n, most = 1 << 17, 64 << 10 // a table of n pointers has 1 MiB
	shared := bare{semaphore("", 1)}
	keys := make([]string, n)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return shared, nil }})
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection counts what was allocated before
	allocated := func() uint64 {                     // small objects only in lots of a few KiB
		sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	largest, before := uint64(0), allocated()
	for _, key := range keys {
		k.TryAcquire(key, 0)
		after := allocated()
		largest, before = max(largest, after-before), after
	}
	require.Equal(t, n, k.Len())
	t.Logf("at most %d bytes a call", largest)
	require.Less(t, largest, uint64(most))
}
