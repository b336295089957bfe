package pipe_test

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/pipe"
)

// TestEqualSharesUnderASwitch has pipes with small and large Writes share a rate that may change.
func TestEqualSharesUnderASwitch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, limiter := range []func(core.Limiter) core.Limiter{
			func(l core.Limiter) core.Limiter { return core.NewSwitch(l) },
			func(l core.Limiter) core.Limiter {
				return core.Must(core.Chain(core.NewSwitch(nil), core.NewSwitch(l)))
			},
			func(l core.Limiter) core.Limiter {
				return partition.For(core.Must(partition.New(partition.Options[string, string]{
					Key: func(s string) string { return s },
					New: func(string) (core.Limiter, error) { return l, nil },
				})), "a")
			},
		} {
			rate := limiter(core.Must(core.NewTokenBucket(core.PerSecond(100_000, 1000))))
			for _, part := range shares(t, pipe.Options{WriteLimiter: rate}, 10, 100_000) {
				assert.InEpsilon(t, 0.5, part, 0.1)
			}
			for _, part := range shares(t, pipe.Options{ReadLimiter: rate}, 10, 100_000) {
				assert.InEpsilon(t, 0.5, part, 0.1)
			}
		}
	})
}

// TestTheBufferFollowsTheLimit raises the limit of a concurrency limiter while a Write waits, however the pipe asks it.
func TestTheBufferFollowsTheLimit(t *testing.T) {
	t.Parallel()
	for name := range budgets(t, concurrency(t, 1, 0)) {
		if name == "foreign" || name == "foreign in a chain" || name == "view of a foreign" {
			continue // unknown as a concurrency limiter
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				held := concurrency(t, 1000, 0)
				r, w := newPipe(t, pipe.Options{WriteLimiter: budgets(t, held)[name](), Buffer: 100})
				ended := make(chan error)
				go func() {
					_, err := w.Write(make([]byte, 10_000))
					ended <- err
				}()
				most := 0
				for _, limit := range []int{1000, 10, 5000, 9999} { // lowered once below what is buffered
					require.NoError(t, held.Update(core.ConcurrencyLimiterOptions{PermitLimit: limit}))
					time.Sleep(time.Minute)
					most = max(most, limit)
					require.LessOrEqual(t, r.Buffered(), most)
					require.GreaterOrEqual(t, r.Buffered(), most-most/4) // the next slice waits for all of its permits
				}
				require.NoError(t, r.Close())
				require.Equal(t, io.ErrClosedPipe, <-ended)
				available(t, held, 9999)
			})
		})
	}
}

// TestASwitchThatIsSetWhileAPipeIsFull: what is buffered after the Set needs permits of the new limiter.
func TestASwitchThatIsSetWhileAPipeIsFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, held := core.NewSwitch(core.Must(core.NewTokenBucket(core.PerSecond(1<<30, 1<<20)))), concurrency(t, 3000, 0)
		r, w := newPipe(t, pipe.Options{WriteLimiter: l, Buffer: 1000})
		ended := make(chan error)
		go func() {
			_, err := w.Write(make([]byte, 10_000))
			ended <- err
		}()
		synctest.Wait()
		require.Equal(t, 1000, r.Buffered())
		l.Set(held)
		reads(t, r, 1000, string(make([]byte, 1000)))
		synctest.Wait()
		require.Equal(t, 3000, r.Buffered())
		available(t, held, 0)
		l.Set(nil)
		for range 9 {
			_, err := io.ReadFull(r, make([]byte, 1000))
			require.NoError(t, err)
			synctest.Wait()
			require.LessOrEqual(t, r.Buffered(), 3000)
		}
		require.NoError(t, <-ended)
		available(t, held, 3000)
	})
}
