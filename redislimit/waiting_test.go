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
		o.Unavailable, o.Local = redislimit.UseLocal, local
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

// A waiter has just been refused: it asks again when it can be served, or a second later, also if the queue was empty for long.
func TestAWaiterDoesNotAskAgainAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := concurrency(t, s.shared("key"), core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1})
		for range 2 {
			held := takes(t, l, 1)
			before := s.store.runs.Load()
			ctx, cancel := context.WithCancel(t.Context())
			waiter := ask(ctx, l, 1)
			require.Equal(t, int64(1), s.store.runs.Load()-before)
			cancel()
			require.Equal(t, context.Canceled, <-waiter.over)
			held.Release()
			time.Sleep(time.Minute)
		}
	})
}

// A call that refuses a waiter says when it can be served: the store is not asked before that, however long the call took.
func TestAWaiterWhoseCallTakesLong(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o := s.shared("key")
		a := bucket(t, o, perSecond)
		o.Store = s.plain
		b := bucket(t, o, perSecond)
		takes(t, b, 5)
		waiter := ask(t.Context(), a, 1)
		before := s.store.runs.Load()
		s.store.answer(slowly)
		time.Sleep(time.Second + time.Millisecond/2) // the call for the waiter is on its way
		takes(t, b, 1)
		time.Sleep(time.Second / 2)
		require.Equal(t, int64(1), s.store.runs.Load()-before)
		require.NoError(t, <-waiter.over)
		require.Equal(t, int64(2), s.store.runs.Load()-before)
	})
}

// The subscription lasts as long as a caller waits.
func TestNobodyListensForNobody(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		const channel = "{key}:limit:released"
		l := concurrency(t, s.shared("key"), core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1})
		for range 2 {
			held := takes(t, l, 1)
			waiter := ask(t.Context(), l, 1)
			time.Sleep(10 * time.Millisecond)
			require.Equal(t, 1, s.redis.PubSubNumSub(channel)[channel])
			held.Release()
			require.NoError(t, <-waiter.over)
			waiter.lease.Release()
			synctest.Wait()
			require.Zero(t, s.redis.PubSubNumSub(channel)[channel])
		}
	})
}

// A take that is refused only because one ahead of it in its call would wait is asked for again if that one's caller has left.
func TestATakeBehindOneWhoseCallerLeaves(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), perSecond)
		takes(t, l, 2)
		s.store.answer(slowly)
		start := time.Now()
		go l.Available()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		ahead := ask(ctx, l, 5)
		behind := make(chan core.Lease, 1)
		go func() { behind <- l.TryAcquire(1) }()
		time.Sleep(1500 * time.Microsecond) // both are in the second call
		cancel()
		require.Equal(t, context.Canceled, <-ahead.over)
		require.NoError(t, (<-behind).Err())
		require.Equal(t, 3*time.Millisecond, time.Since(start))
	})
}

// More waiters than one call asks for are served by the calls after it, at once.
func TestMoreWaitersThanACallAsksFor(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		const permits = 100
		l := concurrency(t, s.shared("key"), core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: permits})
		held := takes(t, l, permits)
		var all []*asking
		for range permits {
			all = append(all, ask(t.Context(), l, 1))
		}
		start := time.Now()
		held.Release()
		for _, a := range all {
			require.NoError(t, <-a.over)
		}
		require.Zero(t, time.Since(start))
		for _, a := range all {
			a.lease.Release()
		}
	})
}
