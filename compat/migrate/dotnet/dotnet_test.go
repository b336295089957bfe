package dotnet_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/compat/migrate/dotnet/after"
	"github.com/sluice-go/sluice/compat/migrate/internal/arrivals"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A hundred requests pass, five wait for the next second, the others are rejected.
func TestHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := after.Handler(arrivals.OK)
		require.NoError(t, err)
		began := time.Now()
		search := func() int {
			status, _ := arrivals.Get(t, h, "192.0.2.1", "/search")
			return status
		}
		require.Equal(t, 100, arrivals.Granted(100, func() bool { return search() == http.StatusOK }))
		answers := make(chan int, 5)
		for range 5 {
			go func() { answers <- search() }()
		}
		synctest.Wait()
		status, header := arrivals.Get(t, h, "192.0.2.1", "/search")
		require.Equal(t, http.StatusTooManyRequests, status)
		require.Equal(t, "1", header.Get("Retry-After"))
		for range 5 {
			require.Equal(t, http.StatusOK, <-answers)
		}
		require.Equal(t, time.Second, time.Since(began))
	})
}
