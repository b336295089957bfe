package direct_test

import (
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/direct"
)

// While a limiter is thinned one lease in eight is watched, and as many of one kind as of another
// that comes in turn with it.
func TestThin(t *testing.T) {
	for name, others := range map[string]int{"alone": 0, "beside another": 1, "beside many": 40} {
		t.Run(name, func(t *testing.T) {
			const turns, kinds, fair = 4000, 8, 4000 / direct.Thinned
			var all ends
			l := limiter(t, 100, 0)
			w := watched(t, l, &all)
			held := make([]core.Lease, others)
			for i := range held {
				held[i] = w.TryAcquire(1)
			}
			run := func() (told [kinds]int) {
				for i := range turns * kinds {
					n := 1 + i%kinds
					lease := w.TryAcquire(n)
					require.True(t, lease.Acquired())
					says(t, lease, 100, 100-others-n)
					lease.Release()
					lease.Release()
					told[i%kinds] += len(all.take())
				}
				return told
			}
			w.Thin(true)
			for kind, told := range run() {
				assert.InDelta(t, fair, told, fair/3, "of kind %d", kind)
			}
			w.Thin(false)
			for _, told := range run() {
				assert.Equal(t, turns, told)
			}
			core.ReleaseAll(held)
			assert.Equal(t, 100, l.Available())
		})
	}
}

// The hook is told what is true of those that are watched, nothing of the Release of the others,
// and of an End of those all but the time that they were held.
func TestThinnedEndsAreTrue(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newLedger(t, seed)
				g.thins = true
				for range 2000 {
					g.step()
				}
				g.w.Resize(ledgerMost) // so that nobody waits for ever
				g.settle()
				for len(g.held) > 0 {
					g.end(0)
				}
				require.Equal(t, ledgerMost, g.l.Available())
				require.Greater(t, g.passedOver, 100)
				require.Less(t, g.passedOver, len(g.ended)-100)
			})
		})
	}
}

// Those that waited are never passed over: if somebody always waits, nobody else would be watched.
func TestThinnedWaitersAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters = 100
		var all ends
		l := limiter(t, 1, waiters)
		w := watched(t, l, &all)
		w.Thin(true)
		first := w.TryAcquire(1)
		for range waiters {
			go func() {
				if lease, err := w.Acquire(t.Context(), 1); err == nil {
					lease.Release()
				}
			}()
		}
		synctest.Wait()
		w.End(first, direct.Dropped)
		synctest.Wait()
		assert.Len(t, all.take(), 1+waiters)
		assert.Equal(t, 1, l.Available())
	})
}

// Another limit, other options and another cell of the limiter leave it thinned.
func TestThinnedStaysSo(t *testing.T) {
	var all ends
	l := limiter(t, 10, 0)
	w := watched(t, l, &all)
	w.Thin(true)
	for _, change := range []func(){
		func() { w.Resize(5) },
		func() { require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{Name: "other", PermitLimit: 7})) },
		func() { // more than a cell has generations
			for range 1<<20 + 1 {
				w.TryAcquire(1).Release()
			}
			all.take()
		},
	} {
		change()
		for range 400 {
			w.TryAcquire(1).Release()
		}
		assert.InDelta(t, 400/direct.Thinned, len(all.take()), 25)
	}
	w.Thin(false)
	w.TryAcquire(1).Release()
	assert.Len(t, all.take(), 1)
}
