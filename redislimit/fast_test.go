package redislimit_test

import (
	"context"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// A refusal is remembered for the same number of permits or more, until its time is over or permits are returned.
func TestARefusalIsRemembered(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second})
		lease := takes(t, l, 3)
		asks := func(want int64, f func()) {
			t.Helper()
			before := s.store.runs.Load()
			f()
			require.Equal(t, want, s.store.runs.Load()-before)
		}
		retry := func(n int, want time.Duration) {
			t.Helper()
			d, _ := core.RetryAfter.From(refuses(t, l, n))
			require.Equal(t, want, d)
		}
		asks(1, func() { retry(3, time.Second) })
		asks(0, func() {
			retry(3, time.Second)
			retry(4, 2*time.Second)
			retry(5, 3*time.Second)
		})
		asks(1, func() { takes(t, l, 1) })
		time.Sleep(time.Second)
		asks(1, func() { retry(3, time.Second) })
		asks(0, func() { retry(3, time.Second) })
		asks(1, func() { lease.Refund() })
		asks(1, func() { takes(t, l, 3) })
	})
}

// While a refund is in flight, a request asks the store. A rejection that is in flight when permits are returned is not remembered.
func TestRejectionsDuringARefund(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := fixed(t, s.shared("key"), core.FixedWindowOptions{PermitLimit: 1, Window: time.Hour})
		lease := takes(t, l, 1)
		refuses(t, l, 1)
		s.store.answer(delayed(time.Millisecond))
		go lease.Refund()
		synctest.Wait()
		takes(t, l, 1)
		time.Sleep(time.Hour)

		lease = takes(t, l, 1)
		rejected := ask(t.Context(), l, 1)
		lease.Refund()
		require.ErrorIs(t, <-rejected.over, core.ErrRejected)
		takes(t, l, 1)
	})
}

// If Close finds a call in flight, the permits that it prefetches are returned before Close returns.
func TestCloseReturnsWhatIsBeingPrefetched(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o := s.shared("key")
		o.Prefetch = 20
		a := bucket(t, o, core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
		o.Store = s.plain
		b := bucket(t, o, core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
		s.store.answer(delayed(10 * time.Millisecond))
		go a.TryAcquire(1)
		time.Sleep(time.Millisecond)
		require.NoError(t, a.Close())
		runs := s.store.runs.Load()
		require.Equal(t, 99, b.Available())
		time.Sleep(time.Minute)
		require.Equal(t, runs, s.store.runs.Load(), "nothing runs afterwards")
	})
}

// A refund is exact where the bucket would not be full again for millions of years.
func TestARefundToAnImmenseBucket(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		const all = min(1<<52, math.MaxInt)
		o := core.TokenBucketOptions{TokenLimit: all, TokensPerPeriod: 2, ReplenishmentPeriod: time.Second}
		local, err := core.NewTokenBucket(o)
		require.NoError(t, err)
		// A bucket of core's does not know when the next tick is due: one may have come right after the grant.
		for l, tick := range map[everything]int{local: 2, bucket(t, s.shared("key"), o): 0} {
			lease := takes(t, l, all)
			time.Sleep(2500 * time.Millisecond)
			later := takes(t, l, 4)
			refuses(t, l, 1)
			time.Sleep(time.Second)
			lease.Refund()
			require.Equal(t, all-4-tick, l.Available(), "two ticks had brought back the later permits")
			later.Refund()
			require.Equal(t, all-tick, l.Available())
		}
	})
}

// Statistics asks at most every 100 ms, whatever the store replies and however many callers there are.
func TestStatisticsAsksRarely(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), perSecond)
		for i, r := range []reply{nil, gone, hangs} {
			s.store.answer(r)
			for range 10 {
				go l.Statistics()
			}
			synctest.Wait()
			for range 10 {
				l.Statistics()
			}
			require.Equal(t, int64(i+1), s.store.runs.Load())
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// Concurrent requests travel in one call, and are decided in order.
func TestRequestsTravelTogether(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), core.TokenBucketOptions{TokenLimit: 50, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
		s.store.answer(delayed(time.Millisecond))
		var wg sync.WaitGroup
		var granted atomic.Int64
		for range 1000 {
			wg.Go(func() { granted.Add(int64(l.TryAcquire(1).Permits())) })
		}
		wg.Wait()
		require.Equal(t, int64(50), granted.Load())
		require.LessOrEqual(t, s.store.runs.Load(), int64(2))
		require.Equal(t, uint64(50), l.Statistics().Granted)
	})
}

