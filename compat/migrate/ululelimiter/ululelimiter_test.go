package ululelimiter_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/compat/migrate/internal/arrivals"
	"github.com/sluice-go/sluice/compat/migrate/ululelimiter/after"
	"github.com/sluice-go/sluice/compat/migrate/ululelimiter/before"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func handlers(t *testing.T) (was, is http.Handler) {
	t.Helper()
	// Without a clean-up, which is a goroutine that only the garbage collector ends.
	was, err := before.Handler(memory.NewStoreWithOptions(limiter.StoreOptions{}), arrivals.OK)
	require.NoError(t, err)
	is, err = after.Handler(arrivals.OK)
	require.NoError(t, err)
	return was, is
}

// Where the windows begin at the same instants the same requests pass: those of a client that comes
// again after a pause, or sends all at once.
func TestSameRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was, is := handlers(t)
		var gaps []time.Duration
		for range 100 {
			gaps = append(gaps, time.Minute+1)
			gaps = append(gaps, arrivals.Random(15, time.Second)...)
			var sum time.Duration
			for _, gap := range gaps[len(gaps)-15:] {
				sum += gap
			}
			gaps = append(gaps, 2*time.Minute-sum)
		}
		arrivals.Compare(t, gaps, arrivals.Passes(t, was), arrivals.Passes(t, is))
	})
}

// The next window begins with the next request before, and where the last one ended after.
func TestNextWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was, is := handlers(t)
		passes := func(h http.Handler) int { return arrivals.Granted(20, arrivals.Passes(t, h)) }
		require.True(t, arrivals.Passes(t, was)())
		require.True(t, arrivals.Passes(t, is)())
		time.Sleep(59 * time.Second)
		require.Equal(t, 9, passes(was))
		require.Equal(t, 9, passes(is))
		time.Sleep(2 * time.Second) // 1 min 1 s
		require.Equal(t, 10, passes(was))
		require.Equal(t, 10, passes(is))
		time.Sleep(59*time.Second + time.Second/2) // 2 min 0.5 s
		require.Equal(t, 0, passes(was))
		require.Equal(t, 10, passes(is))
	})
}

// The answers.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was, is := handlers(t)
		arrivals.Granted(10, arrivals.Passes(t, was))
		arrivals.Granted(10, arrivals.Passes(t, is))
		wasStatus, w := arrivals.Get(t, was, "192.0.2.1", "/")
		isStatus, i := arrivals.Get(t, is, "192.0.2.1", "/")
		require.Equal(t, http.StatusTooManyRequests, wasStatus)
		require.Equal(t, http.StatusTooManyRequests, isStatus)
		require.Empty(t, w.Get("Retry-After"))
		require.Equal(t, "60", i.Get("Retry-After"))
		require.Equal(t, "946684860", w.Get("X-RateLimit-Reset"), "an instant, in Unix seconds")
		require.Equal(t, "60", i.Get("X-RateLimit-Reset"), "seconds from now")
	})
}
