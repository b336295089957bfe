package core_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// exceeds finds the error to say that, of whose limit.
func exceeds(tb testing.TB, err error, want core.ExceedsLimitError) {
	tb.Helper()
	require.ErrorIs(tb, err, core.ErrPermitsExceedLimit)
	var e *core.ExceedsLimitError
	require.ErrorAs(tb, err, &e)
	require.Equal(tb, want, *e)
}

func TestMoreThanTheLimitInNumbers(t *testing.T) {
	for name, l := range four(t, 3, 3) {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{4, math.MaxInt} {
				want := core.ExceedsLimitError{Permits: n, Limit: 3}
				exceeds(t, l.TryAcquire(n).Err(), want)
				lease, err := l.Acquire(t.Context(), n)
				exceeds(t, err, want)
				require.Same(t, err, lease.Err())
				lease, err = core.WithReason(l, "why").Acquire(t.Context(), n)
				exceeds(t, err, want)
				require.Same(t, err, lease.Err())
				lease, err = chain(t, core.Unlimited(), l).Acquire(t.Context(), n)
				exceeds(t, err, want)
				require.Same(t, err, lease.Err())
				exceeds(t, chain(t, l).TryAcquire(n).Err(), want)
			}
			// The limit then in force, whatever it is now.
			lease := l.TryAcquire(4)
			require.False(t, lease.Acquired())
			exceeds(t, lease.With(core.Remaining.With(1)).Err(), core.ExceedsLimitError{Permits: 4, Limit: 3})
		})
	}
}

func TestMoreThanTheLimitByName(t *testing.T) {
	l, err := core.NewFixedWindow(core.FixedWindowOptions{Name: "api", PermitLimit: 5, Window: time.Second})
	require.NoError(t, err)
	err = l.TryAcquire(7).Err()
	require.EqualError(t, err, `core: 7 permits are more than the limit of 5 of "api"`)
	require.ErrorIs(t, fmt.Errorf("wrapped: %w", err), core.ErrPermitsExceedLimit)
	require.NotErrorIs(t, err, core.ErrRejected)
	require.EqualError(t, &core.ExceedsLimitError{Permits: 7, Limit: 5}, "core: 7 permits are more than the limit of 5")
}
