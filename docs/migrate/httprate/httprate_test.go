package httprate_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/docs/migrate/httprate/after"
	"github.com/sluice-go/sluice/docs/migrate/httprate/before"
	"github.com/sluice-go/sluice/docs/migrate/internal/arrivals"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func handlers(t *testing.T) (was, is http.Handler) {
	t.Helper()
	is, err := after.Handler(arrivals.OK)
	require.NoError(t, err)
	return before.Handler(arrivals.OK), is
}

// In the first minute the same requests pass.
func TestFirstMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was, is := handlers(t)
		arrivals.Compare(t, arrivals.Random(150, 300*time.Millisecond), arrivals.Passes(t, was), arrivals.Passes(t, is))
	})
}

// A hundred requests at the end of a minute, and as many as pass half a minute later: before, half of
// the first hundred count no more, so that 150 pass within 35 s.
func TestWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was, is := handlers(t)
		for _, h := range []http.Handler{was, is} { // the windows of both start here
			require.True(t, arrivals.Passes(t, h)())
		}
		time.Sleep(55 * time.Second)
		require.Equal(t, 99, arrivals.Granted(200, arrivals.Passes(t, was)))
		require.Equal(t, 99, arrivals.Granted(200, arrivals.Passes(t, is)))
		time.Sleep(35 * time.Second)
		require.Equal(t, 50, arrivals.Granted(200, arrivals.Passes(t, was)))
		require.Equal(t, 1, arrivals.Granted(200, arrivals.Passes(t, is)), "the one of the first second")
	})
}

// Retry-After is the length of the window before, and the time until a request passes after.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was, is := handlers(t)
		arrivals.Granted(100, arrivals.Passes(t, was))
		arrivals.Granted(100, arrivals.Passes(t, is))
		time.Sleep(20 * time.Second)
		wasStatus, w := arrivals.Get(t, was, "192.0.2.1", "/")
		isStatus, i := arrivals.Get(t, is, "192.0.2.1", "/")
		require.Equal(t, http.StatusTooManyRequests, wasStatus)
		require.Equal(t, http.StatusTooManyRequests, isStatus)
		require.Equal(t, "60", w.Get("Retry-After"))
		require.Equal(t, "40", i.Get("Retry-After"))
		require.Equal(t, "946684860", w.Get("X-RateLimit-Reset"), "an instant, in Unix seconds")
		require.Equal(t, "40", i.Get("X-RateLimit-Reset"), "seconds from now")
	})
}
