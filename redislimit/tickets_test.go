package redislimit_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// Waiters of three processes are served in the order in which they came, with one call each.
func TestWaitersOfThreeProcesses(t *testing.T) {
	for _, order := range []core.QueueOrder{core.OldestFirst, core.FairShare} {
		for _, kind := range []string{"bucket", "fixed", "sliding", "calendar"} {
			t.Run(kind+", "+order.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *server) {
					limit := map[string]core.Options{
						"bucket":   core.TokenBucketOptions{TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 100, QueueOrder: order},
						"fixed":    core.FixedWindowOptions{PermitLimit: 2, Window: 2 * time.Second, QueueLimit: 100, QueueOrder: order, Anchor: time.Now()},
						"sliding":  core.SlidingWindowOptions{PermitLimit: 2, Window: 2 * time.Second, SegmentsPerWindow: 2, QueueLimit: 100, QueueOrder: order, Anchor: time.Now()},
						"calendar": core.FixedWindowOptions{PermitLimit: 2, Calendar: core.Daily(nil), QueueLimit: 100, QueueOrder: order},
					}[kind]
					local := core.Must(core.New(limit))
					var all []*redislimit.Limiter
					for range 3 {
						o := s.shared("key")
						o.Prefetch = 1
						l := core.Must(redislimit.New(limit, o))
						t.Cleanup(func() { l.Close() })
						all = append(all, l)
					}
					var mu sync.Mutex
					var here, there []time.Duration
					start := time.Now()
					take := func(l core.Limiter, at *[]time.Duration) {
						_, err := l.Acquire(t.Context(), 1)
						mu.Lock()
						defer mu.Unlock()
						require.NoError(t, err)
						*at = append(*at, time.Since(start))
					}
					for i := range 20 {
						go take(local, &here)
						go take(all[i%3], &there)
						synctest.Wait()
					}
					require.Zero(t, all[0].Available())
					time.Sleep(20 * 24 * time.Hour)
					synctest.Wait()
					require.Len(t, there, 20)
					require.Equal(t, here, there)
					require.LessOrEqual(t, s.store.runs.Load(), int64(21))
				})
			})
		}
	}
}

// Callers of three processes take turns, one call for each grant.
func TestCallsForEachGrant(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.store.answer(lagging(time.Millisecond))
		limit := core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: 10 * time.Millisecond, QueueLimit: 100}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		grants := make([]int64, 3)
		for i := range grants {
			o := s.shared("key")
			o.Prefetch = 1
			l := bucket(t, o, limit)
			wg.Go(func() {
				for {
					if _, err := l.Acquire(ctx, 1); err != nil {
						return
					}
					grants[i]++
				}
			})
		}
		wg.Wait()
		sum := grants[0] + grants[1] + grants[2]
		require.LessOrEqual(t, sum, int64(410))
		require.GreaterOrEqual(t, sum, int64(400))
		require.Greater(t, slices.Min(grants), int64(120))
		require.LessOrEqual(t, float64(s.store.runs.Load()), 1.05*float64(sum))
	})
}

// A waiter that gives up, in the middle, lets those behind it come sooner, and its permits are returned.
func TestAWaiterGivesItsTicketBack(t *testing.T) {
	for _, kind := range []string{"bucket", "fixed", "sliding"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				l, other := ofKind(t, kind, s.shared("key"), 5), ofKind(t, kind, s.shared("key"), 5)
				takes(t, l, 5)
				ctx, cancel := context.WithCancel(t.Context())
				gone, next := ask(ctx, l, 3), ask(t.Context(), l, 2)
				cancel()
				require.ErrorIs(t, <-gone.over, context.Canceled)
				synctest.Wait()
				left, end := context.WithCancel(t.Context())
				last := ask(left, l, 1)
				end()
				require.ErrorIs(t, <-last.over, context.Canceled)
				require.NoError(t, <-next.over)
				time.Sleep(time.Hour)
				require.Equal(t, 5, other.Available())
			})
		})
	}
}

