package partition_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// ledger counts what is held of each key, by whichever of its limiters it was granted.
type ledger struct {
	held [16]atomic.Int64
	most [16]atomic.Int64
}

func (l *ledger) take(key int) {
	n := l.held[key].Add(1)
	for m := l.most[key].Load(); n > m && !l.most[key].CompareAndSwap(m, n); m = l.most[key].Load() {
	}
}

// Droppers, creators, waiters, refunders and sweepers race, and Close comes in between. No
// key ever holds more permits than one limiter grants, though partitions come and go all the
// time.
func TestStressNoKeyGetsMore(t *testing.T) {
	const permits, workers, rounds = 2, 8, 1000
	var l ledger
	var evicted atomic.Int64
	k := newKeyed(t, options{
		IdleTimeout:   1,
		MaxPartitions: 12, // of 16 keys
		New:           func(key string) (core.Limiter, error) { return semaphore(key, permits), nil },
		OnEvict: func(_ string, limiter core.Limiter) {
			evicted.Add(1)
			if limiter.Available() != permits {
				t.Error("dropped while permits are out")
			}
		},
	})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range rounds {
				key := r.IntN(len(l.held))
				name := strconv.Itoa(key)
				var lease core.Lease
				switch r.IntN(8) {
				case 0, 1, 2:
					lease = k.TryAcquire(name, 1)
				case 3, 4:
					ctx, cancel := context.WithCancel(t.Context())
					if r.IntN(4) == 0 {
						cancel()
					}
					lease, _ = k.Acquire(ctx, name, 1)
					cancel()
				case 5:
					lease, _ = partition.For[string](k, name).Acquire(t.Context(), 1)
				case 6:
					k.Sweep()
				case 7:
					k.TryAcquire(name, 0)
				}
				if !lease.Acquired() {
					continue
				}
				l.take(key)
				if r.IntN(4) == 0 {
					runtime.Gosched()
				}
				l.held[key].Add(-1)
				if r.IntN(2) == 0 {
					k.Refund(name, lease)
				} else {
					lease.Release()
				}
				if i == rounds*9/10 && w == 0 {
					_ = k.Close()
				}
			}
		})
	}
	wg.Wait()
	for key := range l.most {
		require.LessOrEqual(t, l.most[key].Load(), int64(permits), "key %d", key)
		require.Zero(t, l.held[key].Load())
	}
	require.NoError(t, k.Close())
	require.Zero(t, k.Len())
	require.Equal(t, evicted.Load(), int64(k.Counts().Dropped))
	require.Greater(t, k.Counts().Dropped, uint64(100))
	refused(t, k, "0", 1, core.ErrClosed)
}

// A rate limiter's key gets no more than one bucket grants, however often it is dropped.
func TestStressBuckets(t *testing.T) {
	const keys, burst, workers, rounds = 5, 3, 8, 2000
	period := time.Hour // nothing comes back while this runs: a key is granted its burst, once
	k := newKeyed(t, options{
		IdleTimeout: 1,
		New:         func(string) (core.Limiter, error) { return bucket(burst, period), nil },
	})
	var granted [keys]atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 2))
			for i := range rounds {
				key := r.IntN(keys)
				lease := k.TryAcquire(strconv.Itoa(key), 1)
				switch {
				case lease.Acquired() && i < rounds-20: // used in the end only
					k.Refund(strconv.Itoa(key), lease)
				case lease.Acquired():
					granted[key].Add(1)
				}
				if r.IntN(8) == 0 {
					k.Sweep()
				}
			}
		})
	}
	wg.Wait()
	for key := range granted {
		require.LessOrEqual(t, granted[key].Load(), int64(burst))
	}
	require.NotZero(t, k.Counts().Dropped)
}

// All while partitions come and go yields no key twice that lives all along, and none that
// never was.
func TestStressAll(t *testing.T) {
	k := newKeyed(t, options{IdleTimeout: 1})
	for i := range 50 {
		takes(t, k, "stays"+strconv.Itoa(i), 1)
	}
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := range 2000 {
				k.TryAcquire(strconv.Itoa(w*1000+i%1000), 1).Release()
				runtime.Gosched()
			}
		})
	}
	for range 20 {
		seen := make(map[string]int)
		for key := range k.All() {
			seen[key]++
			runtime.Gosched()
		}
		for i := range 50 {
			if seen["stays"+strconv.Itoa(i)] != 1 {
				t.Errorf("%d was seen %d times", i, seen["stays"+strconv.Itoa(i)])
			}
		}
	}
	wg.Wait()
}

// Leases of a chain are joined, released, refunded and settled by many goroutines at once, for
// many keys, and no permit is lost or given back twice.
func TestStressChain(t *testing.T) {
	const permits, keys, workers, rounds = 3, 4, 8, 2000
	k := newKeyed(t, options{New: func(key string) (core.Limiter, error) { return semaphore(key, permits), nil }})
	all := semaphore("all", permits*keys)
	chain, err := partition.Chain[string](k, partition.Shared[string](all))
	require.NoError(t, err)
	var out [keys]atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 5))
			for range rounds {
				key := r.IntN(keys)
				name, n := strconv.Itoa(key), 1+r.IntN(permits)
				lease := chain.TryAcquire(name, n)
				if !lease.Acquired() {
					continue
				}
				if held := out[key].Add(int64(n)); held > permits {
					t.Errorf("%d permits of key %d are out", held, key)
				}
				runtime.Gosched()
				out[key].Add(int64(-n))
				other := lease
				switch r.IntN(4) {
				case 0:
					lease.Release()
				case 3:
					lease = chain.(partition.Settler[string]).Settle(name, lease, 1)
					lease.Release()
				case 1:
					chain.(partition.Refunder[string]).Refund(name, lease)
				case 2:
					lease = chain.(partition.Settler[string]).Settle(name, lease, 0)
					lease.Release()
				}
				other.Release() // it is spent
			}
		})
	}
	wg.Wait()
	require.Equal(t, permits*keys, all.Available())
	for _, l := range k.All() {
		require.Equal(t, permits, l.Available())
	}
}
