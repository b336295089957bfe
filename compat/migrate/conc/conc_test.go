package conc_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/compat/migrate/conc/after"
	"github.com/sluice-go/sluice/compat/migrate/conc/before"
	"github.com/sluice-go/sluice/compat/migrate/internal/jobs"
	"github.com/sluice-go/sluice/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFetchAll(t *testing.T) {
	for name, fetchAll := range map[string]jobs.FetchAll{"before": before.FetchAll, "after": after.FetchAll} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { jobs.Check(t, fetchAll) })
		})
	}
}

// After the first error conc still calls the functions that were given to it; here they never run.
func TestCallsAfterTheFirstError(t *testing.T) {
	calls := func(fetchAll jobs.FetchAll) int {
		called := make(chan struct{}, 100)
		err := fetchAll(t.Context(), jobs.URLs(100), func(_ context.Context, url string) error {
			called <- struct{}{}
			return context.DeadlineExceeded
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return len(called)
	}
	require.Equal(t, 100, calls(before.FetchAll))
	require.LessOrEqual(t, calls(after.FetchAll), 8)
}

// A panic comes out of Wait in both: as a panic before, as an error after.
func TestPanic(t *testing.T) {
	boom := func(context.Context, string) error { panic("boom") }
	require.Panics(t, func() { _ = before.FetchAll(t.Context(), jobs.URLs(1), boom) })
	var panicked *worker.PanicError
	require.ErrorAs(t, after.FetchAll(t.Context(), jobs.URLs(1), boom), &panicked)
	require.Equal(t, "boom", panicked.Value)
}

func TestSizes(t *testing.T) {
	urls := jobs.URLs(12)
	sizes, err := before.Sizes(urls, func(url string) (int, error) { return len(url), nil })
	require.NoError(t, err)
	require.Equal(t, jobs.Sizes, sizes)
	sizes, err = after.Sizes(t.Context(), urls, func(_ context.Context, url string) (int, error) { return len(url), nil })
	require.NoError(t, err)
	require.Equal(t, jobs.Sizes, sizes)
}
