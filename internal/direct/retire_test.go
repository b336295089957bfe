package direct_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/direct"
)

// closable is what all four limiters of core are.
type closable interface {
	core.Limiter
	core.Reporter
	core.Idler
	core.Refunder
	Close() error
}

func made[L any](l *L, err error) *L {
	if err != nil {
		panic(err)
	}
	return l
}

// fours are core's limiters, of four permits each; what is taken of a rate comes back within
// so long. The credit's level does not fit into a word, and the manual ones never give back.
func fours(back time.Duration) map[string]func() closable {
	return map[string]func() closable{
		"concurrency": func() closable {
			return made(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 4, QueueLimit: 100}))
		},
		"bucket": func() closable {
			return made(core.NewTokenBucket(core.TokenBucketOptions{
				TokenLimit: 4, TokensPerPeriod: 1, ReplenishmentPeriod: back / 4, QueueLimit: 100,
			}))
		},
		"manual": func() closable {
			return made(core.NewTokenBucket(core.TokenBucketOptions{
				TokenLimit: 4, TokensPerPeriod: 1, ReplenishmentPeriod: back / 4, ManualReplenishment: true,
			}))
		},
		"fixed": func() closable {
			return made(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 4, Window: back, QueueLimit: 100}))
		},
		"sliding": func() closable {
			return made(core.NewSlidingWindow(core.SlidingWindowOptions{
				PermitLimit: 4, Window: back, SegmentsPerWindow: 2, QueueLimit: 100,
			}))
		},
	}
}

// What is retired has been idle for so long by its own IdleFor, and grants nothing more.
func TestRetire(t *testing.T) {
	for name, limiter := range fours(time.Second) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limiter()
				time.Sleep(time.Minute)
				require.False(t, ways.Retire(l, time.Minute+1))
				lease := l.TryAcquire(3)
				require.True(t, lease.Acquired(), "it was not retired")
				require.False(t, ways.Retire(l, 0), "permits are taken")
				if name == "concurrency" {
					lease.Release()
				} else {
					l.Refund(lease)
				}
				_, idle := l.IdleFor()
				require.True(t, idle)
				require.False(t, ways.Retire(l, 1))
				time.Sleep(time.Second - 1)
				require.False(t, ways.Retire(l, time.Second))
				time.Sleep(1)
				require.True(t, ways.Retire(l, time.Second))

				refused := l.TryAcquire(1)
				require.Equal(t, core.ErrClosed, refused.Err())
				require.Equal(t, direct.Closed, ways.Turn(refused))
				refused, err := l.Acquire(t.Context(), 1)
				require.Equal(t, core.ErrClosed, err)
				require.Equal(t, direct.Closed, ways.Turn(refused))
				require.Equal(t, core.ErrClosed, l.TryAcquire(0).Err())

				lease.Release()
				l.Refund(lease)
				require.Equal(t, core.Statistics{Limit: 4, Available: 4, Granted: 1}, l.Statistics())
				require.True(t, ways.Retire(l, time.Second), "it is as idle as before")
				require.NoError(t, l.Close())
				require.True(t, ways.Retire(l, 0))
			})
		})
	}
}

// One that its owner has closed can be retired too, once nothing is held.
func TestRetireOfAClosedLimiter(t *testing.T) {
	l := limiter(t, 1, 0)
	lease := l.TryAcquire(1)
	require.NoError(t, l.Close())
	require.False(t, ways.Retire(l, 0))
	lease.Release()
	require.True(t, ways.Retire(l, 0))
}

// A limiter that somebody waits for is not idle, and serves that caller.
func TestRetireWhileSomebodyWaits(t *testing.T) {
	for name, limiter := range fours(time.Second) {
		if name == "manual" {
			continue // nobody may wait there
		}
		synctest.Test(t, func(t *testing.T) {
			l := limiter()
			held := l.TryAcquire(4)
			end := make(chan error)
			go func() {
				_, err := l.Acquire(t.Context(), 4)
				end <- err
			}()
			synctest.Wait()
			require.False(t, ways.Retire(l, 0), name)
			held.Release()
			require.NoError(t, <-end, name)
			require.False(t, ways.Retire(l, 0), name)
		})
	}
}

