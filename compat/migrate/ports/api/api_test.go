package api_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/compat/migrate/internal/arrivals"
	"github.com/sluice-go/sluice/compat/migrate/ports/api/after"
	"github.com/sluice-go/sluice/compat/migrate/ports/api/before"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The same requests of two clients pass.
func TestSameRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		was := before.New(ctx).Handler(arrivals.OK)
		limits, err := after.New()
		require.NoError(t, err)
		is := limits.Handler(arrivals.OK)
		n := 0
		passes := func(h http.Handler, client string) bool {
			status, _ := arrivals.Get(t, h, client, "/")
			return status == http.StatusOK
		}
		clients := []string{"192.0.2.1", "192.0.2.2", "192.0.2.1"}
		arrivals.Compare(t, arrivals.Random(10_000, 300*time.Millisecond),
			func() bool { n++; return passes(was, clients[n%3]) },
			func() bool { return passes(is, clients[n%3]) },
		)
	})
}
