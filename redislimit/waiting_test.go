package redislimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// asking is an Acquire under way.
type asking struct {
	lease core.Lease // once it is over
	over  chan error
}

func ask(ctx context.Context, l core.Limiter, permits int) *asking {
	a := &asking{over: make(chan error, 1)}
	go func() {
		var err error
		a.lease, err = l.Acquire(ctx, permits)
		a.over <- err
	}()
	synctest.Wait()
	return a
}

// slowly is a store's answer that takes a while.
func slowly(_ context.Context, next func() ([]int64, error)) ([]int64, error) {
	time.Sleep(time.Millisecond)
	return next()
}

// A caller that the store refuses waits in the queue, if there is room, and until Close.
func TestWaiting(t *testing.T) {
	for name, build := range map[string]func(t *testing.T, s *server) everything{
		"bucket": func(t *testing.T, s *server) everything {
			t.Helper()
			o := perSecond
			o.QueueLimit = 1
			return bucket(t, s.shared("key"), o)
		},
		"concurrency": func(t *testing.T, s *server) everything {
			t.Helper()
			return concurrency(t, s.shared("key"), core.ConcurrencyLimiterOptions{PermitLimit: 5, QueueLimit: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				l := build(t, s)
				s.store.answer(slowly)
				first := ask(t.Context(), l, 5)
				require.NoError(t, <-first.over)
				next := ask(t.Context(), l, 1)
				time.Sleep(5 * time.Millisecond)
				require.Equal(t, 1, l.Statistics().Queued)
				require.Empty(t, next.over)

				require.ErrorIs(t, <-ask(t.Context(), l, 1).over, core.ErrRejected)
				ctx, cancel := context.WithCancel(t.Context())
				probe := ask(ctx, l, 0)
				time.Sleep(5 * time.Millisecond)
				require.Empty(t, probe.over, "it waits outside the queue limit")
				cancel()
				require.Equal(t, context.Canceled, <-probe.over)

				go l.Close()
				require.ErrorIs(t, <-next.over, core.ErrClosed)
				require.ErrorIs(t, <-ask(t.Context(), l, 1).over, core.ErrClosed)
				first.lease.Release()
			})
		})
	}
}

// A wait in Local ends with the caller's context, and with Close.
func TestWaitingInLocal(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		local, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 2})
		require.NoError(t, err)
		o := s.shared("key")
		o.Down, o.Local = redislimit.DownLocal, local
		l := bucket(t, o, perSecond)
		s.store.answer(gone)
		first := ask(t.Context(), l, 1)
		require.NoError(t, <-first.over)

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		canceled, next := ask(ctx, l, 1), ask(t.Context(), l, 1)
		cancel()
		require.Equal(t, context.Canceled, <-canceled.over)
		require.Empty(t, next.over)
		require.NoError(t, l.Close())
		require.Equal(t, core.ErrClosed, <-next.over)
	})
}