// After a Reset, waiters get the permits that are back, and after an Apply those of the new limit.
func TestTicketsAfterResetAndApply(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		limit := core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Minute, QueueLimit: 50}
		l := bucket(t, s.shared("key"), limit)
		takes(t, l, 5)
		first, second := ask(t.Context(), l, 4), ask(t.Context(), l, 3)
		require.NoError(t, l.TryReset())
		require.NoError(t, <-first.over)
		synctest.Wait()
		require.Empty(t, second.over)
		limit.ReplenishmentPeriod = time.Second
		require.NoError(t, l.Apply(limit))
		before := time.Now()
		require.NoError(t, <-second.over)
		require.Equal(t, 2*time.Second, time.Since(before))
		time.Sleep(5 * time.Second)
		require.Equal(t, 5, l.Available())
	})
}

// If another process returns its tickets, requests that come later fit in before those that are left, which are moved up when their
// process asks for the next one. The bucket does not grant more for it.
func TestTicketsBehindReturnedOnes(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		limit := core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 50}
		a, b, c := bucket(t, s.shared("key"), limit), bucket(t, s.shared("key"), limit), bucket(t, s.shared("key"), limit)
		takes(t, a, 5)
		ctx, cancel := context.WithCancel(t.Context())
		var gone []*asking
		for range 4 {
			gone = append(gone, ask(ctx, b, 5))
		}
		late := ask(t.Context(), a, 5) // in 25 s
		cancel()
		for _, g := range gone {
			require.ErrorIs(t, <-g.over, context.Canceled)
		}
		synctest.Wait()
		require.Zero(t, c.Available(), "while tickets are out")
		start := time.Now()
		require.NoError(t, <-ask(t.Context(), c, 3).over)
		require.Equal(t, 3*time.Second, time.Since(start))
		time.Sleep(7 * time.Second) // the bucket has no room for more
		refuses(t, c, 1)
		require.NoError(t, <-ask(t.Context(), c, 4).over)
		require.Equal(t, 10*time.Second, time.Since(start))
		next := ask(t.Context(), a, 1)
		require.NoError(t, <-late.over)
		require.Equal(t, 15*time.Second, time.Since(start))
		require.NoError(t, <-next.over)
		require.Equal(t, 16*time.Second, time.Since(start))
	})
}

// If another process returns its tickets of a window, requests that come later fit in before those that are left, and no window has more
// than the limit.
func TestGapsInWindows(t *testing.T) {
	const limit = 5
	day := 24 * time.Hour
	for name, o := range map[string]core.Options{
		"fixed":    core.FixedWindowOptions{PermitLimit: limit, Window: day, QueueLimit: 50},
		"sliding":  core.SlidingWindowOptions{PermitLimit: limit, Window: day, SegmentsPerWindow: 24, QueueLimit: 50},
		"calendar": core.FixedWindowOptions{PermitLimit: limit, Calendar: core.Daily(nil), QueueLimit: 50},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				of := func() *redislimit.Limiter {
					l := core.Must(redislimit.New(o, s.shared("key")))
					t.Cleanup(func() { l.Close() })
					return l
				}
				start := time.Now().UTC().Truncate(day)
				after := func(days int, a *asking) {
					t.Helper()
					require.NoError(t, <-a.over)
					require.Equal(t, time.Duration(days)*day, time.Since(start))
				}
				a, b, c, d := of(), of(), of(), of()
				takes(t, a, limit)
				ctx, cancel := context.WithCancel(t.Context())
				var gone []*asking
				for range 4 {
					gone = append(gone, ask(ctx, b, limit))
				}
				late := ask(t.Context(), a, limit)
				cancel()
				for _, g := range gone {
					require.ErrorIs(t, <-g.over, context.Canceled)
				}
				synctest.Wait()
				before := s.store.runs.Load()
				first, second, third := ask(t.Context(), c, 3), ask(t.Context(), c, 4), ask(t.Context(), c, 2)
				other, full := ask(t.Context(), d, 2), ask(t.Context(), d, 5)
				last := ask(t.Context(), d, 1)
				after(1, first)
				after(1, other)
				after(2, second)
				after(3, third)
				after(4, full)
				after(5, late)
				after(6, last)
				require.LessOrEqual(t, s.store.runs.Load()-before, int64(8))
				refuses(t, c, limit)
				time.Sleep(2 * day)
				require.Equal(t, limit, c.Available())
				require.Empty(t, s.redis.Keys())
			})
		})
	}
}

