package pipe_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/pipe"
)

// strange hides that a limiter is one of core's.
type strange struct{ core.Limiter }

func (f strange) Statistics() core.Statistics { return f.Limiter.(core.Reporter).Statistics() }

// budgets returns limiters that all hand out the permits of a concurrency limiter.
func budgets(t *testing.T, held *core.ConcurrencyLimiter) map[string]func() core.Limiter {
	t.Helper()
	keyed, err := partition.New(partition.Options[string, string]{
		Key: func(s string) string { return s },
		New: func(string) (core.Limiter, error) { return held, nil },
	})
	require.NoError(t, err)
	rate := core.Must(core.NewTokenBucket(ioreader.PerSecond(64 << 10)))
	chain := func(limiters ...core.Limiter) core.Limiter { return core.Must(core.Chain(limiters...)) }
	return map[string]func() core.Limiter{
		"alone":               func() core.Limiter { return held },
		"a view":              func() core.Limiter { return core.WithReason(held, "full") },
		"a view of a chain":   func() core.Limiter { return core.WithReason(chain(held), "full") },
		"chain":               func() core.Limiter { return chain(held, rate) },
		"chain, rate first":   func() core.Limiter { return chain(rate, held) },
		"key":                 func() core.Limiter { return partition.For(keyed, "a") },
		"key in a chain":      func() core.Limiter { return chain(rate, partition.For(keyed, "a")) },
		"switch":              func() core.Limiter { return core.NewSwitch(held) },
		"switch in a chain":   func() core.Limiter { return chain(rate, core.NewSwitch(held)) },
		"foreign":             func() core.Limiter { return strange{held} },
		"foreign in a chain":  func() core.Limiter { return chain(strange{held}, rate) },
		"view of a foreign":   func() core.Limiter { return core.WithReason(strange{held}, "full") },
		"chain that is keyed": func() core.Limiter { return core.WithReason(chain(partition.For(keyed, "a"), rate), "full") },
	}
}

// TestStreamsOfOneLimiterNeverBufferMore: whatever stands between the pipes and the concurrency limiter,
// their buffers together hold at most its limit, also while Writes are canceled.
func TestStreamsOfOneLimiterNeverBufferMore(t *testing.T) {
	t.Parallel()
	const pipes = 8 // each may buffer 64 KiB
	for _, limit := range []int{1, 64, 4096} {
		for name := range budgets(t, concurrency(t, limit, math.MaxInt)) {
			t.Run(fmt.Sprintf("%s of %d", name, limit), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					held := concurrency(t, limit, math.MaxInt)
					limiter := budgets(t, held)[name]()
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					time.AfterFunc(300*time.Millisecond, cancel)
					var all sync.WaitGroup
					var readers []*pipe.Reader
					for i := range pipes {
						r, w := newPipe(t, pipe.Options{WriteLimiter: limiter})
						readers = append(readers, r)
						random := rand.New(rand.NewPCG(uint64(i), uint64(limit)))
						all.Go(func() {
							for ctx.Err() == nil {
								call, end := context.WithCancel(ctx)
								time.AfterFunc(time.Duration(1+random.IntN(20))*time.Millisecond, end)
								_, _ = w.WriteContext(call, make([]byte, 1+random.IntN(16)))
								end()
							}
						})
						all.Go(func() {
							for {
								if _, err := r.ReadContext(ctx, make([]byte, 64)); err != nil {
									return
								}
								time.Sleep(5 * time.Millisecond)
							}
						})
					}
					for ctx.Err() == nil {
						synctest.Wait() // or bytes move from one pipe to the next while they are counted
						sum := 0
						for _, r := range readers {
							sum += r.Buffered()
						}
						if sum > limit {
							t.Fatalf("%d bytes are buffered under a limit of %d", sum, limit)
						}
						time.Sleep(time.Millisecond)
					}
					all.Wait()
					for _, r := range readers {
						assert.NoError(t, r.Close())
					}
					available(t, held, limit)
				})
			})
		}
	}
}