// Prefetched permits are spent without a call, count as taken for others, and are returned if they are not used, and at Close.
func TestPrefetch(t *testing.T) {
	for _, kind := range []string{"bucket", "fixed", "sliding"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				o := s.shared("key")
				o.Prefetch = 10
				a := ofKind(t, kind, o, 100)
				o.Prefetch = 1
				b := ofKind(t, kind, o, 100)
				for range 10 {
					takes(t, a, 1)
				}
				require.Equal(t, int64(1), s.store.runs.Load())
				takes(t, a, 1)
				require.Equal(t, int64(2), s.store.runs.Load())
				require.Equal(t, 80, b.Available(), "11 taken, 9 ahead")
				require.Equal(t, 89, a.Available())
				time.Sleep(time.Second)
				require.Equal(t, 89, b.Available(), "returned")
				require.Equal(t, 89, a.Available())
				takes(t, a, 1)
				require.Equal(t, 79, b.Available())
				require.NoError(t, a.Close())
				require.Equal(t, 88, b.Available(), "returned")

				o.Prefetch = 10
				c := ofKind(t, kind, o, 100)
				takes(t, c, 79)
				takes(t, c, 1)
				require.Equal(t, 4, b.Available(), "half of the 8 permits that were left")
				takes(t, c, 4)
				takes(t, b, 4)
				refuses(t, c, 1)
				refuses(t, b, 1)
			})
		})
	}
}

// Prefetched permits are dropped, and never spent, once the bucket could have refilled or the segment has ended. The time counts
// from before the call was sent.
func TestPrefetchedPermitsAreDropped(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o := s.shared("key")
		o.Prefetch = 50
		a := bucket(t, o, core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: time.Millisecond})
		takes(t, a, 1)
		time.Sleep(40 * time.Millisecond)
		takes(t, a, 1)
		require.Equal(t, int64(1), s.store.runs.Load())
		time.Sleep(10 * time.Millisecond) // 50 ms: as long as all 50 take to come back
		require.Equal(t, 100, a.Available())
		takes(t, a, 1)
		require.Equal(t, int64(3), s.store.runs.Load())

		s.store.answer(lagging(20 * time.Millisecond))
		o.Key = "slow"
		b := bucket(t, o, core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: time.Millisecond})
		runs := s.store.runs.Load()
		takes(t, b, 1)
		time.Sleep(31 * time.Millisecond)
		takes(t, b, 1)
		require.Equal(t, runs+2, s.store.runs.Load(), "they may have come back")
		s.store.answer(nil)

		o.Key, o.Prefetch = "window", 50
		w := fixed(t, o, core.FixedWindowOptions{PermitLimit: 100, Window: 100 * time.Millisecond})
		time.Sleep(100*time.Millisecond - time.Duration(time.Now().UnixNano()%int64(100*time.Millisecond)))
		takes(t, w, 1)
		time.Sleep(100 * time.Millisecond)
		takes(t, w, 51)
		o.Prefetch = 1
		require.Equal(t, 49, fixed(t, o, core.FixedWindowOptions{PermitLimit: 100, Window: 100 * time.Millisecond}).Available())
	})
}

// By default a limiter prefetches about as many permits as it uses in 10 ms, and never more than the rate's share of that time.
func TestPrefetchByDefault(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o := s.shared("key")
		o.Prefetch = 0
		l := bucket(t, o, core.TokenBucketOptions{TokenLimit: 10_000, TokensPerPeriod: 10, ReplenishmentPeriod: time.Millisecond})
		const takesInAll = 10_000
		for range takesInAll {
			takes(t, l, 1)
			time.Sleep(100 * time.Microsecond)
		}
		require.Less(t, s.store.runs.Load(), int64(takesInAll/50))
		slow := bucket(t, redislimit.Options{Store: s.store, Key: "slow"}, core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second})
		before := s.store.runs.Load()
		for range 50 {
			takes(t, slow, 1)
		}
		require.Equal(t, int64(50), s.store.runs.Load()-before, "a hundredth of a permit in 10 ms")
	})
}