// A request fits in before a ticket only if no later ticket counts meanwhile, also if there are more of these than a script reads.
func TestGapsBeforeManyTickets(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		const limit = 60
		o := core.SlidingWindowOptions{PermitLimit: limit, Window: 1000 * time.Second, SegmentsPerWindow: 1000, QueueLimit: limit}
		a, b, c := sliding(t, s.shared("key"), o), sliding(t, s.shared("key"), o), sliding(t, s.shared("key"), o)
		start := time.Now()
		for range limit {
			takes(t, a, 1)
			time.Sleep(time.Second)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for i := range limit { // they are due from 1000 s to 1059 s
			if i < 20 {
				ask(t.Context(), b, 1)
			} else {
				ask(ctx, b, 1)
			}
		}
		for range limit { // they are due from 2000 s to 2059 s
			ask(t.Context(), a, 1)
		}
		cancel()
		synctest.Wait()
		require.NoError(t, <-ask(t.Context(), c, 40).over)
		require.Equal(t, 3039*time.Second, time.Since(start))
	})
}

// If the server drops a bucket's tickets alone, they are served all the same, and the bucket grants no more for it. If it drops the
// bucket, the limit starts again.
func TestLostTickets(t *testing.T) {
	for _, key := range []string{"{key}:tickets", "{key}:limit"} {
		t.Run(key, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				limit := core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 50}
				a, b := bucket(t, s.shared("key"), limit), bucket(t, s.shared("key"), limit)
				takes(t, a, 5)
				start := time.Now()
				waiter := ask(t.Context(), a, 5)
				require.True(t, s.redis.Del(key))
				if key == "{key}:limit" {
					takes(t, b, 5)
					require.NoError(t, <-waiter.over)
					require.Equal(t, 5*time.Second, time.Since(start))
				} else {
					require.NoError(t, <-ask(t.Context(), b, 1).over)
					require.Equal(t, 6*time.Second, time.Since(start))
					require.NoError(t, <-waiter.over)
				}
				time.Sleep(20 * time.Second)
				require.Equal(t, 5, b.Available())
				require.Empty(t, s.redis.Keys())
			})
		})
	}
}

// A waiter whose ticket would come after its caller's deadline is rejected, and gives the ticket back.
func TestATicketAfterTheDeadline(t *testing.T) {
	for _, kind := range []string{"bucket", "fixed", "sliding"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				l, other := ofKind(t, kind, s.shared("key"), 5), ofKind(t, kind, s.shared("key"), 5)
				takes(t, other, 5)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				_, err := l.Acquire(ctx, 3)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, core.ErrRejected)
				synctest.Wait()
				require.Zero(t, l.Statistics().Queued)
				time.Sleep(time.Minute)
				require.Equal(t, 5, other.Available())
			})
		})
	}
}

// While a waiter is promised permits, none are available, to its own process or another.
func TestAvailableWhileTicketsAreOut(t *testing.T) {
	for _, kind := range []string{"bucket", "fixed", "sliding"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				l, other := ofKind(t, kind, s.shared("key"), 5), ofKind(t, kind, s.shared("key"), 5)
				takes(t, other, 2)
				ctx, cancel := context.WithCancel(t.Context())
				waiter := ask(ctx, l, 5)
				for _, one := range []everything{l, other} {
					require.Zero(t, one.Available())
					require.Zero(t, one.Statistics().Available)
					refuses(t, one, 1)
				}
				cancel()
				require.ErrorIs(t, <-waiter.over, context.Canceled)
				synctest.Wait()
				require.Equal(t, 3, l.Available())
				takes(t, ofKind(t, kind, s.shared("key"), 5), 3)
			})
		})
	}
}

// A reservation stands behind the callers that wait in its process, and goes before those that come later, in any process.
func TestAReservationAmongWaiters(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		limit := core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 50}
		a, b := bucket(t, s.shared("key"), limit), bucket(t, s.shared("key"), limit)
		takes(t, a, 5)
		start := time.Now()
		first := ask(t.Context(), a, 2)
		reserved := a.Reserve(3)
		require.Equal(t, 5*time.Second, delay(t, reserved))
		last := ask(t.Context(), b, 1)
		require.NoError(t, <-first.over)
		require.Equal(t, 2*time.Second, time.Since(start))
		require.NoError(t, <-last.over)
		require.Equal(t, 6*time.Second, time.Since(start))
	})
}
