package backdoor_test

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/testkit"
)

// observed is a limiter that is watched.
type observed struct {
	*core.ConcurrencyLimiter
	backdoor.Watched[core.Lease]
}

func watched(tb testing.TB, l *core.ConcurrencyLimiter, h backdoor.Hook) observed {
	tb.Helper()
	w, ok := ways.Watch(l, h)
	require.True(tb, ok)
	return observed{l, w}
}

func says(t *testing.T, l core.Lease, limit, left int) {
	t.Helper()
	got, ok := core.PermitLimit.From(l)
	assert.True(t, ok)
	assert.Equal(t, limit, got)
	got, _ = core.Remaining.From(l)
	assert.Equal(t, left, got)
	_, ok = core.RetryAfter.From(l)
	assert.False(t, ok)
}

func TestResize(t *testing.T) {
	for _, most := range []int{10, math.MaxInt} {
		synctest.Test(t, func(t *testing.T) {
			var all ends
			l := limiter(t, most, 20)
			w := watched(t, l, &all)
			w.Resize(4)
			assert.Equal(t, core.Statistics{Limit: 4, Available: 4}, l.Statistics())

			a := w.TryAcquire(3)
			says(t, a, 4, 1)
			says(t, w.TryAcquire(0), 4, 1)
			refused := w.TryAcquire(5)
			require.ErrorIs(t, refused.Err(), core.ErrRejected, "above the limit in force, below the most")
			says(t, refused, 4, 1)
			if most < math.MaxInt {
				require.ErrorIs(t, w.TryAcquire(most+1).Err(), core.ErrPermitsExceedLimit)
			}

			var b core.Lease
			go func() { b, _ = w.Acquire(t.Context(), 5) }()
			synctest.Wait()
			assert.Equal(t, core.Statistics{Limit: 4, Available: 1, Queued: 5, Granted: 2, Rejected: 1}, l.Statistics())
			w.Resize(8)
			synctest.Wait()
			require.True(t, b.Acquired(), "who now fits is served at once")
			says(t, b, 8, 0)

			w.Resize(2) // below what is held
			assert.Equal(t, 0, l.Available())
			a.Release()
			assert.Equal(t, 0, l.Available())
			b.Release()
			assert.Equal(t, 2, l.Available())
			assert.Equal(t, []int{8, 5}, inFlight(all.take()))
			_, idle := l.IdleFor()
			assert.True(t, idle)
			time.Sleep(time.Second)
			w.TryAcquire(2).Release()
			_, idle = l.IdleFor() // seen first
			assert.True(t, idle)
			time.Sleep(time.Second)
			d, idle := l.IdleFor()
			assert.True(t, idle)
			assert.Equal(t, time.Second, d)
			assert.Equal(t, []int{2}, inFlight(all.take()))
		})
	}
}

// A limit of 0 grants nothing, and a request of zero permits waits, too.
func TestResizeToZero(t *testing.T) {
	for _, most := range []int{10, math.MaxInt} {
		synctest.Test(t, func(t *testing.T) {
			l := limiter(t, most, most)
			w := watched(t, l, deaf)
			w.Resize(0)
			assert.Equal(t, core.Statistics{}, l.Statistics())
			for _, n := range []int{0, 1, most} {
				require.ErrorIs(t, w.TryAcquire(n).Err(), core.ErrRejected)
			}
			var served []int
			for _, n := range []int{most, 0} {
				go func() {
					lease, err := w.Acquire(t.Context(), n)
					if err == nil {
						served = append(served, n)
						lease.Release()
					}
				}()
				synctest.Wait()
			}
			assert.Equal(t, core.Statistics{Queued: most, Rejected: 3}, l.Statistics())
			w.Resize(most)
			synctest.Wait()
			assert.Equal(t, []int{most, 0}, served)
			assert.Equal(t, core.Statistics{Limit: most, Available: most, Granted: 2, Rejected: 3}, l.Statistics())
		})
	}
}

func inFlight(ends []told) (all []int) {
	for _, e := range ends {
		all = append(all, e.InFlight)
	}
	return all
}

func TestResizeOutlivesGenerations(t *testing.T) {
	l := limiter(t, 1000, 0)
	w := watched(t, l, deaf)
	w.Resize(10)
	for range 1<<20 + 10 {
		w.TryAcquire(1).Release()
	}
	assert.Equal(t, 10, l.Statistics().Limit)
	says(t, w.TryAcquire(1), 10, 9)
	require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: 7}))
	says(t, w.TryAcquire(1), 7, 5)
	w.Resize(5)
	says(t, w.TryAcquire(1), 5, 2)
}

func TestResizeInAChain(t *testing.T) {
	w := watched(t, limiter(t, 1000, 0), deaf)
	w.Resize(10)
	c, err := core.Chain(w.ConcurrencyLimiter)
	require.NoError(t, err)
	says(t, c.TryAcquire(1), 10, 9)
}

// An epoch is all that a Resize allocates.
func TestResizeAllocatesOnce(t *testing.T) {
	if testkit.Race {
		t.Skip("sync.Pool drops at random")
	}
	w := watched(t, limiter(t, 1000, 0), deaf)
	n := 0
	require.LessOrEqual(t, testing.AllocsPerRun(2000, func() {
		n++
		a, b := w.TryAcquire(1), w.TryAcquire(1)
		w.Resize(500 + n%100)
		a.Release()
		b.Release()
	}), 1.0)
}

// Whatever the limit is meanwhile, nothing is lost, and what is in flight is never told to
// be more than was taken.
func TestStressResize(t *testing.T) {
	const most, workers, rounds = 8, 4, 2000
	var out, excess atomic.Int64
	l := limiter(t, most, most*workers)
	w := watched(t, l, hook(func(_ backdoor.Cause, e backdoor.End) {
		if e.InFlight > most || e.InFlight < e.Permits {
			excess.Add(1)
		}
	}))
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for i := range rounds {
				lease, err := w.Acquire(t.Context(), 1+(worker+i)%2)
				if err != nil {
					t.Error(err)
					return
				}
				if out.Add(int64(lease.Permits())) > most {
					excess.Add(1)
				}
				out.Add(int64(-lease.Permits()))
				lease.Release()
			}
		})
	}
	for i := range rounds {
		w.Resize(2 + i%(most-1))
	}
	w.Resize(most)
	group.Wait()
	assert.Zero(t, excess.Load())
	assert.Equal(t, most, l.Available())
}

// The permits in flight are counted by one limit, also beside a Resize.
func TestInFlightBesideAResize(t *testing.T) {
	var wrong atomic.Int64
	w := watched(t, limiter(t, 20, 0), hook(func(_ backdoor.Cause, e backdoor.End) {
		if e.InFlight != 1 { // the lease itself
			wrong.Add(1)
		}
	}))
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; !done.Load(); i++ {
			w.Resize(10 + i%2*10)
		}
	})
	for range 500_000 {
		w.TryAcquire(1).Release()
	}
	done.Store(true)
	wg.Wait()
	require.Zero(t, wrong.Load())
}
