package core_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// named returns a concurrency limiter of 5 permits with a name.
func named(tb testing.TB, name string) *core.ConcurrencyLimiter {
	tb.Helper()
	return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: name, PermitLimit: 5}))
}

// endsTwice releases a lease of two permits of a, takes three of b, which may get its handle, and ends the
// first one again in all ways, and b's where it is not from. It returns both.
func endsTwice(t *testing.T, a, b everyday) (old, current core.Lease) {
	t.Helper()
	old = takes(t, a, 2)
	old.Release()
	current = takes(t, b, 3)
	old.Release()
	core.ReleaseAll([]core.Lease{old})
	for _, l := range []everyday{a, b} {
		l.Refund(old)
		l.Settle(old, 1)
	}
	a.Refund(current)
	a.Settle(current, 1)
	return old, current
}

// A handle that goes from one limiter to another, which says the same, ends no lease but its own.
func TestAnEndedLeaseDoesNothingToAnotherLimiter(t *testing.T) {
	a, b := named(t, "equal"), named(t, "equal")
	for range 1000 {
		old, current := endsTwice(t, a, b)
		require.Equal(t, 5, a.Available())
		require.Equal(t, 2, b.Available())
		require.Equal(t, 2, old.Permits())
		require.Equal(t, 3, current.Permits())
		settled := b.Settle(current, 0)
		takes(t, a, 1).Release()
		b.Settle(settled, 4)
		require.Equal(t, 1, b.Available(), "a lease of zero permits is charged where it was granted")
		b.Settle(takes(t, b, 1), 0)
		require.Equal(t, 1, b.Available())
		b = named(t, "equal")
	}
}

// So does the lease of a chain, whose handle goes from one chain to another.
func TestAnEndedLeaseOfAChain(t *testing.T) {
	first, second := named(t, "equal"), named(t, "equal")
	a, b := chain(t, first, named(t, "other")), chain(t, second, named(t, "other"))
	for range 1000 {
		old, current := endsTwice(t, a, b)
		require.Equal(t, 5, first.Available())
		require.Equal(t, 2, second.Available())
		require.Equal(t, 2, old.Permits())
		b.Settle(current, 1).Release()
		require.Equal(t, 5, second.Available())
	}
}

// What a lease has said stays, whatever happens to its handle.
func TestAnEndedLeaseSaysWhatItSaid(t *testing.T) {
	l, other := named(t, "a"), named(t, "b")
	says := func(lease core.Lease, name string, limit int) {
		t.Helper()
		n, _ := core.LimiterName.From(lease)
		require.Equal(t, name, n)
		m, _ := core.PermitLimit.From(lease)
		require.Equal(t, limit, m)
	}
	first := takes(t, l, 1)
	first.Release()
	takes(t, other, 1).Release()
	require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{Name: "a", PermitLimit: 7}))
	second := takes(t, l, 1)
	second.Release()
	require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{Name: "c", PermitLimit: 7}))
	third := takes(t, l, 1)
	third.Release()
	both := takes(t, chain(t, l, other), 1)
	both.Release()
	for range 100 {
		takes(t, l, 1).Release()
		takes(t, other, 1).Release()
		takes(t, named(t, "a"), 1).Release()
		takes(t, chain(t, named(t, "a"), other), 1).Release()
		takes(t, chain(t, l, named(t, "a")), 1).Release()
	}
	says(both, "c", 7)
	says(first, "a", 5)
	says(second, "a", 7)
	says(third, "c", 7)
}

