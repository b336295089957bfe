package redislimit_test

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// A call may fail after its decision has timed out. The next decision that times out reports that error, too.
func TestAStoreThatFailsLateSaysWhy(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), perSecond)
		s.store.answer(func(context.Context, func() ([]int64, error)) ([]int64, error) {
			time.Sleep(60 * time.Millisecond)
			return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
		})
		require.EqualError(t, l.TryAcquire(1).Err(), "redislimit: the store is unreachable: no answer within 50ms")
		time.Sleep(time.Second)
		err := l.TryAcquire(1).Err()
		require.EqualError(t, err,
			"redislimit: the store is unreachable: no answer within 50ms; an earlier call: connect: connection refused")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		time.Sleep(time.Second)

		s.store.answer(nil)
		takes(t, l, 1)
		s.store.answer(hangs)
		require.EqualError(t, l.TryAcquire(1).Err(), "redislimit: the store is unreachable: no answer within 50ms", "it has replied since")
	})
}

// While calls take long, those who come meanwhile share the calls after them, which are sent an eighth of Timeout apart. Each decision
// ends with its own Timeout.
func TestCallsThatTakeLong(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), perSecond)
		s.store.answer(deafMute)
		var wg sync.WaitGroup
		for range 2 {
			for range 3 {
				wg.Go(func() {
					start := time.Now()
					assert.EqualError(t, l.TryAcquire(1).Err(), "redislimit: the store is unreachable: no answer within 50ms")
					assert.Equal(t, 50*time.Millisecond, time.Since(start))
				})
				wg.Go(func() { l.Available() })
			}
			time.Sleep(10 * time.Millisecond)
		}
		wg.Wait()
		require.Equal(t, int64(3), s.store.runs.Load(), "of the first request, of the others, and of those that came later")
		time.Sleep(time.Minute)
	})
}

// A request whose Timeout is over, or whose caller has given up, before it could be sent is not sent. It ends in time nevertheless.
func TestARequestThatIsTooLateIsNotSent(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), core.PerSecond(100_000, 100_000))
		s.store.answer(func(_ context.Context, next func() ([]int64, error)) ([]int64, error) {
			time.Sleep(200 * time.Millisecond)
			return next()
		})
		start := time.Now()
		var all sync.WaitGroup
		const callers, calls = 20_000, 8 // an eighth of Timeout apart
		for range callers {
			all.Go(func() {
				assert.ErrorIs(t, l.TryAcquire(1).Err(), redislimit.ErrTimeout)
				assert.Equal(t, 50*time.Millisecond, time.Since(start))
			})
		}
		all.Wait()
		time.Sleep(time.Second)
		require.LessOrEqual(t, s.store.runs.Load(), int64(calls+1))
		s.store.answer(nil)
		time.Sleep(10 * time.Second)
		takes(t, l, 100_000)
	})
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
		s.store.answer(lagging(20 * time.Millisecond))
		go l.TryAcquire(1)
		synctest.Wait()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
		defer cancel()
		_, err := l.Acquire(ctx, 1)
		require.Equal(t, context.DeadlineExceeded, err)
		require.Equal(t, 3*time.Millisecond, time.Since(start))
		time.Sleep(time.Second)
		require.Equal(t, int64(1), s.store.runs.Load())
		require.Equal(t, 9, l.Available())
	})
}

// A call continues after its decision has timed out, because a connection may take longer. The permits that it takes count as taken.
// It ends after 10 s, and at Close.
func TestACallOutlastsItsDecision(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), perSecond)
		s.store.answer(func(ctx context.Context, next func() ([]int64, error)) ([]int64, error) {
			time.Sleep(9 * time.Second)
			if ctx.Err() != nil {
				t.Error(ctx.Err())
			}
			return next()
		})
		require.ErrorIs(t, l.TryAcquire(1).Err(), redislimit.ErrStore)
		s.store.answer(nil)
		require.Equal(t, 5, l.Available())
		time.Sleep(9 * time.Second)
		require.Equal(t, 4, l.Available())

		var ended atomic.Int64
		start := time.Now()
		s.store.answer(func(ctx context.Context, next func() ([]int64, error)) ([]int64, error) {
			got, err := hangs(ctx, next)
			ended.Store(int64(time.Since(start)))
			return got, err
		})
		require.ErrorIs(t, l.TryAcquire(1).Err(), redislimit.ErrStore)
		time.Sleep(time.Minute)
		require.Equal(t, 10050*time.Millisecond, time.Duration(ended.Load()))

		start = time.Now()
		require.ErrorIs(t, l.TryAcquire(1).Err(), redislimit.ErrStore)
		require.NoError(t, l.Close())
		synctest.Wait()
		require.Equal(t, 50*time.Millisecond, time.Duration(ended.Load()))
	})
}

// After a pause the server executes requests whose callers have timed out, even if they have disconnected. Their leases are released
// soon, even if the release was sent before.
func TestAPauseLeavesNoPermitsBehind(t *testing.T) {
	for _, pause := range []time.Duration{60 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond} {
		bubble(t, func(t *testing.T, s *server) {
			o := s.shared("key")
			a := concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 3, QueueLimit: 3})
			o.Store = s.plain
			b := concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 3})
			s.store.answer(func(ctx context.Context, next func() ([]int64, error)) ([]int64, error) {
				time.AfterFunc(pause, func() { _, _ = next() })
				return hangs(ctx, nil)
			})
			for range 2 {
				go a.TryAcquire(1)
			}
			require.ErrorIs(t, a.TryAcquire(1).Err(), redislimit.ErrStore)
			s.store.answer(nil)
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, 3, b.Available(), "%v", pause)
			takes(t, a, 3).Release()
		})
	}
}

