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

// With keeps the error of a refusal.
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