// Limiters of one kind share handles, and others do not take them away.
func TestLimitersInTurnAllocateNothing(t *testing.T) {
	equal := []core.Limiter{named(t, "a"), named(t, "a"), named(t, "a")}
	chains := []core.Limiter{chain(t, equal[0], named(t, "b")), chain(t, equal[1], named(t, "b")), chain(t, named(t, "b"), equal[2])}
	allocates(t, 0, func() {
		for _, l := range chains {
			takes(t, l, 1).Release()
		}
	})
	allocates(t, 0, func() {
		for _, l := range equal {
			takes(t, l, 1).Release()
		}
	})
	updated := equal[0].(*core.ConcurrencyLimiter)
	require.NoError(t, updated.Update(core.ConcurrencyLimiterOptions{Name: "a", PermitLimit: 7}))
	allocates(t, 0, func() {
		for _, l := range equal {
			takes(t, l, 1).Release()
		}
	})
	var unequal []core.Limiter
	for i := range 100 {
		l := concurrency(t, 1000+i, 0)
		unequal = append(unequal, l, chain(t, l, concurrency(t, 1000, 0)))
	}
	allocates(t, 0, func() {
		for _, l := range unequal {
			l.TryAcquire(1).Release()
		}
	})
}

// A limiter that is used costs nothing for each processor: there may be one for each of a million keys. A chain's
// first lease makes a handle, which the garbage collector has at its second run.
func TestUseCostsNothingForEachProcessor(t *testing.T) {
	const n = 2000
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, c := range []struct {
		name  string
		build func() core.Limiter
		most  int64
	}{
		{"concurrency", func() core.Limiter { return named(t, "one of many") }, 49},
		{"chain", func() core.Limiter { return chain(t, named(t, "one of many"), named(t, "another")) }, 520},
	} {
		all := make([]core.Limiter, n)
		for i := range all {
			all[i] = c.build()
		}
		before := heap()
		for _, l := range all {
			l.TryAcquire(1).Release()
		}
		require.Less(t, (heap()-before)/n, c.most, c.name)
		runtime.KeepAlive(all)
	}
}

// everyday is what concurrency limiters and chains are.
type everyday interface {
	core.Limiter
	core.Refunder
	core.Settler
}

// Many goroutines take from limiters that say the same, and release leases again that have ended.
func TestStressHandlesOfManyLimiters(t *testing.T) {
	const limiters, limit = 50, 5
	var all [limiters]everyday
	var held [limiters]atomic.Int64
	for i := range all {
		all[i] = named(t, "one of many")
		if i%2 == 1 { // the chain's first has the same name and limit
			all[i] = chain(t, all[i], named(t, "another"))
		}
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var ended [16]core.Lease
			for round := range 20_000 {
				i := rand.IntN(limiters)
				lease := all[i].TryAcquire(1)
				if !lease.Acquired() {
					continue
				}
				if held[i].Add(1) > limit {
					t.Error("more than the limit")
				}
				k := rand.IntN(len(ended))
				stale := ended[k]
				ended[k] = lease
				stale.Release()
				all[rand.IntN(limiters)].Refund(stale)
				if round%64 == 0 {
					runtime.Gosched()
				}
				held[i].Add(-1)
				none := all[i].Settle(lease, 0)
				if i%2 == 1 { // a chain's lease of zero permits holds nothing
					continue
				}
				one := all[i].Settle(none, 1)
				if one.Permits() != 1 {
					t.Error("a lease of zero permits is another limiter's")
				}
				one.Release()
			}
		})
	}
	wg.Wait()
	for _, l := range all {
		require.Equal(t, limit, l.Available())
	}
}

// Leases that have ended say what they said, while the limit changes under those that are granted.
func TestStressLimitsOfEndedLeases(t *testing.T) {
	l := named(t, "changes")
	stop := make(chan struct{})
	var updates, takers sync.WaitGroup
	updates.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = l.Update(core.ConcurrencyLimiterOptions{Name: "changes", PermitLimit: 5 + i%2})
			}
		}
	})
	for range 2 {
		takers.Go(func() {
			for range 20_000 {
				lease := l.TryAcquire(1)
				limit, _ := core.PermitLimit.From(lease)
				lease.Release()
				l.TryAcquire(1).Release()
				if still, _ := core.PermitLimit.From(lease); still != limit {
					t.Error("the limit was", limit, "and is", still)
					return
				}
			}
		})
	}
	takers.Wait()
	close(stop)
	updates.Wait()
	require.GreaterOrEqual(t, l.Available(), 5)
}
