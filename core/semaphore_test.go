package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

func TestSemaphore(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		l := concurrency(t, 3, 0)
		a, b := l.Semaphore(), l.Semaphore()
		require.NoError(t, a.Acquire(t.Context(), 2))
		require.True(t, b.TryAcquire(1))
		require.False(t, b.TryAcquire(1))
		require.True(t, b.TryAcquire(0))
		require.False(t, b.TryAcquire(-1))
		done, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, a.Acquire(done, 0))
		require.Equal(t, context.Canceled, a.Acquire(done, 1))
		require.Equal(t, core.ErrNegativePermits, a.Acquire(t.Context(), -1))
		require.ErrorIs(t, a.Acquire(t.Context(), 4), core.ErrPermitsExceedLimit)
		require.PanicsWithValue(t, "core: Semaphore.Release of more permits than it holds", func() { b.Release(2) })
		require.PanicsWithValue(t, "core: Semaphore.Release of negative permits", func() { b.Release(-1) })
		time.AfterFunc(time.Second, func() { a.Release(2) })
		start := time.Now()
		require.NoError(t, b.Acquire(t.Context(), 2), "whatever QueueLimit is")
		require.Equal(t, time.Second, time.Since(start))
		b.Release(3)
		require.Equal(t, 3, l.Available())
		require.NoError(t, a.Acquire(t.Context(), 3))
		failed := make(chan error)
		go func() { failed <- a.Acquire(t.Context(), 1) }()
		synctest.Wait()
		require.NoError(t, l.Close())
		require.Equal(t, core.ErrClosed, <-failed)
		a.Release(3)
		require.Equal(t, core.ErrClosed, new(core.Semaphore).Acquire(t.Context(), 1))
		require.Equal(t, core.ErrNegativePermits, new(core.Semaphore).Acquire(t.Context(), -1))
		require.Equal(t, context.Canceled, new(core.Semaphore).Acquire(done, 1))
		require.False(t, new(core.Semaphore).TryAcquire(1))
		require.Equal(t, core.ErrClosed, new(core.ConcurrencyLimiter).Semaphore().Acquire(t.Context(), 1))
		require.False(t, new(core.ConcurrencyLimiter).Semaphore().TryAcquire(1))
	})
}