// After a failover to a server whose clock is behind, a lost lease lives as long as it would have.
func TestALeaseWhenTheServersClockGoesBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		now := time.Now()
		s.redis.SetTime(now)
		o := s.shared("leases")
		o.TTL = time.Second
		build := func() everything { return concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 1}) }
		lost := build()
		takes(t, lost, 1)
		s.store.answer(gone)
		time.Sleep(2 * time.Second)
		s.store.answer(nil)
		s.redis.SetTime(now.Add(-time.Hour))
		refuses(t, build(), 1)
		s.redis.SetTime(now.Add(-time.Hour + time.Second))
		takes(t, build(), 1).Release()
		synctest.Wait()
	})
}

// The server's clock goes back an hour and forward, and each request comes from a process that remembers nothing: never more
// than the limit in a window, and never longer than a window without grants. A step forward replenishes.
func TestManyProcessesWhileTheServersClockSteps(t *testing.T) {
	const processes, limit, window, tick = 3, 5, 5 * time.Second, 500 * time.Millisecond
	for name, build := range map[string]func(t *testing.T, s *server) everything{
		"bucket": func(t *testing.T, s *server) everything {
			return bucket(t, s.shared("key"), core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: 1, ReplenishmentPeriod: window / limit})
		},
		"fixed": func(t *testing.T, s *server) everything {
			return fixed(t, s.shared("key"), core.FixedWindowOptions{PermitLimit: limit, Window: window})
		},
		"sliding": func(t *testing.T, s *server) everything {
			return sliding(t, s.shared("key"), core.SlidingWindowOptions{PermitLimit: limit, Window: window, SegmentsPerWindow: 5})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				clock := time.Now().Truncate(window)
				for _, step := range []time.Duration{0, -time.Hour, -time.Hour, 2 * time.Hour} {
					clock = clock.Add(step)
					granted, waited := 0, time.Duration(0)
					for passed := time.Duration(0); passed < 2*window+3*tick; passed += tick {
						s.redis.SetTime(clock)
						before := granted
						for range processes {
							lease := build(t, s).TryAcquire(1)
							granted += lease.Permits()
							if !lease.Acquired() && granted == before {
								d, _ := core.RetryAfter.From(lease)
								require.LessOrEqual(t, d, window-waited, "%v after a step of %v", passed, step)
							}
						}
						// A bucket's tokens come one by one. The rest of a window comes in one piece, and the next window, too.
						require.LessOrEqual(t, granted, limit*(2+int(passed/window)), "%v after a step of %v", passed, step)
						if waited += tick; granted > before {
							waited = 0
						}
						require.LessOrEqual(t, waited, window, "%v after a step of %v", passed, step)
						clock = clock.Add(tick)
					}
				}
			})
		})
	}
}

// A refund of a grant from before the server's clock went back takes nothing from later grants.
func TestRefundAfterTheServersClockWentBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		now := time.Now().Truncate(5 * time.Second)
		for name, l := range map[string]everything{
			"bucket":  bucket(t, s.shared("bucket"), core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second}),
			"fixed":   fixed(t, s.shared("fixed"), core.FixedWindowOptions{PermitLimit: 5, Window: 5 * time.Second}),
			"sliding": sliding(t, s.shared("sliding"), core.SlidingWindowOptions{PermitLimit: 5, Window: 5 * time.Second, SegmentsPerWindow: 5}),
		} {
			s.redis.SetTime(now)
			early := takes(t, l, 4)
			s.redis.SetTime(now.Add(-2500 * time.Millisecond))
			require.Equal(t, 1, l.Available(), name)
			s.redis.SetTime(now)
			takes(t, l, 1)
			s.redis.SetTime(now.Add(2501 * time.Millisecond)) // the permits that were taken early are back
			takes(t, l, l.Available())
			early.Refund()
			require.Zero(t, l.Available(), name)
		}
	})
}