// A lease that may have been granted, because the reply was lost, is released once the store is back. Until then the calls back
// off, and while the breaker is open there are none. When the store has been back, the backoff starts again.
func TestReleasesOfLostRepliesBackOff(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := concurrency(t, s.shared("key"), core.ConcurrencyLimiterOptions{PermitLimit: 3})
		for range 2 {
			s.store.answer(func(ctx context.Context, next func() ([]int64, error)) ([]int64, error) {
				s.store.answer(gone)
				return lost(ctx, next)
			})
			require.ErrorIs(t, l.TryAcquire(2).Err(), redislimit.ErrStore)
			var calls []time.Duration
			start, runs := time.Now(), s.store.runs.Load()
			for time.Since(start) < time.Minute {
				time.Sleep(time.Millisecond)
				if n := s.store.runs.Load(); n != runs {
					calls, runs = append(calls, time.Since(start).Truncate(10*time.Millisecond)), n
				}
			}
			var want []time.Duration
			for at, pause := time.Duration(0), 100*time.Millisecond; at+pause < time.Minute; pause = min(2*pause, 5*time.Second) {
				at += pause
				want = append(want, at)
			}
			require.Equal(t, want, calls)
			s.store.answer(nil)
			time.Sleep(5 * time.Second)
			require.Equal(t, 3, l.Available())
		}
	})
}

// A release is sent again until its lease has expired, and not again if the server does not know the lease. A lease that may never
// have been granted is released a few times.
func TestReleasesAreGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o := s.shared("key")
		o.TTL = time.Second
		l := concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 4})
		forgotten, held := takes(t, l, 1), takes(t, l, 1)
		s.redis.FlushAll()
		calls := func(d time.Duration) int64 {
			before := s.store.runs.Load()
			time.Sleep(d)
			return s.store.runs.Load() - before
		}
		runs := s.store.runs.Load()
		forgotten.Release()
		require.Equal(t, int64(0), calls(150*time.Millisecond))
		require.Equal(t, runs+1, s.store.runs.Load())

		s.store.answer(gone)
		held.Release()
		time.Sleep(time.Second)
		require.Zero(t, calls(time.Hour))

		require.ErrorIs(t, l.TryAcquire(1).Err(), redislimit.ErrStore)
		s.store.answer(nil)
		require.LessOrEqual(t, calls(time.Minute), int64(5))
		require.Zero(t, calls(time.Hour))
	})
}

// Renewals stay behind the breaker: while it is open, they are its probes. A lease lives on if the store is back in time.
func TestRenewalsStayBehindTheBreaker(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o := s.shared("key")
		o.TTL = 12 * time.Second
		l := concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 20})
		var ctx context.Context
		for range 10 {
			ctx = redislimit.Context(t.Context(), takes(t, l, 1)) //nolint:fatcontext // it is not nested
		}
		s.store.answer(gone)
		for range 3 {
			l.Available()
		}
		before := s.store.runs.Load()
		time.Sleep(7 * time.Second)
		require.LessOrEqual(t, s.store.runs.Load()-before, int64(3))
		s.store.answer(nil)
		time.Sleep(time.Minute)
		require.NoError(t, ctx.Err())
		require.Equal(t, 10, l.Available())
	})
}

// Two limiters on one key have different segments, as during a rollout. Permits come back as the limiter says that took them.
func TestTwoGridsOnOneKey(t *testing.T) {
	for name, grids := range map[string][2]core.SlidingWindowOptions{
		"segments": {{Window: time.Second, SegmentsPerWindow: 4}, {Window: time.Second, SegmentsPerWindow: 5}},
		"anchor":   {{Window: time.Second, SegmentsPerWindow: 4}, {Window: time.Second, SegmentsPerWindow: 4, Anchor: time.Unix(0, 125_000_000)}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				var all [2]everything
				for i, o := range grids {
					o.PermitLimit = 10
					all[i] = sliding(t, s.shared("key"), o)
				}
				var at []time.Time // of the grants
				start := time.Now()
				for i := 0; time.Since(start) < 20*time.Second; i++ {
					if all[i%2].TryAcquire(1).Acquired() {
						at = append(at, time.Now())
						// In any time as short as a window less its longest segment, never more than the limit.
						if n := len(at); n > 10 {
							require.GreaterOrEqual(t, at[n-1].Sub(at[n-11]), 750*time.Millisecond, "at %v", time.Since(start))
						}
					}
					time.Sleep(13 * time.Millisecond)
				}
				require.Greater(t, len(at), 180, "they come back")
				require.LessOrEqual(t, len(at), 10*27)
			})
		})
	}
}

// The server's clock steps forward, and another process gets the permits. The holder notices at the next renewal.
func TestTheServersClockStepsForward(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		now := time.Now()
		s.redis.SetTime(now)
		a := concurrency(t, s.shared("key"), core.ConcurrencyLimiterOptions{PermitLimit: 2})
		b := concurrency(t, s.shared("key"), core.ConcurrencyLimiterOptions{PermitLimit: 2})
		ctx := redislimit.Context(t.Context(), takes(t, a, 2))
		s.redis.SetTime(now.Add(31 * time.Second))
		theirs := takes(t, b, 2)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, redislimit.ErrLeaseLost, context.Cause(ctx))
		theirs.Release()
	})
}
