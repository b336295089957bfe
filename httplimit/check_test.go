package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	j := new(journal)
	l := three(t, j)
	r := httptest.NewRequest(http.MethodGet, "/", nil)

	lease, rejection := l.Check(r)
	require.Nil(t, rejection)
	require.True(t, lease.Acquired())
	lease.Release()
	require.Equal(t, "skip?; grant global 1; release global", j.read())

	lease, rejection = l.Check(r, "a", "b")
	require.Nil(t, rejection)
	lease.Release()
	lease.Release()
	require.Equal(t, "skip?; grant global 1; grant a 1; grant b 1; release b; release a; release global", j.read())

	lease, rejection = l.Check(r, "a", "no")
	require.False(t, lease.Acquired())
	require.Equal(t, "no", rejection.Policy)
	require.Equal(t, "skip?; grant global 1; grant a 1; reject no; refund a; release a; refund global; release global", j.read())
	w := httptest.NewRecorder()
	rejection.ServeHTTP(w, r)
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))

	lease, rejection = l.Check(httptest.NewRequest(http.MethodGet, "/skip", nil), "no")
	require.Nil(t, rejection)
	require.True(t, lease.Acquired())
	lease.Release()
	require.Equal(t, "skip?", j.read())

	get(l.Policy("a")(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		lease, rejection := l.Check(r, "a")
		assert.Nil(t, rejection)
		lease.Release()
	})), "/")
	require.Equal(t, "skip?; grant a 1; skip?; grant global 1; grant a 1; release a; release global; release a", j.read(),
		"it knows nothing of the wrapper")
}
