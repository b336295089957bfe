package redislimit_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// TryReset returns an error if the store has not made the reset, also while the breaker is open.
func TestTryReset(t *testing.T) {
	for _, kind := range []string{"bucket", "fixed", "sliding"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				a, b := ofKind(t, kind, s.shared("key"), 10), ofKind(t, kind, s.shared("key"), 10)
				reset := a.(interface{ TryReset() error }).TryReset
				takes(t, b, 10)
				require.NoError(t, reset())
				require.Equal(t, 10, b.Available())
				takes(t, b, 6)
				s.store.answer(hangs)
				for range 5 { // the last ones do not reach the store
					require.ErrorIs(t, reset(), redislimit.ErrStore)
				}
				s.store.answer(nil)
				time.Sleep(5 * time.Second)
				require.Equal(t, 4, b.Available())
				require.NoError(t, a.Close())
				require.NoError(t, reset())
				require.Equal(t, 10, b.Available())
			})
		})
	}
}

// A settlement is one call, and affects all processes: the difference of a grant that cost less, the debt of one that cost more, and a
// Reset.
func TestSettleIsForAllProcesses(t *testing.T) {
	for _, kind := range []string{"bucket", "fixed", "sliding"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				a, b := ofKind(t, kind, s.shared("key"), 10), ofKind(t, kind, s.shared("key"), 10)
				lease := takes(t, a, 6)
				before := s.store.runs.Load()
				lease = lease.Settle(2)
				require.Equal(t, int64(1), s.store.runs.Load()-before)
				require.Equal(t, 8, b.Available())
				lease = lease.Settle(13)
				require.Equal(t, 13, lease.Permits())
				require.Zero(t, b.Available())
				retry, _ := core.RetryAfter.From(refuses(t, b, 1))
				require.LessOrEqual(t, retry, 2*time.Minute)
				lease.Refund()
				require.Equal(t, 10, b.Available())

				lease = takes(t, a, 1).Settle(1000)
				b.(core.Resetter).Reset()
				require.Equal(t, 10, a.Available())
				takes(t, b, 4)
				lease.Refund()
				require.Equal(t, 6, b.Available(), "a lease from before a Reset returns nothing")
			})
		})
	}
	t.Run("concurrency", func(t *testing.T) {
		bubble(t, func(t *testing.T, s *server) {
			o := core.ConcurrencyLimiterOptions{PermitLimit: 10, QueueLimit: 10}
			a, b := concurrency(t, s.shared("key"), o), concurrency(t, s.shared("key"), o)
			lease := takes(t, a, 6)
			token, _ := redislimit.FencingToken.From(lease)
			settled := lease.Settle(13)
			require.Zero(t, b.Available())
			again, _ := redislimit.FencingToken.From(settled)
			require.Equal(t, token, again)
			ctx := redislimit.Context(t.Context(), settled)
			lease.Release()
			require.NoError(t, ctx.Err(), "the first lease is spent")
			waiting := ask(t.Context(), b, 9)
			settled = settled.Settle(1)
			require.NoError(t, <-waiting.over, "served by the permits that another process returned")
			time.Sleep(2 * time.Minute)
			require.Zero(t, b.Available(), "the settled lease is renewed")
			settled.Release()
			require.Equal(t, context.Canceled, context.Cause(ctx))
			waiting.lease.Release()

			free := a.TryAcquire(0)
			free = free.Settle(12)
			require.Zero(t, b.Available())
			free.Release()
			require.Equal(t, 10, b.Available())
		})
	})
}

// While the store does not reply, nothing is returned or taken, but the lease has its new cost. A concurrency lease holds that many
// permits from its next renewal on.
func TestSettleWhileTheStoreIsUnreachable(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		for _, r := range []reply{gone, hangs} {
			for _, kind := range []string{"bucket", "fixed", "sliding"} {
				s.redis.FlushAll()
				l := ofKind(t, kind, s.shared("key"), 10)
				cheap, dear := takes(t, l, 3), takes(t, l, 3)
				start := time.Now()
				s.store.answer(r)
				cheap, dear = cheap.Settle(1), dear.Settle(5)
				require.LessOrEqual(t, time.Since(start), 100*time.Millisecond)
				s.store.answer(nil)
				require.Equal(t, []int{1, 5}, []int{cheap.Permits(), dear.Permits()})
				require.Equal(t, 4, l.Available(), kind)
			}
			o := s.shared("leases")
			o.TTL = time.Second
			c := concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 10})
			lease := takes(t, c, 6)
			s.store.answer(r)
			lease = lease.Settle(2)
			s.store.answer(nil)
			require.Equal(t, 4, c.Available())
			time.Sleep(time.Second)
			require.Equal(t, 8, c.Available())
			lease.Release()
			require.Equal(t, 10, c.Available())
		}
	})
}

