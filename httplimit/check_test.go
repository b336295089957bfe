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
	const global = "skip?; grant global 1; "
	for _, c := range []struct {
		path     string
		names    []string
		rejected string
		want     string
	}{
		{"/", nil, "", global + "release global"},
		{"/", []string{"a", "b"}, "", global + "grant a 1; grant b 1; release b; release a; release global"},
		{"/", []string{"a", "no"}, "no", global + "grant a 1; reject no; refund a; refund global"},
		{"/skip", []string{"no"}, "", "skip?"},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		lease, rejection := l.Check(r, c.names...)
		require.Equal(t, c.rejected == "", lease.Acquired())
		if c.rejected == "" {
			require.Nil(t, rejection)
		} else {
			require.Equal(t, c.rejected, rejection.Policy)
		}
		lease.Release()
		lease.Release()
		require.Equal(t, c.want, j.read())
	}

	get(l.Policy("a")(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		lease, rejection := l.Check(r, "a")
		assert.Nil(t, rejection)
		lease.Release()
	})), "/")
	require.Equal(t, "skip?; grant a 1; skip?; grant global 1; grant a 1; release a; release global; release a", j.read(),
		"it knows nothing of the wrapper")
}
