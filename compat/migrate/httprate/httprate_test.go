package httprate_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/compat/migrate/httprate/after"
	"github.com/sluice-go/sluice/compat/migrate/httprate/before"
	"github.com/sluice-go/sluice/compat/migrate/internal/arrivals"
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
		arrivals.Compare(t, arrivals.Random(150, 300*time.Millisecond), arrivals.Passes(was), arrivals.Passes(is))
	})
}

// A hundred requests at the end of a minute, and as many as pass half a minute later: before, half of
// the first hundred count no more, so that 150 pass within 35 s.
func TestWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was, is := handlers(t)
		for _, h := range []http.Handler{was, is} { // the grids of both begin here
			require.True(t, arrivals.Passes(h)())
		}
		time.Sleep(55 * time.Second)
		require.Equal(t, 99, arrivals.Granted(200, arrivals.Passes(was)))
		require.Equal(t, 99, arrivals.Granted(200, arrivals.Passes(is)))
		time.Sleep(35 * time.Second)
		require.Equal(t, 50, arrivals.Granted(200, arrivals.Passes(was)))
		require.Equal(t, 1, arrivals.Granted(200, arrivals.Passes(is)), "the one of the first second")
	})
}

// Retry-After is the length of the window before, and the time until a request passes after.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was, is := handlers(t)
		arrivals.Granted(100, arrivals.Passes(was))
		arrivals.Granted(100, arrivals.Passes(is))
		time.Sleep(20 * time.Second)
		w, i := arrivals.Get(was, "192.0.2.1", "/"), arrivals.Get(is, "192.0.2.1", "/")
		require.Equal(t, http.StatusTooManyRequests, w.StatusCode)
		require.Equal(t, http.StatusTooManyRequests, i.StatusCode)
		require.Equal(t, "60", w.Header.Get("Retry-After"))
		require.Equal(t, "40", i.Header.Get("Retry-After"))
		require.Equal(t, "946684860", w.Header.Get("X-RateLimit-Reset"), "an instant, in Unix seconds")
		require.Equal(t, "40", i.Header.Get("X-RateLimit-Reset"), "seconds from now")
	})
}
