package tollbooth_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/compat/migrate/internal/arrivals"
	"github.com/sluice-go/sluice/compat/migrate/tollbooth/after"
	"github.com/sluice-go/sluice/compat/migrate/tollbooth/before"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func handlers(t *testing.T) (was, is http.Handler) {
	t.Helper()
	is, err := after.Handler(arrivals.OK)
	require.NoError(t, err)
	return before.Handler(arrivals.OK), is
}

// The same requests of a client pass.
func TestSameRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was, is := handlers(t)
		arrivals.Compare(t, arrivals.Random(10_000, 80*time.Millisecond), arrivals.Passes(t, was), arrivals.Passes(t, is))
	})
}

// A client has 10 requests for each path before, and 10 in all after.
func TestPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was, is := handlers(t)
		both := func(h http.Handler) int {
			at := func(path string) int {
				return arrivals.Granted(20, func() bool {
					status, _ := arrivals.Get(t, h, "192.0.2.1", path)
					return status == http.StatusOK
				})
			}
			return at("/a") + at("/b")
		}
		require.Equal(t, 20, both(was))
		require.Equal(t, 10, both(is))
	})
}

// A client that makes up addresses escapes before, and not after.
func TestForgedAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was, is := handlers(t)
		forged := func(h http.Handler) (granted int) {
			for _, client := range []string{"203.0.113.1", "203.0.113.2"} {
				granted += arrivals.Granted(20, func() bool {
					status, _ := arrivals.GetFor(t, h, "192.0.2.1", client, "/")
					return status == http.StatusOK
				})
			}
			return granted
		}
		require.Equal(t, 20, forged(was))
		require.Equal(t, 10, forged(is))
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
		require.Equal(t, "1", w.Get("RateLimit-Reset"))
		require.Equal(t, "1", i.Get("Retry-After"))
	})
}
