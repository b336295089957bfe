package backdoor_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/testkit"
)

var ways = backdoor.Core[core.Lease]()

func limiter(tb testing.TB, permits, queue int) *core.ConcurrencyLimiter {
	tb.Helper()
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: queue})
	require.NoError(tb, err)
	return l
}

func plain(tb testing.TB, l *core.ConcurrencyLimiter) backdoor.Permits {
	tb.Helper()
	p, ok := ways.Permits(l)
	require.True(tb, ok)
	return p
}

type embedding struct{ *core.ConcurrencyLimiter }

func TestOnlyTheVeryType(t *testing.T) {
	l := limiter(t, 1, 0)
	chain, err := core.Chain(l)
	require.NoError(t, err)
	bucket, err := core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: 1})
	require.NoError(t, err)
	for name, other := range map[string]any{
		"embedding": embedding{l}, "pointer to embedding": &embedding{l}, "view": core.WithReason(l, "full"),
		"chain": chain, "bucket": bucket, "unlimited": core.Unlimited(), "zero": new(core.ConcurrencyLimiter),
		"nil pointer": (*core.ConcurrencyLimiter)(nil), "nil": nil,
	} {
		_, ok := ways.Permits(other)
		require.False(t, ok, name)
		_, ok = ways.Watch(other, deaf)
		require.False(t, ok, name)
	}
}

func TestPlainPermitsCount(t *testing.T) {
	l := limiter(t, 5, 0)
	p := plain(t, l)
	require.True(t, p.TryTake(3))
	require.False(t, p.TryTake(3), "only two are left")
	require.False(t, p.TryTake(6), "more than the limit")
	require.False(t, p.TryTake(-1))
	require.Equal(t, core.Statistics{Limit: 5, Available: 2, Granted: 1}, l.Statistics())

	lease := l.TryAcquire(2)
	require.True(t, lease.Acquired())
	require.False(t, p.TryTake(1))
	p.Give(3)
	require.True(t, p.TryTake(1))
	lease.Release()
	p.Give(1)
	require.Equal(t, core.Statistics{Limit: 5, Available: 5, Granted: 3}, l.Statistics())
	_, idle := l.IdleFor()
	require.True(t, idle)
}

func TestPlainTakeReturnsWhatAcquireDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, 2, 1)
		p := plain(t, l)
		done, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, p.Take(t.Context(), -1), core.ErrNegativePermits)
		require.Equal(t, context.Canceled, p.Take(done, 1))
		require.ErrorIs(t, p.Take(t.Context(), 3), core.ErrPermitsExceedLimit)
		require.NoError(t, p.Take(t.Context(), 2))

		waits, stop := context.WithCancel(t.Context())
		end := make(chan error, 1)
		go func() { end <- p.Take(waits, 1) }()
		synctest.Wait()
		require.Equal(t, 1, l.Statistics().Queued)
		require.ErrorIs(t, p.Take(t.Context(), 1), core.ErrRejected, "the queue is full")
		stop()
		require.Equal(t, context.Canceled, <-end)

		go func() { end <- p.Take(t.Context(), 1) }()
		synctest.Wait()
		p.Give(2)
		require.NoError(t, <-end)
		require.Equal(t, core.Statistics{Limit: 2, Available: 1, Granted: 2, Rejected: 1}, l.Statistics())
		p.Give(1)

		require.NoError(t, l.Close())
		require.False(t, p.TryTake(1))
		require.Equal(t, core.ErrClosed, p.Take(t.Context(), 1))
	})
}

func TestALeaseOfPlainPermits(t *testing.T) {
	l := limiter(t, 5, 0)
	p := plain(t, l)
	require.True(t, p.TryTake(4))
	lease := ways.Lease(p, 4)
	copied := lease.With(core.ReasonPhrase.With("kept"))
	require.True(t, lease.Acquired())
	require.Equal(t, 4, lease.Permits())
	require.NoError(t, lease.Err())
	limit, ok := core.PermitLimit.From(lease)
	require.True(t, ok)
	require.Equal(t, 5, limit)
	require.Equal(t, core.Statistics{Limit: 5, Available: 1, Granted: 1}, l.Statistics())

	copied.Release()
	require.Equal(t, 5, l.Available())
	require.True(t, p.TryTake(5))
	lease.Release() // from long ago
	require.Zero(t, l.Available())
	p.Give(5)
}