// All keys expire, and are gone when all permits are available.
func TestKeysExpire(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o := s.shared("leases")
		o.TTL = time.Second
		takes(t, bucket(t, s.shared("bucket"), perSecond), 5)
		takes(t, fixed(t, s.shared("fixed"), core.FixedWindowOptions{PermitLimit: 5, Window: time.Second}), 5)
		takes(t, sliding(t, s.shared("sliding"), core.SlidingWindowOptions{PermitLimit: 5, Window: time.Second, SegmentsPerWindow: 2}), 5)
		takes(t, concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 1}), 1).Release()
		for _, k := range s.redis.Keys() {
			require.Positive(t, s.redis.TTL(k), k)
		}
		time.Sleep(10 * time.Second)
		for _, k := range []string{"bucket", "fixed", "sliding", "leases"} {
			require.Zero(t, s.client.Exists(t.Context(), "{"+k+"}:limit", "{"+k+"}:leases").Val(), k)
		}
	})
}

// A request to a sliding window of 1,000 segments, with permits taken in all of them, runs as many commands at the server as one of
// 10 segments, because the state has a running total.
func TestTheCostOfSegments(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		cost := func(segments int) int {
			o := core.SlidingWindowOptions{PermitLimit: 1 << 30, Window: time.Hour, SegmentsPerWindow: segments, Anchor: time.Now()}
			l := sliding(t, s.shared(strconv.Itoa(segments)), o)
			for range segments {
				takes(t, l, 1)
				time.Sleep(o.Window / time.Duration(segments))
			}
			takes(t, l, 1)
			before := s.redis.CommandCount()
			takes(t, l, 1)
			return s.redis.CommandCount() - before
		}
		require.Equal(t, cost(10), cost(1000))
	})
}

// Permits of many segments come back at once after a pause. No script removes more than 100 segments, and the decision is as core's.
func TestManySegmentsComeBackAtOnce(t *testing.T) {
	for _, idle := range []int{0, 1, 99, 100, 101, 500, 950, 998, 999, 1500} {
		bubble(t, func(t *testing.T, s *server) {
			const segments = 1000
			o := core.SlidingWindowOptions{PermitLimit: 2 * segments, Window: time.Hour, SegmentsPerWindow: segments, Anchor: time.Now()}
			local, remote := core.Must(core.NewSlidingWindow(o)), sliding(t, s.shared("key"), o)
			for i := range segments {
				takes(t, local, 1+i%2)
				takes(t, remote, 1+i%2)
				time.Sleep(o.Window / segments)
			}
			time.Sleep(time.Duration(idle) * o.Window / segments)
			members := func() int {
				all, _ := s.redis.ZMembers("{key}:segments") // none if there is no such key
				return len(all)
			}
			before, had := s.store.runs.Load(), members()
			s.store.answer(func(_ context.Context, next func() ([]int64, error)) ([]int64, error) {
				reply, err := next()
				now := members()
				if now > 0 {
					assert.LessOrEqual(t, had-now, 100)
				}
				had = now
				return reply, err
			})
			require.Equal(t, local.Available(), remote.Available())
			due := idle + 1
			if due >= segments { // all keys are dropped
				due = 1
			}
			require.Equal(t, int64(due+99)/100, s.store.runs.Load()-before)
			takes(t, local, local.Available())
			takes(t, remote, remote.Available())
			require.Equal(t, local.TryAcquire(1).Err().Error(), remote.TryAcquire(1).Err().Error())
		})
	}
}

