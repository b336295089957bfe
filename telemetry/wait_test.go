package telemetry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

func TestWhoWaitsIsTimed(t *testing.T) {
	eachKind(t, func() *core.ConcurrencyLimiter { return concurrency(t, 1, 1) }, func(t *testing.T, s sdkReader, i core.Limiter) {
		lease := core.Must(i.Acquire(t.Context(), 1))
		go func() {
			time.Sleep(3 * time.Second)
			lease.Release()
		}()
		next := core.Must(i.Acquire(t.Context(), 1))
		require.Equal(t, map[string]point{queueGranted: {3, 1}, leaseGranted: {3, 1}}, times(t, s))

		// The context ends the wait: no lease.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := i.Acquire(ctx, 1)
		require.Equal(t, context.DeadlineExceeded, err)
		require.Equal(t, point{1, 1}, times(t, s)[queueRejected])

		// Who comes with a done context does not wait; who is not granted immediately does, for no time. Without a
		// quiet try, no caller can tell.
		_, err = i.Acquire(ctx, 1)
		require.Equal(t, context.DeadlineExceeded, err)
		require.Equal(t, point{1, 1}, times(t, s)[queueRejected])
		_, err = i.Acquire(t.Context(), 2)
		require.ErrorIs(t, err, core.ErrPermitsExceedLimit)
		_, err = i.Acquire(t.Context(), -1)
		require.ErrorIs(t, err, core.ErrNegativePermits)
		rejected := point{1, 3}
		if _, quiet := i.(interface{ Unwrap() core.Limiter }).Unwrap().(core.QuietTrier); !quiet {
			rejected.count = 1
		}
		require.Equal(t, rejected, times(t, s)[queueRejected])
		next.Release()
		require.Equal(t, map[string]point{queueGranted: {3, 1}, queueRejected: rejected, leaseGranted: {4, 2}}, times(t, s))
	})
}

// Who is granted by a quiet try has not waited, whatever the limiter does before.
func TestWhoIsServedAtOnceHasNotWaited(t *testing.T) {
	for _, l := range []core.Limiter{
		shed(t), core.WithReason(shed(t), "no"), core.Shadow(concurrency(t, 1, 1)), instrument(t, newSDK().Options, shed(t)),
		chain(t, concurrency(t, 1, 1), core.Unlimited()),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSDK()
			lease, err := instrument(t, s.Options, l).Acquire(t.Context(), 1)
			require.NoError(t, err)
			require.Empty(t, times(t, s))
			lease.Release()
			require.Equal(t, []string{leaseGranted}, names(times(t, s)))
		})
	}
}

// sleeper grants after a while, whatever its context says.
func sleeper(d time.Duration) core.Limiter {
	return stranger{acquire: func(ctx context.Context, n int) (core.Lease, error) {
		time.Sleep(d)
		return core.Grant(n, nil), ctx.Err()
	}}
}

// A limiter without a quiet try, which may sleep, or ask a server, is timed at each Acquire that takes a while.
func TestWhoCannotTryQuietlyIsTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSDK()
		_, err := instrument(t, s.Options, sleeper(10*time.Microsecond-1)).Acquire(t.Context(), 1)
		require.NoError(t, err)
		require.Empty(t, times(t, s), "that is no wait")
		_, err = instrument(t, s.Options, sleeper(10*time.Microsecond)).Acquire(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, map[string]point{queueGranted: {1e-5, 1}}, times(t, s))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = instrument(t, s.Options, sleeper(2*time.Second)).Acquire(ctx, 1)
		require.Equal(t, context.DeadlineExceeded, err)
		require.Equal(t, point{2, 1}, times(t, s)[queueRejected])
	})
}

// shed is a limiter that reads its probe at each call.
func shed(t *testing.T) core.Limiter {
	t.Helper()
	return core.Must(adaptive.NewShed(adaptive.ShedOptions{Probe: func() float64 { return 0 }, Threshold: 1, Interval: time.Nanosecond}))
}

// A primitive waits through the view whatever QueueLimit is, and that wait is timed.
func TestPrimitivesWaitThroughTheView(t *testing.T) {
	eachKind(t, func() *core.ConcurrencyLimiter { return concurrency(t, 1, 0) }, func(t *testing.T, s sdkReader, i core.Limiter) {
		if _, foreign := i.(interface{ Unwrap() core.Limiter }).Unwrap().(core.QuietTrier); !foreign {
			t.Skip("a third-party limiter waits as it likes")
		}
		waiting := func() (core.Lease, error) {
			l, _, err := backdoor.Core[core.Limiter, core.Lease]().Acquire(t.Context(), i, 1, nil, backdoor.Beyond)
			return l, err
		}
		lease, err := waiting()
		require.NoError(t, err)
		_, err = i.Acquire(t.Context(), 1)
		require.ErrorIs(t, err, core.ErrRejected)
		go func() {
			time.Sleep(3 * time.Second)
			lease.Release()
		}()
		next, err := waiting()
		require.NoError(t, err)
		next.Release()
		require.Equal(t, point{3, 1}, times(t, s)[queueGranted])
	})
}
