package redislimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// asking is an Acquire in flight.
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

// A request that waited here waits in what a Switch puts in the limiter's place, whatever its QueueLimit.
func TestAWaiterMovesWithItsSwitch(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		old := concurrency(t, s.shared("key"), core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1})
		takes(t, old, 1)
		next := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1}))
		held := next.TryAcquire(1)
		l := core.NewSwitch(old)
		moved := ask(t.Context(), l, 1)
		l.Set(next)
		synctest.Wait()
		require.Empty(t, moved.over, "it waits")
		held.Release()
		require.NoError(t, <-moved.over)
	})
}

// A waiter that was refused asks again when it can be served, or a second later, even if the queue was empty for a long time.
func TestAWaiterAsksAgainWhenItCanBeServed(t *testing.T) {
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

// Under NewestFirst, a call that refuses a waiter reports when it can be served. The store is not asked before that, however long the
// call took.
func TestAWaiterWhoseCallTakesLong(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o, limit := s.shared("key"), perSecond
		limit.QueueOrder = core.NewestFirst
		a := bucket(t, o, limit)
		o.Store = s.plain
		b := bucket(t, o, limit)
		takes(t, b, 5)
		waiter := ask(t.Context(), a, 1)
		before := s.store.runs.Load()
		s.store.answer(delayed(time.Millisecond))
		time.Sleep(time.Second + time.Millisecond/2) // the call for the waiter is on its way
		takes(t, b, 1)
		time.Sleep(time.Second / 2)
		require.Equal(t, int64(1), s.store.runs.Load()-before)
		require.NoError(t, <-waiter.over)
		require.Equal(t, int64(2), s.store.runs.Load()-before)
	})
}

// The subscription lasts as long as a caller waits.
func TestTheSubscriptionEndsWithTheQueue(t *testing.T) {
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

// An Acquire is refused because the one ahead of it in the same call is going to wait. If that one's caller gives up, the Acquire
// is served by the next call.
func TestARequestBehindOneWhoseCallerGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), perSecond)
		takes(t, l, 2)
		s.store.answer(delayed(time.Millisecond))
		start := time.Now()
		go l.Available()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		ahead := ask(ctx, l, 5)
		behind := ask(t.Context(), l, 1)
		time.Sleep(1500 * time.Microsecond) // both are in the second call
		cancel()
		require.Equal(t, context.Canceled, <-ahead.over)
		require.NoError(t, <-behind.over)
		require.Equal(t, 3*time.Millisecond, time.Since(start))
	})
}

// The waiters behind the head are served in the same call. If there are more than one call asks for, the next calls follow
// immediately.
func TestTheQueueIsServedTogether(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		const permits = 100 // a call asks for 64
		l := fixed(t, s.shared("key"), core.FixedWindowOptions{PermitLimit: permits, Window: time.Minute, Anchor: time.Now(), QueueLimit: permits})
		takes(t, l, permits)
		var all []*asking
		for range permits {
			all = append(all, ask(t.Context(), l, 1))
		}
		start, before := time.Now(), s.store.runs.Load()
		for _, a := range all {
			require.NoError(t, <-a.over)
		}
		require.Equal(t, time.Minute, time.Since(start))
		require.LessOrEqual(t, s.store.runs.Load()-before, int64(60+3), "once a second, and only the head asks")
	})
}

// A store that refuses permits, although it reports that they are there, is not asked over and over: that is a refusal, until a
// period is over.
func TestARefusalThatCannotBe(t *testing.T) {
	for kind, reply := range map[string][]int64{
		"bucket":      {0, 1e15, 0, 0, 1, 0, 0},
		"fixed":       {0, 1e15, 6e7, 1e15 + 6e7, 1, 0, 0, 0, 0, 0},
		"sliding":     {0, 1e15, 15e6, 1e15 + 6e7, 1, 0, 0, 0, 0, 0},
		"concurrency": {0, 1e15, 0, 0, 1, 0, 0},
	} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				l := ofKind(t, kind, s.shared("key"), 5)
				s.store.answer(func(context.Context, func() ([]int64, error)) ([]int64, error) {
					time.Sleep(10 * time.Microsecond)
					return reply, nil
				})
				retry, ok := core.RetryAfter.From(refuses(t, l, 1))
				require.Equal(t, kind != "concurrency", ok)
				require.Equal(t, ok, retry >= 15*time.Second)
				require.Equal(t, int64(1), s.store.runs.Load())
				waits, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, err := l.Acquire(waits, 1)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.LessOrEqual(t, s.store.runs.Load(), int64(10), "once a second")
			})
		})
	}
}

// Under NewestFirst, the call for a waiter takes a while, but the waiter has its token from the instant at which the bucket got it. So
// the next token comes a period after that.
func TestTheTickOfAWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o := core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 1, QueueOrder: core.NewestFirst}
		l := bucket(t, s.shared("key"), o)
		takes(t, l, 1)
		waiter := ask(t.Context(), l, 1)
		s.store.answer(delayed(10 * time.Millisecond))
		require.NoError(t, <-waiter.over)
		s.store.answer(nil)
		retry, _ := core.RetryAfter.From(refuses(t, l, 1))
		require.Equal(t, 990*time.Millisecond, retry)
	})
}

// A primitive waits for permits whatever the queue limit is, while the limiter's own callers are rejected.
func TestAChannelWaitsBeyondTheQueueLimit(t *testing.T) {
	for _, kind := range []string{"concurrency", "bucket"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				var limit core.Options = core.ConcurrencyLimiterOptions{PermitLimit: 1}
				if kind == "bucket" {
					limit = core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second}
				}
				l := core.Must(redislimit.New(limit, s.shared("key")))
				defer l.Close()
				c := core.Must(channel.New(channel.Options[int]{Limiter: l}))
				require.NoError(t, c.Send(t.Context(), 1))
				sent := make(chan error, 1)
				go func() { sent <- c.Send(t.Context(), 2) }()
				synctest.Wait()
				require.Empty(t, sent)
				require.Equal(t, 1, l.Statistics().Queued)
				_, err := l.Acquire(t.Context(), 1)
				require.ErrorIs(t, err, core.ErrRejected)
				if kind == "concurrency" {
					_, err = c.Receive(t.Context())
					require.NoError(t, err)
				}
				require.NoError(t, <-sent)
			})
		})
	}
}

// A quiet try is not counted if it is rejected.
func TestTryQuietly(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), core.PerSecond(1, 1))
		lease, ok := core.TryQuietly(l, 1)
		require.True(t, ok)
		require.True(t, lease.Acquired())
		_, ok = core.TryQuietly(l, 1)
		require.False(t, ok)
		require.Equal(t, uint64(1), l.Statistics().Granted)
		require.Zero(t, l.Statistics().Rejected)
	})
}
