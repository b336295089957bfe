package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func TestCloseEndsTheWait(t *testing.T) {
	eachOfFour(t, 3, 9, func(t *testing.T, l everything) {
		held := takes(t, l, 3)
		all := []*acquire{queues(t, l, 2), queues(t, l, 3), queues(t, l, 0), queues(t, l, 0)}
		for range 3 {
			require.NoError(t, l.Close())
		}
		for _, a := range all {
			a.fails(t, core.ErrClosed)
		}
		counts(t, l, 3, 0, 0, 1, 0)

		// Leases still release, and statistics still answer.
		l.Refund(held)
		counts(t, l, 3, 3, 0, 1, 0)
		_, idle := l.IdleFor()
		require.True(t, idle)
		refused(t, l, 1, core.ErrClosed)
		acquires(t, l, 1).fails(t, core.ErrClosed)
	})
}

func TestAClosedLimiterGoesOnCounting(t *testing.T) {
	eachOfFour(t, 3, 9, func(t *testing.T, l everything) {
		if _, ok := l.(core.Replenisher); !ok {
			return
		}
		takes(t, l, 3)
		require.NoError(t, l.Close())
		time.Sleep(time.Second)
		available(t, l, 3)
		d, idle := l.IdleFor()
		require.True(t, idle)
		require.Zero(t, d)
	})
}

func TestReleaseAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 3, 0)
		a, b := takes(t, l, 1), takes(t, l, 2)
		require.NoError(t, l.Close())
		for range 3 {
			b.Release()
			available(t, l, 2)
		}
		a.Release()
		available(t, l, 3)
	})
}

func TestAClosedManualLimiterIsNotReplenished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, core.FixedWindowOptions{PermitLimit: 3, Window: time.Second, ManualReplenishment: true})
		takes(t, l, 3)
		require.NoError(t, l.Close())
		time.Sleep(time.Second)
		require.False(t, l.TryReplenish())
		available(t, l, 0)
	})
}
