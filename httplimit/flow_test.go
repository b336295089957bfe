package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// Requests that wait are served round-robin, by the flow that the policy tells; the handler's context has none.
func TestRequestsWaitByFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 9, QueueOrder: core.FairShare}))
		var asked, order []string
		policy := httplimit.Policy{Limiter: all(l), MaxWait: -1, Flow: func(r *http.Request) core.Flow {
			asked = append(asked, r.URL.Path)
			return core.Flow{Key: r.Header.Get("X-User")}
		}}
		h := limits(t, httplimit.Options{Global: &policy}).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			order = append(order, r.URL.Path) // one at a time
			if _, ok := core.FlowFromContext(r.Context()); ok {
				t.Error("the flow is in the context of the handler")
			}
		}))
		require.Equal(t, 200, get(h, "/at-once").Code)
		require.Empty(t, asked, "it did not wait")
		lease := l.TryAcquire(1)
		for _, path := range []string{"/a1", "/a2", "/a3", "/b1"} {
			go func() {
				r := httptest.NewRequest(http.MethodGet, path, nil)
				r.Header.Set("X-User", path[1:2])
				play(h, r)
			}()
			synctest.Wait()
		}
		lease.Release()
		synctest.Wait()
		require.Equal(t, []string{"/a1", "/a2", "/a3", "/b1"}, asked)
		require.Equal(t, []string{"/at-once", "/a1", "/b1", "/a2", "/a3"}, order)
	})
}
