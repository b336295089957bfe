package redislimit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// Processes take, wait, give up, and reserve and refund at random: never more is granted than a bucket or a window allows.
func TestProcessesNeverGrantTooMuch(t *testing.T) {
	const limit, processes, callers, rounds = 5, 3, 3, 40
	for _, kind := range []string{"bucket", "fixed", "sliding"} {
		t.Run(kind, func(t *testing.T) {
			for seed := range 2 {
				bubble(t, func(t *testing.T, s *server) {
					terms := map[string]core.Options{
						"bucket":  core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 20},
						"fixed":   core.FixedWindowOptions{PermitLimit: limit, Window: 5 * time.Second, QueueLimit: 20, Anchor: time.Now()},
						"sliding": core.SlidingWindowOptions{PermitLimit: limit, Window: 5 * time.Second, SegmentsPerWindow: 5, QueueLimit: 20, Anchor: time.Now()},
					}[kind]
					start := time.Now()
					var mu sync.Mutex
					taken := map[int]int{} // by second
					count := func(n int) {
						mu.Lock()
						defer mu.Unlock()
						taken[int(time.Since(start)/time.Second)] += n
					}
					var wg sync.WaitGroup
					for p := range processes {
						o := s.shared("key")
						o.Prefetch = 1
						l := core.Must(redislimit.New(terms, o))
						t.Cleanup(func() { l.Close() })
						for c := range callers {
							wg.Go(func() {
								random := rand.New(rand.NewPCG(uint64(seed), uint64(10*p+c)))
								for range rounds {
									time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
									n := 1 + random.IntN(limit)
									switch random.IntN(4) {
									case 0:
										if lease := l.TryAcquire(n); lease.Acquired() {
											count(n)
										}
									case 1:
										lease := l.Reserve(n)
										d, ok := core.Delay.From(lease)
										switch {
										case !lease.Acquired() || !ok:
										case d == 0:
											count(n)
										default: // others may move it forward, so its instant is not known
											time.Sleep(time.Duration(random.Int64N(int64(d))))
											lease.Refund()
										}
									default:
										ctx, cancel := context.WithCancel(t.Context())
										stop := time.AfterFunc(time.Duration(random.IntN(10_000))*time.Millisecond, cancel)
										if _, err := l.Acquire(ctx, n); err == nil {
											count(n)
										} else if !errors.Is(err, context.Canceled) {
											assert.ErrorIs(t, err, core.ErrRejected)
										}
										stop.Stop()
										cancel()
									}
								}
							})
						}
					}
					wg.Wait()
					last := 0
					for second := range taken {
						last = max(last, second)
					}
					for from := 0; from <= last; from++ {
						sum := 0
						for to := from; to <= last; to++ {
							sum += taken[to]
							switch {
							case kind == "bucket":
								require.LessOrEqual(t, sum, limit+to-from+1, "%d: seconds %d to %d", seed, from, to)
							case kind == "fixed" && from%5 == 0 && to == from+4, kind == "sliding" && to == from+4:
								require.LessOrEqual(t, sum, limit, "%d: seconds %d to %d", seed, from, to)
							}
						}
					}
					require.NotEmpty(t, taken)
				})
			}
		})
	}
}
