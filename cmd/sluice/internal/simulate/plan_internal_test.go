package simulate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/accesslog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRoutesAreTheProxys: a request of a log is under the limits that the proxy would put it under.
func TestRoutesAreTheProxys(t *testing.T) {
	c, err := config.Parse("f", []byte(`
global: {limit: 1/s}
policies:
  a: {limits: [2/s, 3/s]}
  b: {limit: 4/s}
routes:
  "/tree/": a
  "POST /login": [b, a]
  "GET /it em/{id}": b
  "/healthz": none
  "/all/": []
`))
	require.NoError(t, err)
	p, err := configured(c)
	require.NoError(t, err)
	for _, test := range []struct {
		method, path string
		want         []string
	}{
		{"GET", "/tree/x?y", []string{"global", "a", "a"}},
		{"GET", "/tree", []string{"global"}}, // redirected
		{"GET", "//tree/x", []string{"global"}},
		{"GET", "/tree%2Fx", []string{"global"}},
		{"POST", "/login", []string{"global", "b", "a", "a"}},
		{"GET", "/login", []string{"global"}},
		{"GET", "/it%20em/a", []string{"global", "b"}},
		{"GET", "/it%20em/a%2Fb", []string{"global"}},     // 400: it can be read in two ways
		{"POST", "/all/%2e%2e/login", []string{"global"}}, // the same
		{"GET", "/healthz", nil},
		{"GET", "/all/x", []string{"global"}},
		{"GET", "*", []string{"global"}},
		{"-", "", []string{"global"}},
	} {
		var got []string
		for _, r := range p.Route(&accesslog.Record{Method: []byte(test.method), Path: []byte(test.path)}) {
			got = append(got, r.Policy)
		}
		assert.Equal(t, test.want, got, "%s %s", test.method, test.path)
	}
}