// hook is a function that is a hook.
type hook func(c backdoor.Cause, e backdoor.End)

func (h hook) Ended(c backdoor.Cause, e backdoor.End) { h(c, e) }

// deaf is a hook that does nothing.
var deaf = hook(func(backdoor.Cause, backdoor.End) {})

// ends keeps what a hook was told.
type ends struct {
	mu  sync.Mutex
	all []told
}

type told struct {
	backdoor.End

	cause backdoor.Cause
}

func (e *ends) Ended(c backdoor.Cause, end backdoor.End) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, told{end, c})
}

func (e *ends) take() []told {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.all
	e.all = nil
	return all
}

func TestWatchedLeasesTellTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all ends
		l := limiter(t, 10, 10)
		watched := watched(t, l, &all)

		time.Sleep(time.Second)
		first := watched.TryAcquire(2)
		time.Sleep(time.Second)
		second, err := watched.Acquire(t.Context(), 3)
		require.NoError(t, err)
		reset, ok := core.ResetAfter.From(second)
		require.False(t, ok, reset)
		left, _ := core.Remaining.From(second)
		require.Equal(t, 5, left)
		time.Sleep(time.Second)

		first.With(core.ReasonPhrase.With("copy")).Release()
		first.Release()
		watched.End(first, backdoor.Dropped)
		require.Equal(t, []told{{backdoor.End{Granted: time.Second, Held: 2 * time.Second, Permits: 2, InFlight: 5}, backdoor.Released}}, all.take())

		watched.End(second, backdoor.Ignored)
		second.Release()
		require.Equal(t, []told{{backdoor.End{Granted: 2 * time.Second, Held: time.Second, Permits: 3, InFlight: 3}, backdoor.Ignored}}, all.take())

		third := watched.TryAcquire(10)
		end := make(chan core.Lease, 1)
		go func() {
			lease, _ := watched.Acquire(t.Context(), 4)
			end <- lease
		}()
		time.Sleep(time.Second)
		l.Refund(third)
		fourth := <-end
		require.Equal(t, []told{{backdoor.End{Granted: 3 * time.Second, Held: time.Second, Permits: 10, InFlight: 10}, backdoor.Refunded}}, all.take())
		watched.End(fourth, backdoor.Dropped)
		require.Equal(t, []told{{backdoor.End{Granted: 4 * time.Second, Permits: 4, InFlight: 4}, backdoor.Dropped}}, all.take())

		watched.TryAcquire(0).Release()
		watched.TryAcquire(11).Release()
		other := limiter(t, 1, 0).TryAcquire(1)
		watched.End(other, backdoor.Dropped)
		watched.End(core.Lease{}, backdoor.Dropped)
		require.Empty(t, all.take())
		require.Equal(t, 10, l.Available())

		l.TryAcquire(1).Release() // a lease of the limiter's own
		require.Equal(t, []told{{backdoor.End{Granted: 4 * time.Second, Permits: 1, InFlight: 1}, backdoor.Released}}, all.take())
	})
}

// In another bubble, where it is earlier than when the limiter was made.
func TestWatchedLeasesWhereItIsEarlier(t *testing.T) {
	var all ends
	var w observed
	var before core.Lease
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		w = watched(t, limiter(t, 10, 10), &all)
		before = w.TryAcquire(1)
	})
	synctest.Test(t, func(*testing.T) {
		before.Release()
		after := w.TryAcquire(2)
		time.Sleep(time.Second)
		after.Release()
	})
	require.Equal(t, []told{
		{backdoor.End{Held: -time.Hour, Permits: 1, InFlight: 1}, backdoor.Released},
		{backdoor.End{Granted: -time.Hour, Held: time.Second, Permits: 2, InFlight: 2}, backdoor.Released},
	}, all.take())
}

