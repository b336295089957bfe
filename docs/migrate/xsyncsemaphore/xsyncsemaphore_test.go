package xsyncsemaphore_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/docs/migrate/xsyncsemaphore/after"
	"github.com/sluice-go/sluice/docs/migrate/xsyncsemaphore/before"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// job is a unit of work in the comparison: it arrives, waits for n units, and works.
type job struct {
	n              int
	gap, works     time.Duration
	try, gives     bool          // gives: its context ends after patience
	patience       time.Duration // if gives
	started, ended time.Duration // 0: never started
}

func jobs() []job {
	random := rand.New(rand.NewPCG(1, 2))
	list := make([]job, 2000)
	for i := range list {
		list[i] = job{
			n:        1 + random.IntN(10),
			gap:      time.Duration(1 + random.IntN(1000)),
			works:    time.Duration(1 + random.IntN(1000)),
			try:      random.IntN(4) == 0,
			gives:    random.IntN(4) == 0,
			patience: time.Duration(1 + random.IntN(2000)),
		}
	}
	return list
}

// play runs the jobs and returns them with when they started and ended.
func play(t *testing.T, do func(context.Context, int, func() error) error, try func(int, func() error) (bool, error)) []job {
	t.Helper()
	list := jobs()
	start := time.Now()
	for i := range list {
		j := &list[i]
		time.Sleep(j.gap)
		work := func() error {
			j.started = time.Since(start)
			time.Sleep(j.works)
			j.ended = time.Since(start)
			return nil
		}
		go func() {
			if j.try {
				_, _ = try(j.n, work)
				return
			}
			ctx, cancel := t.Context(), func() {}
			if j.gives {
				ctx, cancel = context.WithTimeout(ctx, j.patience)
			}
			defer cancel()
			_ = do(ctx, j.n, work)
		}()
		synctest.Wait()
	}
	time.Sleep(time.Hour)
	synctest.Wait()
	return list
}

// The same jobs run at the same instants, those that are tried and those whose context ends too.
func TestSameJobs(t *testing.T) {
	var was, is []job
	synctest.Test(t, func(t *testing.T) {
		s := before.NewSemaphore()
		was = play(t,
			func(ctx context.Context, n int, f func() error) error { return before.Do(ctx, s, n, f) },
			func(n int, f func() error) (bool, error) { return before.TryDo(s, n, f) })
	})
	synctest.Test(t, func(t *testing.T) {
		s, err := after.NewSemaphore()
		require.NoError(t, err)
		is = play(t,
			func(ctx context.Context, n int, f func() error) error { return after.Do(ctx, s, n, f) },
			func(n int, f func() error) (bool, error) { return after.TryDo(s, n, f) })
		require.Equal(t, 10, s.Available())
	})
	require.Equal(t, was, is)
	never := slices.DeleteFunc(slices.Clone(is), func(j job) bool { return j.ended != 0 })
	require.NotEmpty(t, never)
	require.Less(t, len(never), len(is)/2)
}

// More than the limit waits in vain before, and is an error immediately after.
func TestMoreThanTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		none := func() error { return nil }
		s, err := after.NewSemaphore()
		require.NoError(t, err)
		require.ErrorIs(t, after.Do(ctx, s, 11, none), core.ErrPermitsExceedLimit)
		require.Equal(t, start, time.Now())
		require.ErrorIs(t, before.Do(ctx, before.NewSemaphore(), 11, none), context.DeadlineExceeded)
		require.Equal(t, time.Hour, time.Since(start))
	})
}

// A second release panics before, and does nothing after.
func TestReleaseTwice(t *testing.T) {
	was := before.NewSemaphore()
	require.True(t, was.TryAcquire(1))
	was.Release(1)
	require.Panics(t, func() { was.Release(1) })

	is, err := after.NewSemaphore()
	require.NoError(t, err)
	lease := is.TryAcquire(1)
	lease.Release()
	lease.Release()
	require.Equal(t, 10, is.Available())
}
