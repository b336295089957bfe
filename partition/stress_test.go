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

// family has the limiters of one key.
type family struct {
	mu       sync.Mutex
	latest   core.Limiter
	children map[core.Limiter]int // how often OnEvict was told of it
}

// Partitions come and go while they are used: they are dropped as soon as they are idle, or for want of
// room, while other goroutines try, wait, give up, refund and update. The permits of one key that are held
// are never more than one limiter grants. A limiter is created only after the one before it has granted its
// last. Waiting requests are served, and OnEvict is called once for each limiter.
func TestStressDroppedUnderRequests(t *testing.T) {
	const permits, keys, workers, rounds = 3, 4, 8, 1500
	for name, limiter := range kinds(permits, time.Hour) { // of a rate nothing comes back but by refunds
		t.Run(name, func(t *testing.T) {
			var families [keys]family
			var out [keys]atomic.Int64
			index := func(key string) int { i, _ := strconv.Atoi(key); return i }
			k := newKeyed(t, options{
				IdleTimeout:   1,
				MaxPartitions: keys - 1,
				New: func(key string) (core.Limiter, error) {
					runtime.Gosched() // others come and wait for it
					f, l := &families[index(key)], limiter()
					f.mu.Lock()
					defer f.mu.Unlock()
					// A user's limiter is closed a little later; no request finds it any more.
					if f.latest != nil && name != "theirs" && f.latest.TryAcquire(1).Acquired() {
						t.Error("the limiter before this one grants")
					}
					if f.children == nil {
						f.children = make(map[core.Limiter]int)
					}
					f.latest, f.children[l] = l, 0
					return l, nil
				},
				OnEvict: func(key string, l core.Limiter) {
					if l.TryAcquire(1).Acquired() || l.Available() < permits {
						t.Error("a dropped limiter grants, or has granted")
					}
					f := &families[index(key)]
					f.mu.Lock()
					defer f.mu.Unlock()
					f.children[l]++
					if f.children[l] > 1 {
						t.Error("told twice")
					}
				},
			})
			var wg sync.WaitGroup
			var served atomic.Int64
			for w := range workers {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(w), 4))
					for i := range rounds {
						key := r.IntN(keys)
						s, n := strconv.Itoa(key), 1+r.IntN(permits)
						var lease core.Lease
						var err error
						switch r.IntN(8) {
						case 0, 1, 2:
							lease = k.TryAcquire(s, n)
							err = lease.Err()
						case 3, 4:
							if lease, err = partition.For[string](k, s).Acquire(t.Context(), n); err == nil {
								served.Add(1)
							}
						case 5:
							ctx, cancel := context.WithCancel(t.Context())
							go cancel()
							lease, err = k.Acquire(ctx, s, n)
							if err == context.Canceled { //nolint:errorlint // unchanged
								err = core.ErrRejected
							}
						case 6:
							if l, ok := k.Get(s); ok {
								if c, ok := l.(*core.ConcurrencyLimiter); ok {
									_ = c.Update(c.Options()) // ErrClosed, if it is dropped
								}
								l.Available()
							}
							k.Statistics(s)
						case 7:
							k.Sweep()
						}
						if n := k.Len(); n >= keys {
							t.Errorf("%d live", n)
						}
						if err != nil && !isRejected(err) {
							t.Errorf("round %d: %v", i, err)
						}
						if !lease.Acquired() {
							continue
						}
						if held := out[key].Add(int64(n)); held > permits {
							t.Errorf("%d permits of key %d are out", held, key)
						}
						if r.IntN(2) == 0 {
							runtime.Gosched()
						}
						out[key].Add(int64(-n))
						if name == "concurrency" && r.IntN(2) == 0 {
							lease.Release()
						}
						lease.Refund()
					}
				})
			}
			wg.Wait()
			k.Sweep()
			<-time.NewTimer(time.Millisecond).C
			k.Sweep()
			require.Zero(t, k.Len())
			created := 0
			for i := range families {
				for l, told := range families[i].children {
					created++
					require.Equal(t, 1, told)
					require.Equal(t, permits, l.Available())
				}
			}
			require.Equal(t, uint64(created), k.Counts().Dropped)
			require.Greater(t, created, 100)
			require.NotZero(t, served.Load())
		})
	}
}

// A partition that is used while it is swept is dropped later: a failed drop leaves it as it was.
func TestStressFailedDrops(t *testing.T) {
	k := newKeyed(t, options{IdleTimeout: 1})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 30_000 {
			k.TryAcquire("a", 1).Release()
		}
	}()
	for swept := true; swept; {
		k.Sweep()
		select {
		case <-done:
			swept = false
		default:
		}
	}
	for range 3 {
		time.Sleep(time.Millisecond)
		k.Sweep()
	}
	require.Zero(t, k.Len())
}