func TestWaysAllocateNothing(t *testing.T) {
	if testkit.Race {
		t.Skip("sync.Pool drops at random")
	}
	l := limiter(t, 1<<20, 0)
	p := plain(t, l)
	w := watched(t, limiter(t, 1<<20, 0), deaf)
	for name, f := range map[string]func(){
		"TryTake": func() { p.TryTake(1); p.Give(1) },
		"Take":    func() { _ = p.Take(t.Context(), 1); p.Give(1) },
		"Lease":   func() { p.TryTake(1); ways.Lease(p, 1).Release() },
		"Watched": func() { w.TryAcquire(1).Release() },
		"End": func() {
			a, b := w.TryAcquire(1), w.TryAcquire(2)
			w.End(a, backdoor.Dropped)
			w.End(b, backdoor.Ignored)
		},
		"Again": func() { got, _ := ways.Permits(l); got.TryTake(1); got.Give(1) },
	} {
		require.Zero(t, int(testing.AllocsPerRun(2000, f)), name)
	}
}

// TestStressTogether plays plain permits, leases of them, leases and watched leases against
// each other: no more are out than the limit, each watched end is told once, and in the end
// all are back and counted.
func TestStressTogether(t *testing.T) {
	const limit, workers, rounds = 5, 8, 400
	l := limiter(t, limit, 1000)
	p := plain(t, l)
	var out, granted, told, excess atomic.Int64
	w := watched(t, l, hook(func(backdoor.Cause, backdoor.End) { told.Add(1) }))
	enter := func(n int) {
		granted.Add(1)
		if out.Add(int64(n)) > limit {
			excess.Add(1)
		}
	}
	var group, releases sync.WaitGroup
	var watched atomic.Int64
	for worker := range workers {
		group.Go(func() {
			for i := range rounds {
				n := 1 + (worker+i)%3
				switch (worker + i) % 5 {
				case 0:
					if p.TryTake(n) {
						enter(n)
						out.Add(int64(-n))
						p.Give(n)
					}
				case 1:
					if p.Take(t.Context(), n) == nil {
						enter(n)
						watched.Add(1)
						out.Add(int64(-n))
						ways.Lease(p, n).Release()
					}
				case 2:
					if lease, err := l.Acquire(t.Context(), n); err == nil {
						enter(n)
						watched.Add(1)
						out.Add(int64(-n))
						lease.Release()
					}
				case 3:
					if lease := w.TryAcquire(n); lease.Acquired() {
						enter(n)
						watched.Add(1)
						out.Add(int64(-n))
						releases.Go(lease.Release)
						w.End(lease, backdoor.Dropped)
					}
				case 4:
					if lease, err := w.Acquire(t.Context(), n); err == nil {
						enter(n)
						watched.Add(1)
						out.Add(int64(-n))
						l.Refund(lease)
					}
				}
			}
		})
	}
	group.Wait()
	releases.Wait()
	require.Zero(t, excess.Load())
	require.Equal(t, watched.Load(), told.Load())
	s := l.Statistics()
	require.Equal(t, limit, s.Available)
	require.Equal(t, uint64(granted.Load()), s.Granted)
}

// Of the leases that follow each other each calls release once, and a copy of an earlier one does nothing.
func TestGrants(t *testing.T) {
	released := 0
	next := ways.Grants(func() { released++ })
	var earlier core.Lease
	for n := range 3 {
		lease := next()
		require.True(t, lease.Acquired())
		require.Zero(t, lease.Permits())
		for name := range lease.Metadata() {
			t.Error(name)
		}
		earlier.Release()
		require.Equal(t, n, released)
		lease.Release()
		lease.Release()
		require.Equal(t, n+1, released)
		earlier = lease
	}
	var again func()
	next = ways.Grants(func() { again() })
	first, second := next(), core.Lease{}
	again = func() { second = next() } // in release
	first.Release()
	again = func() { released++ }
	first.Release()
	require.Equal(t, 3, released)
	second.Release()
	require.Equal(t, 4, released)
	if !testkit.Race {
		require.Zero(t, testing.AllocsPerRun(100, func() { next().Release() }))
	}
}
