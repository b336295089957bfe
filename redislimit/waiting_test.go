package redislimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/ending"
	"github.com/sluice-go/sluice/redislimit"
)

// asking is an Acquire under way, by whose context one sees whether it waits for permits.
type asking struct {
	*ending.Context

	lease core.Lease // once it is over
	over  chan error
}

func ask(ctx context.Context, l core.Limiter, permits int) *asking {
	a := &asking{Context: ending.Observe(ctx), over: make(chan error, 1)}
	go func() { //nolint:contextcheck // it is made of ctx
		var err error
		a.lease, err = l.Acquire(a, permits)
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

// Whoever is in the queue waits, from then on; not who is only on the way to the store and back.
func TestWhoWaits(t *testing.T) {
	for name, build := range map[string]func(t *testing.T, s *server, queue int) core.Limiter{
		"bucket": func(t *testing.T, s *server, queue int) core.Limiter {
			t.Helper()
			o := perSecond
			o.QueueLimit = queue
			return bucket(t, s.shared("key"), o)
		},
		"concurrency": func(t *testing.T, s *server, queue int) core.Limiter {
			t.Helper()
			return concurrency(t, s.shared("key"), core.ConcurrencyLimiterOptions{PermitLimit: 5, QueueLimit: queue})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				l := build(t, s, 1)
				s.store.answer(slowly)
				first := ask(t.Context(), l, 5)
				require.NoError(t, <-first.over)
				require.False(t, first.Waited(), "granted at once")

				next := ask(t.Context(), l, 1)
				require.False(t, next.Waited(), "it is on its way")
				time.Sleep(5 * time.Millisecond)
				require.True(t, next.Waited(), "it is in the queue")
				require.Empty(t, next.over)

				another := ask(t.Context(), l, 1)
				require.ErrorIs(t, <-another.over, core.ErrRejected)
				require.False(t, another.Waited(), "there is no room in the queue")

				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				probe := ask(ctx, l, 0)
				time.Sleep(5 * time.Millisecond)
				require.True(t, probe.Waited(), "a probe waits outside the queue limit")
				cancel()
				require.Equal(t, context.Canceled, <-probe.over)

				go l.(interface{ Close() error }).Close()
				require.ErrorIs(t, <-next.over, core.ErrClosed)
				late := ask(t.Context(), l, 1)
				require.ErrorIs(t, <-late.over, core.ErrClosed)
				require.False(t, late.Waited())
				first.lease.Release()
			})
		})
	}
}

// A Local that is asked instead waits for itself.
func TestWhoWaitsForLocal(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		local, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 2})
		require.NoError(t, err)
		o := s.shared("key")
		o.Down, o.Local = redislimit.DownLocal, local
		l := bucket(t, o, perSecond)
		s.store.answer(gone)
		first := ask(t.Context(), l, 1)
		require.NoError(t, <-first.over)
		require.False(t, first.Waited())

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		canceled, next := ask(ctx, l, 1), ask(t.Context(), l, 1)
		require.True(t, canceled.Waited())
		require.True(t, next.Waited())
		cancel()
		require.Equal(t, context.Canceled, <-canceled.over)
		require.Empty(t, next.over)
		require.NoError(t, l.Close())
		require.Equal(t, core.ErrClosed, <-next.over)
	})
}

// moody is a context whose Done panics once somebody waits.
type moody struct{ context.Context }

func (moody) Done() <-chan struct{} { panic("Done") }

func (m moody) WatchDone() <-chan struct{} { return m.Context.Done() }

// A context that panics as the wait begins leaves nobody in the queue, and no permits taken.
func TestAContextThatPanicsWhileItWaits(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := concurrency(t, s.shared("key"), core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1})
		held := takes(t, l, 1)
		require.PanicsWithValue(t, "Done", func() { _, _ = l.Acquire(moody{t.Context()}, 1) })
		require.Zero(t, l.Statistics().Queued)
		held.Release()
		time.Sleep(time.Second)
		require.Equal(t, 1, l.Available())
	})
}
