package core_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func TestUnlimitedGrantsAll(t *testing.T) {
	l := core.Unlimited()
	for _, n := range []int{0, 1, math.MaxInt, math.MaxInt} {
		lease := takes(t, l, n)
		lease.Release()
		lease, err := l.Acquire(t.Context(), n)
		require.NoError(t, err)
		require.Equal(t, n, lease.Permits())
	}
	available(t, l, math.MaxInt)
	refused(t, l, -1, core.ErrNegativePermits)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	lease, err := l.Acquire(done, 1)
	require.Equal(t, context.Canceled, err)
	require.Equal(t, err, lease.Err())
	_, err = l.Acquire(done, -1)
	require.Equal(t, core.ErrNegativePermits, err)
}

func TestUnlimitedIsAllThatALimiterIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, ok := core.Unlimited().(everything)
		require.True(t, ok)
		l.Refund(takes(t, l, 5))
		counts(t, l, math.MaxInt, math.MaxInt, 0, 1, 0)
		time.Sleep(time.Minute)
		idleFor(t, l, time.Minute)
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		refused(t, l, 1, core.ErrClosed)
		counts(t, l, math.MaxInt, math.MaxInt, 0, 1, 0)
	})
}