// No script reads or removes more than 100 segments of a window: whether many permits are given back, the limit is reset while there are
// tickets, or the server's clock goes back.
func TestManySegmentsChangeAtOnce(t *testing.T) {
	const segments, each = 1000, 2
	o := core.SlidingWindowOptions{PermitLimit: each * segments, Window: time.Hour, SegmentsPerWindow: segments, QueueLimit: 10}
	for name, change := range map[string]func(t *testing.T, s *server, l *redislimit.Limiter){
		"give back": func(t *testing.T, _ *server, l *redislimit.Limiter) {
			l.GiveBack(each*segments - 801)
			require.Equal(t, each*segments-801, l.Available())
			l.GiveBack(5000)
			require.Equal(t, each*segments, l.Available())
		},
		"reset": func(t *testing.T, s *server, l *redislimit.Limiter) {
			other := sliding(t, s.shared("key"), o)
			waiter := ask(t.Context(), other, 1)
			require.NoError(t, l.TryReset())
			takes(t, l, each*segments-1) // all but the ticket
			refuses(t, l, 1)
			require.NoError(t, <-waiter.over)
			time.Sleep(time.Hour)
			require.Equal(t, each*segments, l.Available())
		},
		"clock": func(t *testing.T, s *server, l *redislimit.Limiter) {
			s.redis.SetTime(time.Now().Add(-time.Minute))
			refuses(t, l, 1)
			s.redis.SetTime(time.Now().Add(-time.Minute + o.Window/20 - o.Window/segments))
			require.Equal(t, 49*each, l.Available())
			s.redis.SetTime(time.Now().Add(-time.Minute + o.Window/2))
			require.Equal(t, 100*each, l.Available(), "all others come back at the end")
			s.redis.SetTime(time.Now().Add(-time.Minute + o.Window))
			time.Sleep(time.Minute)
			require.Equal(t, each*segments, l.Available())
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				l := sliding(t, s.shared("key"), o)
				time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
				for range segments {
					takes(t, l, each)
					time.Sleep(o.Window / segments)
				}
				takes(t, l, l.Available())
				s.store.answer(func(_ context.Context, next func() ([]int64, error)) ([]int64, error) {
					before := s.redis.CommandCount()
					reply, err := next()
					assert.Less(t, s.redis.CommandCount()-before, 250)
					return reply, err
				})
				change(t, s, l)
			})
		})
	}
}

// A script that always asks to be run again ends with its call.
func TestAScriptThatIsNeverDone(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := ofKind(t, "sliding", s.shared("key"), 5)
		s.store.answer(func(context.Context, func() ([]int64, error)) ([]int64, error) {
			time.Sleep(10 * time.Millisecond)
			return []int64{0, 1}, nil
		})
		start := time.Now()
		require.ErrorIs(t, l.TryAcquire(1).Err(), redislimit.ErrStore)
		require.Equal(t, 50*time.Millisecond, time.Since(start))
		time.Sleep(time.Minute)
		before := s.store.runs.Load()
		time.Sleep(time.Minute)
		require.Equal(t, before, s.store.runs.Load())
	})
}

// A rejection is remembered for at most a minute, because another process may reset the limit. RetryAfter is exact nevertheless, also
// if the permits come back later than all those that the store lists.
func TestARejectionIsForgottenAfterAMinute(t *testing.T) {
	for _, kind := range []string{"bucket", "fixed", "sliding"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				here, there := longest(t, kind, s.shared("key")), longest(t, kind, s.shared("key"))
				for range 30 {
					takes(t, here, 1)
					time.Sleep(time.Minute)
				}
				for range 70 {
					takes(t, here, 1)
				}
				want := map[string]time.Duration{"bucket": 24*time.Hour - 30*time.Minute, "fixed": 24 * time.Hour, "sliding": 24 * time.Hour}[kind]
				retry, _ := core.RetryAfter.From(refuses(t, here, 100))
				require.InDelta(t, want, retry, float64(31*time.Minute))
				time.Sleep(time.Second)
				again, _ := core.RetryAfter.From(refuses(t, here, 100))
				require.Equal(t, retry-time.Second, again, "from memory")
				there.(core.Resetter).Reset()
				time.Sleep(time.Minute)
				takes(t, here, 100)
			})
		})
	}
}

// longest returns a rate limiter of 100 permits, all of which are back after a day.
func longest(t *testing.T, kind string, s redislimit.Options) everything {
	t.Helper()
	switch kind {
	case "bucket":
		return bucket(t, s, core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 100, ReplenishmentPeriod: 24 * time.Hour})
	case "fixed":
		return fixed(t, s, core.FixedWindowOptions{PermitLimit: 100, Window: 24 * time.Hour})
	}
	return sliding(t, s, core.SlidingWindowOptions{PermitLimit: 100, Window: 24 * time.Hour, SegmentsPerWindow: 24 * 60})
}
