package errgroup_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/docs/migrate/errgroup/after"
	"github.com/sluice-go/sluice/docs/migrate/errgroup/before"
	"github.com/sluice-go/sluice/docs/migrate/internal/jobs"
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

// After the first error errgroup still calls the functions that were given to it; here they never run.
func TestCallsAfterTheFirstError(t *testing.T) {
	calls := func(fetchAll jobs.FetchAll) int {
		var called atomic.Int64
		gone := errors.New("gone")
		err := fetchAll(t.Context(), jobs.URLs(100), func(context.Context, string) error {
			called.Add(1)
			return gone
		})
		require.ErrorIs(t, err, gone)
		return int(called.Load())
	}
	require.Equal(t, 100, calls(before.FetchAll))
	require.LessOrEqual(t, calls(after.FetchAll), 8)
}

// A panic is an error here. It ends the process of a program that uses errgroup, so that is not tried.
func TestPanic(t *testing.T) {
	boom := func(context.Context, string) error { panic("boom") }
	var panicked *worker.PanicError
	require.ErrorAs(t, after.FetchAll(t.Context(), jobs.URLs(1), boom), &panicked)
	require.Equal(t, "boom", panicked.Value)
}
