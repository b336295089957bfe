package resilience_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/resilience"
)

// Whatever is updated, replaced and canceled meanwhile: no more run at the same time than any of
// the limits allows, no caller hangs or is told of a closed limiter, and all permits are
// back in the end.
func TestStressUpdates(t *testing.T) {
	const goroutines, turns, most = 8, 300, 3
	shared := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: most, QueueLimit: goroutines}))
	s := core.Must(resilience.Concurrency(most, goroutines))
	var running, tooMany, ran, rejected, canceled atomic.Int64
	f := func(context.Context) error {
		if running.Add(1) > 2*most { // of the limiter before and the one after
			tooMany.Add(1)
		}
		running.Add(-1)
		ran.Add(1)
		return nil
	}
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range turns {
				ctx, cancel := context.WithCancel(t.Context())
				if (g+i)%5 == 0 {
					go cancel()
				}
				switch err := s.Do(ctx, f); {
				case err == nil:
				case errors.Is(err, core.ErrRejected):
					rejected.Add(1)
				case errors.Is(err, context.Canceled):
					canceled.Add(1)
				default:
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Go(func() {
		for i := range turns {
			o := own(1+i%most, i%goroutines)
			if i == turns/2 {
				o.Limiter = shared
			}
			if err := s.Update(o); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	assert.Zero(t, tooMany.Load())
	assert.EqualValues(t, goroutines*turns, ran.Load()+rejected.Load()+canceled.Load())
	assert.Equal(t, most, shared.Available())
	require.NoError(t, s.Do(t.Context(), nothing))
	require.NoError(t, s.Close())
	assert.True(t, shared.TryAcquire(1).Acquired(), "Close leaves the caller's limiter")
}
