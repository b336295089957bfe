package core_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func TestTheZeroLease(t *testing.T) {
	var l core.Lease
	require.False(t, l.Acquired())
	require.Zero(t, l.Permits())
	require.ErrorIs(t, l.Err(), core.ErrRejected)
	for range l.Metadata() {
		require.Fail(t, "metadata of nothing")
	}
	l.Release()
	l.With(core.ReasonPhrase.With("why")).Release()
}

func TestReleaseIsOnceWhicheverCopy(t *testing.T) {
	l := concurrency(t, 10, 0)
	lease := takes(t, l, 3)
	takes(t, l, 4)
	copies := []core.Lease{lease, lease, lease.With(), lease.With(core.ReasonPhrase.With("x")).With(core.LimiterName.With("y"))}
	for range 3 {
		for i := range copies {
			copies[len(copies)-1-i].Release()
			available(t, l, 6)
		}
	}
	require.True(t, lease.Acquired(), "released, and still what was granted")
	require.Equal(t, 3, lease.Permits())
	require.NoError(t, lease.Err())
}

// A lease from long ago releases nothing that another caller holds now.
func TestAStaleLeaseReleasesNothing(t *testing.T) {
	l := concurrency(t, 4, 0)
	var old []core.Lease
	for round := range 1000 {
		now := []core.Lease{takes(t, l, 1), takes(t, l, 1), takes(t, l, 1)}
		for _, lease := range old {
			lease.Release()
			l.Refund(lease)
		}
		require.Equal(t, 1, l.Available(), round)
		for i := range now {
			now[(i+round)%3].Release()
		}
		if old = append(old, now...); len(old) > 60 {
			old = old[30:]
		}
	}
	available(t, l, 4)
}

// With on a refusal keeps what it was.
func TestWithKeepsTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1, 0)
		takes(t, l, 1)
		more := core.LimiterName.With("more")
		rejection(t, l.TryAcquire(1).With(more).Err(), "permits exhausted", 0)
		failed(t, core.ErrPermitsExceedLimit, l.TryAcquire(2).With(more).Err(), 2)
		require.Equal(t, core.ErrNegativePermits, l.TryAcquire(-2).With(more).Err())
		lease, err := l.Acquire(t.Context(), 1)
		require.Same(t, err, lease.Err())
		rejection(t, lease.With(more).Err(), "queue limit reached", 0)
		require.NoError(t, l.Close())
		require.Equal(t, core.ErrClosed, l.TryAcquire(1).With(more).Err())
	})
}