// A lease of FailOpen holds nothing, so a lower cost returns nothing. A higher cost is charged once the store is back.
func TestSettleOfWhatHoldsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o := s.shared("key")
		o.Unavailable = redislimit.FailOpen
		l := bucket(t, o, perSecond)
		s.store.answer(gone)
		cheap, dear := takes(t, l, 3), takes(t, l, 1)
		s.store.answer(nil)
		cheap = cheap.Settle(1)
		require.Equal(t, 1, cheap.Permits())
		require.Equal(t, 5, l.Available())
		dear = dear.Settle(3)
		require.Equal(t, 3, l.Available())
		takes(t, l, 2)
		dear = dear.Settle(1)
		require.Equal(t, 3, l.Available())
		dear.Refund()
		require.Equal(t, 3, l.Available(), "the charged permits are returned already")
	})
}

// A concurrency lease can be settled from any number of permits to any other, and again, including zero.
func TestSettleToAndFromZero(t *testing.T) {
	const limit = 100
	for taken := range 3 {
		for first := range 4 {
			for second := range 4 {
				bubble(t, func(t *testing.T, s *server) {
					l := concurrency(t, s.shared("key"), core.ConcurrencyLimiterOptions{PermitLimit: limit})
					lease := takes(t, l, taken)
					for _, n := range []int{first, second} {
						lease = lease.Settle(n)
						require.Equal(t, n, lease.Permits())
						synctest.Wait()
						require.Equal(t, limit-n, l.Available(), "from %d by %d to %d", taken, first, n)
					}
					lease.Release()
					synctest.Wait()
					require.Equal(t, limit, l.Available())
				})
			}
		}
	}
}

// A lease that Local granted is settled there.
func TestSettleInLocal(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		local, err := core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 9, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
		require.NoError(t, err)
		o := s.shared("key")
		o.Unavailable, o.Local = redislimit.UseLocal, local
		l := bucket(t, o, perSecond)
		s.store.answer(gone)
		lease := takes(t, l, 3).Settle(5)
		require.Equal(t, 4, local.Available())
		lease.Refund()
		require.Equal(t, 9, local.Available())
	})
}

// ledger is the model: it replays all grants with their final costs from the start.
type ledger struct {
	all []*entry
}

// entry is a grant with its settlements.
type entry struct {
	lease   core.Lease
	limiter everything
	parts   []part
}

type part struct {
	at      time.Duration
	permits int
}

// settle changes the cost of the entry. Permits that were taken last are returned first, because they are certainly missing.
func (e *entry) settle(at time.Duration, n int) {
	for by := e.lease.Permits() - n; by > 0; {
		last := &e.parts[len(e.parts)-1]
		less := min(by, last.permits)
		last.permits -= less
		if by -= less; last.permits == 0 {
			e.parts = e.parts[:len(e.parts)-1]
		}
	}
	if by := n - e.lease.Permits(); by > 0 {
		e.parts = append(e.parts, part{at, by})
	}
	e.lease = e.lease.Settle(n)
}

// parts returns all that was taken, in order of time.
func (l *ledger) parts() (all []part) {
	for _, e := range l.all {
		all = append(all, e.parts...)
	}
	slices.SortStableFunc(all, func(a, b part) int { return cmp.Compare(a.at, b.at) })
	return all
}

const ledgerLimit = 10

// bucket plays a bucket that gets 2 tokens a second.
func (l *ledger) bucket(now time.Duration) (available int) {
	lack, tick := 0, time.Duration(0)
	advance := func(at time.Duration) {
		for lack > 0 && tick+time.Second <= at {
			lack, tick = max(lack-2, 0), tick+time.Second
		}
	}
	for _, p := range l.parts() {
		advance(p.at)
		if lack == 0 {
			tick = p.at
		}
		lack += p.permits
	}
	advance(now)
	return max(ledgerLimit-lack, 0)
}

// sliding plays a window of 4 segments of a second.
func (l *ledger) sliding(now time.Duration) (available int) {
	taken := 0
	for _, p := range l.parts() {
		if now < p.at.Truncate(time.Second)+4*time.Second {
			taken += p.permits
		}
	}
	return max(ledgerLimit-taken, 0)
}