// Of strangers it knows nothing, and neither of what embeds one of core's.
func TestRetireOfOthers(t *testing.T) {
	l := limiter(t, 1, 0)
	chain, err := core.Chain(l)
	require.NoError(t, err)
	for name, other := range map[string]any{
		"embedding": embedding{l}, "view": core.WithReason(l, "full"), "chain": chain, "unlimited": core.Unlimited(), "nil": nil,
		"zero concurrency": new(core.ConcurrencyLimiter), "nil concurrency": (*core.ConcurrencyLimiter)(nil),
		"zero bucket": new(core.TokenBucket), "nil bucket": (*core.TokenBucket)(nil),
		"zero fixed": new(core.FixedWindow), "nil fixed": (*core.FixedWindow)(nil),
		"zero sliding": new(core.SlidingWindow), "nil sliding": (*core.SlidingWindow)(nil),
	} {
		require.False(t, ways.Retire(other, 0), name)
	}
	require.True(t, l.TryAcquire(1).Acquired())
	require.Equal(t, direct.Closed, ways.Turn(new(core.TokenBucket).TryAcquire(1)))
}

// Of a rate limiter's grants each third is Due, whatever comes between: windows and credits
// that begin, updates, cells whose generations are used up, metadata.
func TestEachThirdTurnIsDue(t *testing.T) {
	limiters := fours(time.Second)
	delete(limiters, "concurrency")
	limiters["large bucket"] = func() closable { // lends a credit
		return made(core.NewTokenBucket(core.TokenBucketOptions{
			TokenLimit: math.MaxInt, TokensPerPeriod: math.MaxInt / 1024, ReplenishmentPeriod: time.Hour,
		}))
	}
	limiters["wide bucket"] = func() closable { // has 256 generations
		return made(core.NewTokenBucket(core.TokenBucketOptions{
			TokenLimit: 1 << 20, TokensPerPeriod: 1, ReplenishmentPeriod: 15 * time.Second,
		}))
	}
	for name, limiter := range limiters {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limiter()
				r := rand.New(rand.NewPCG(1, 2))
				grants, dues := 0, 0
				for range 20_000 {
					lease := l.TryAcquire(r.IntN(3))
					if r.IntN(2) == 0 {
						lease = lease.With(core.ReasonPhrase.With("added"))
					}
					if !lease.Acquired() || lease.Permits() == 0 {
						require.Equal(t, direct.Uncounted, ways.Turn(lease))
						time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
						if m, ok := l.(core.Replenisher); ok {
							m.TryReplenish()
						}
						continue
					}
					grants++
					if turn := ways.Turn(lease); turn == direct.Due {
						dues++
					} else {
						require.Equal(t, direct.Passed, turn)
					}
					require.Equal(t, grants/direct.Turns, dues)
					switch b, ok := l.(*core.TokenBucket); {
					case r.IntN(50) == 0:
						l.Available()
						l.IdleFor()
					case ok && r.IntN(50) == 0:
						require.NoError(t, b.Update(b.Options()))
					}
				}
				require.Greater(t, grants, 1000)
			})
		})
	}
}

// The same from end to end of a cell.
func TestEachThirdTurnIsDueThroughMillions(t *testing.T) {
	for name, limiter := range map[string]closable{
		"bucket": made(core.NewTokenBucket(core.PerSecond(1_000_000_000, 1_000_000))),
		"large": made(core.NewTokenBucket(core.TokenBucketOptions{
			TokenLimit: math.MaxInt, TokensPerPeriod: math.MaxInt / 1024, ReplenishmentPeriod: time.Hour,
		})),
		"window": made(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: math.MaxInt, Window: time.Hour})),
	} {
		t.Run(name, func(t *testing.T) {
			for i := range 1<<20 + 5000 {
				want := direct.Passed
				if (i+1)%direct.Turns == 0 {
					want = direct.Due
				}
				if i%100_000 == 0 || i > 1<<20-200 && i%2 == 0 {
					limiter.IdleFor() // an opening
				}
				if got := ways.Turn(limiter.TryAcquire(1)); got != want {
					t.Fatalf("grant %d: %d, want %d", i, got, want)
				}
			}
			require.Equal(t, uint64(1<<20+5000), limiter.Statistics().Granted)
		})
	}
}

