package uberratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/compat/migrate/internal/arrivals"
	"github.com/sluice-go/sluice/compat/migrate/uberratelimit/after"
	"github.com/sluice-go/sluice/compat/migrate/uberratelimit/before"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// starts returns when calls start that arrive after each other, gap by gap.
func starts(t *testing.T, gaps []time.Duration, wait func()) []time.Duration {
	t.Helper()
	begin := time.Now()
	at := make([]time.Duration, len(gaps))
	for i, gap := range gaps {
		time.Sleep(gap)
		wait()
		at[i] = time.Since(begin)
	}
	return at
}

// Without slack the calls start at the same instants.
func TestEven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gaps := arrivals.Random(10_000, 9*time.Millisecond)
		was := before.NewEven()
		want := starts(t, gaps, func() { before.Wait(was) })
		is, err := after.NewEven()
		require.NoError(t, err)
		got := starts(t, gaps, func() { require.NoError(t, after.Wait(t.Context(), is)) })
		require.Equal(t, want, got)
	})
}

// With the default slack they do too, once both limiters have been idle.
func TestSlack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gaps := arrivals.Random(10_000, 9*time.Millisecond)
		was := before.NewLimiter()
		before.Wait(was)
		time.Sleep(time.Second)
		want := starts(t, gaps, func() { before.Wait(was) })
		is, err := after.NewLimiter()
		require.NoError(t, err)
		got := starts(t, gaps, func() { require.NoError(t, after.Wait(t.Context(), is)) })
		require.Equal(t, want, got)
	})
}

// At the beginning only the bucket has saved anything up.
func TestFirstCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(wait func()) time.Duration { return starts(t, make([]time.Duration, 11), wait)[10] }
		was := before.NewLimiter()
		require.Equal(t, 100*time.Millisecond, at(func() { before.Wait(was) }))
		is, err := after.NewLimiter()
		require.NoError(t, err)
		require.Zero(t, at(func() { require.NoError(t, after.Wait(t.Context(), is)) }))
	})
}