// Whenever two processes settle, never more is available than in the model.
func TestLateSettlementsReturnWhatIsCertain(t *testing.T) {
	for kind, build := range map[string]func(t *testing.T, o redislimit.Options) everything{
		"bucket": func(t *testing.T, o redislimit.Options) everything {
			t.Helper()
			return bucket(t, o, core.TokenBucketOptions{TokenLimit: ledgerLimit, TokensPerPeriod: 2, ReplenishmentPeriod: time.Second})
		},
		"sliding": func(t *testing.T, o redislimit.Options) everything {
			t.Helper()
			return sliding(t, o, core.SlidingWindowOptions{PermitLimit: ledgerLimit, Window: 4 * time.Second, SegmentsPerWindow: 4, Anchor: time.Now()})
		},
	} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("%s/%d", kind, seed), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *server) {
					random, book, start := rand.New(rand.NewPCG(seed, 2)), ledger{}, time.Now()
					limiters := []everything{build(t, s.shared("key")), build(t, s.shared("key"))}
					exactly := 0
					for range 200 {
						now := time.Since(start)
						if random.IntN(2) == 0 {
							l := limiters[random.IntN(2)]
							if lease := l.TryAcquire(1 + random.IntN(6)); lease.Acquired() {
								book.all = append(book.all, &entry{lease, l, []part{{now, lease.Permits()}}})
							}
						} else if n := len(book.all); n > 0 {
							e := book.all[n-1-random.IntN(min(n, 5))]
							e.settle(now, random.IntN(7))
						}
						// A bucket that would have been full in between would have its ticks up to a period later.
						exact, ticks := book.bucket(now), 2
						if kind == "sliding" {
							exact, ticks = book.sliding(now), 0
						}
						available := limiters[0].Available()
						require.LessOrEqual(t, available, exact+ticks)
						if available == exact {
							exactly++
						}
						time.Sleep(time.Duration(random.IntN(8)*random.IntN(100)) * time.Millisecond)
					}
					require.Greater(t, exactly, 20, "a recent grant is returned exactly")
				})
			})
		}
	}
}

// A refund is sent once. If its reply is lost, it counts as done.
func TestALostRefundCountsAsDone(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second})
		lease := takes(t, l, 6)
		takes(t, l, 4)
		s.store.answer(lost)
		runs := s.store.runs.Load()
		lease = lease.Settle(4)
		require.Equal(t, 4, lease.Permits())
		s.store.answer(nil)
		time.Sleep(3 * time.Second)
		require.Equal(t, runs+1, s.store.runs.Load())
		takes(t, l, 5)
		lease.Refund()
		require.Equal(t, 1, l.Available(), "of 4 permits 3 would be back without the refund")
	})
}

// The example of lua/README.md.
func TestTheExampleOfTheScripts(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second})
		start := time.Now()
		at := func(d time.Duration) { time.Sleep(d - time.Since(start)) }
		missing := func(n int) {
			t.Helper()
			require.Equal(t, 10-n, l.Available())
		}
		a := takes(t, l, 6)
		missing(6)
		at(1500 * time.Millisecond)
		b := takes(t, l, 4)
		missing(9)
		at(3200 * time.Millisecond)
		a.Refund()
		missing(4)
		at(4 * time.Second)
		takes(t, l, 5)
		missing(8)
		at(4500 * time.Millisecond)
		b.Refund()
		missing(5)
	})
}

// Refunds of permits that were prefetched return no more than refunds of permits that were not, and no more than core's.
func TestRefundsOfPrefetchedPermits(t *testing.T) {
	for _, prefetch := range []int{1, 11} {
		bubble(t, func(t *testing.T, s *server) {
			o := s.shared("key")
			o.Prefetch = prefetch
			limit := core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second}
			here, there := bucket(t, o, limit), bucket(t, s.shared("key"), limit)
			local := core.Must(core.NewTokenBucket(limit))
			var leases, locals []core.Lease
			for range 11 {
				leases, locals = append(leases, takes(t, here, 1)), append(locals, takes(t, local, 1))
			}
			time.Sleep(5500 * time.Millisecond)
			takes(t, there, 50)
			takes(t, local, 50)
			for i := range leases {
				leases[i].Refund()
				locals[i].Refund()
			}
			require.Equal(t, 50, local.Available())
			require.Equal(t, local.Available(), there.Available(), prefetch)
		})
	}
}