// A grant to one that waited has its turn as well; one that was undone keeps it.
func TestTurnsOfThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := made(core.NewTokenBucket(core.TokenBucketOptions{
			TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 10,
		}))
		turns := []direct.Turn{ways.Turn(l.TryAcquire(1))}
		for i := range 8 {
			ctx, cancel := context.WithCancel(t.Context())
			if i == 4 { // ends at the instant of the grant
				time.AfterFunc(time.Second, cancel)
			}
			lease, err := l.Acquire(ctx, 1)
			if err == nil {
				turns = append(turns, ways.Turn(lease))
			} else {
				require.Equal(t, direct.Uncounted, ways.Turn(lease))
				time.Sleep(time.Second)
			}
			cancel()
		}
		due := 0
		for _, turn := range turns {
			require.NotEqual(t, direct.Uncounted, turn)
			if turn == direct.Due {
				due++
			}
		}
		require.GreaterOrEqual(t, due, 2)
	})
}

// A lease tells the instant of its decision, from whatever base.
func TestDecided(t *testing.T) {
	for name, limiter := range fours(time.Second) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := time.Now()
				time.Sleep(time.Hour)
				l := limiter()
				for range 3 {
					time.Sleep(time.Minute)
					want := int64(time.Since(base))
					at, ok := ways.Decided(l.TryAcquire(1).With(core.ReasonPhrase.With("added")), base)
					require.Equal(t, name != "concurrency" && name != "manual", ok)
					if ok {
						require.Equal(t, want, at)
					}
				}
				_, ok := ways.Decided(l.TryAcquire(0), base)
				require.False(t, ok)
			})
		})
	}
	b := made(core.NewTokenBucket(core.Every(time.Hour, 1)))
	before := time.Now()
	b.TryAcquire(1)
	at, ok := ways.Decided(b.TryAcquire(1), before) // refused
	require.True(t, ok)
	require.GreaterOrEqual(t, at, int64(0))
	require.LessOrEqual(t, at, int64(time.Since(before)))
}

// Of a grant and a Retire that race exactly one wins: those that use a limiter, and whoever
// replaces it while it is idle, never have more out than one limiter grants.
func TestStressRetire(t *testing.T) {
	const workers, rounds = 5, 3000
	limiters := fours(time.Hour) // no rate comes back but by a refund
	delete(limiters, "manual")
	for name, limiter := range limiters {
		t.Run(name, func(t *testing.T) {
			var current atomic.Pointer[closable]
			replace := func() *closable {
				l := limiter()
				current.Store(&l)
				return &l
			}
			replace()
			var out, working atomic.Int64
			working.Store(workers)
			retired := 0
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					defer working.Add(-1)
					r := rand.New(rand.NewPCG(uint64(w), 7))
					for range rounds {
						l := *current.Load()
						n := 1 + r.IntN(2)
						var lease core.Lease
						if r.IntN(2) == 0 {
							lease = l.TryAcquire(n)
						} else {
							ctx, cancel := context.WithCancel(t.Context())
							if r.IntN(4) == 0 {
								cancel()
							}
							if name != "concurrency" && l.Available() < n {
								cancel() // the permits would not come
							}
							lease, _ = l.Acquire(ctx, n)
							cancel()
						}
						if !lease.Acquired() {
							continue
						}
						if held := out.Add(int64(n)); held > 4 {
							t.Errorf("%d permits are out", held)
						}
						out.Add(int64(-n))
						l.Refund(lease)
					}
				})
			}
			for working.Load() > 0 || retired == 0 {
				l := *current.Load()
				if !ways.Retire(l, 0) {
					runtime.Gosched()
					continue
				}
				retired++
				if n := out.Load(); n != 0 {
					t.Errorf("retired with %d permits out", n)
				}
				if l.TryAcquire(1).Acquired() {
					t.Error("granted after it was retired")
				}
				replace()
			}
			wg.Wait()
			t.Log(retired, "retired")
		})
	}
}

func ExampleWays_retire() {
	ways := direct.Core[core.Lease]()
	bucket, _ := core.NewTokenBucket(core.Every(time.Hour, 1))
	fmt.Println(ways.Retire(bucket, 0), ways.Turn(bucket.TryAcquire(1)) == direct.Closed)
	// Output: true true
}
