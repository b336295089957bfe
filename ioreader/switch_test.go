package ioreader_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
)

// keyOf returns the limiter of a key of its own.
func keyOf(t *testing.T, l core.Limiter) core.Limiter {
	t.Helper()
	keyed := core.Must(partition.New(partition.Options[string, string]{
		Key: func(s string) string { return s },
		New: func(string) (core.Limiter, error) { return l, nil },
	}))
	return partition.For(keyed, "a")
}

// changeable are limiters that ask l now, and may ask another one later.
func changeable(t *testing.T, l core.Limiter) map[string]core.Limiter {
	t.Helper()
	return map[string]core.Limiter{
		"switch":             core.NewSwitch(l),
		"switch of a switch": core.NewSwitch(core.NewSwitch(l)),
		"view of a switch":   core.WithReason(core.NewSwitch(l), "slow"),
		"chain of switches":  core.Must(core.Chain(core.NewSwitch(nil), core.NewSwitch(l))),
		"key":                keyOf(t, l),
		"switch of a key":    core.NewSwitch(keyOf(t, l)),
		"key of a switch":    keyOf(t, core.NewSwitch(l)),
	}
}

// TestEqualSharesUnderASwitch has Writers of small and of large pieces share a rate that may change.
func TestEqualSharesUnderASwitch(t *testing.T) {
	for name := range changeable(t, core.Unlimited()) {
		testkit.Bubble(t, name, func(t *testing.T) {
			rate := core.Must(core.NewTokenBucket(core.PerSecond(400<<10, 512<<10)))
			require.True(t, rate.TryAcquire(512<<10).Acquired())
			for _, part := range shares(t, 5*time.Second, changeable(t, rate)[name], 200, 32<<10) {
				require.InEpsilon(t, 0.5, part, 0.1)
			}
		})
	}
}

// TestNoCreditAfterASet sets a Switch to a concurrency limiter while the turn of a small Write is open. From then on no
// byte passes before its permits are available.
func TestNoCreditAfterASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := perSecond(t, 200_000)
		require.True(t, rate.TryAcquire(rate.Available()).Acquired())
		l := core.NewSwitch(rate)
		small, sink := ioreader.NewWriter(t.Context(), newMeter(), l), newMeter()
		other := ioreader.NewWriter(t.Context(), sink, l)
		ended := writing(other, make([]byte, 100_000))
		synctest.Wait()
		for range 2 { // it waits, and others wait behind it, so its turn is open
			_, err := small.Write(make([]byte, 100))
			require.NoError(t, err)
		}
		full := semaphore(t, 8000)
		lease := full.TryAcquire(8000)
		l.Set(full)
		synctest.Wait()
		passed := sink.total
		waiting := writing(small, make([]byte, 10))
		time.Sleep(time.Minute)
		require.Empty(t, waiting)
		require.Equal(t, passed, sink.total)
		require.Positive(t, full.Statistics().Queued)

		lease.Release()
		require.Equal(t, 10, (<-waiting).n)
		require.Equal(t, 100_000, (<-ended).n)
		require.Equal(t, 8000, full.Available())
	})
}

// TestSlicesAfterASet are those of the limiter that a Switch has now.
func TestSlicesAfterASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, sink := core.NewSwitch(bucketOf(t, 1<<20, 1<<20, time.Second)), newMeter()
		w := ioreader.NewWriter(t.Context(), sink, l)
		write := func(n int) (most int) {
			sink.sizes = nil
			_, err := w.Write(make([]byte, n))
			require.NoError(t, err)
			for _, n := range sink.sizes {
				most = max(most, n)
			}
			return most
		}
		require.Equal(t, 64<<10, write(512<<10))
		l.Set(semaphore(t, 80_000))
		require.Equal(t, 10_000, write(100_000))
		l.Set(core.Must(core.NewTokenBucket(ioreader.PerSecond(50_000))))
		require.Equal(t, 1460, write(10_000))
		l.Set(nil)
		require.Equal(t, 64<<10, write(512<<10))
		l.Set(core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 8, QueueLimit: math.MaxInt})))
		require.Equal(t, 1, write(100))
	})
}
