package polly_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/compat/migrate/polly/after"
	"github.com/sluice-go/sluice/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipeline, err := after.NewPipeline()
		require.NoError(t, err)
		search := func(context.Context) (string, error) { return "found", nil }
		for range 100 {
			result, err := after.Search(t.Context(), pipeline, search)
			require.NoError(t, err)
			require.Equal(t, "found", result)
		}
		_, err = after.Search(t.Context(), pipeline, search)
		require.ErrorIs(t, err, core.ErrRejected)
		require.ErrorContains(t, err, "try again in 1m0s: ")
		time.Sleep(time.Minute)
		_, err = after.Search(t.Context(), pipeline, search)
		require.NoError(t, err)
	})
}

// Ten searches run, fifty wait, and the sixty-first is rejected.
func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipeline, err := after.NewPipeline()
		require.NoError(t, err)
		hold := make(chan struct{})
		search := func(context.Context) (string, error) { <-hold; return "found", nil }
		results := make(chan error, 60)
		for range 60 {
			go func() { _, err := after.Search(t.Context(), pipeline, search); results <- err }()
		}
		synctest.Wait()
		_, err = after.Search(t.Context(), pipeline, search)
		require.ErrorIs(t, err, core.ErrRejected)
		close(hold)
		for range 60 {
			require.NoError(t, <-results)
		}
		// The permit of the rate limiter stays taken for the search that was rejected.
		for range 39 {
			_, err := after.Search(t.Context(), pipeline, search)
			require.NoError(t, err)
		}
		_, err = after.Search(t.Context(), pipeline, search)
		require.ErrorContains(t, err, "try again in 1m0s: ")
	})
}
