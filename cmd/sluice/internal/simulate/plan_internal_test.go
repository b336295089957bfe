package simulate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/spec"
)

func TestScaled(t *testing.T) {
	for _, test := range []struct{ limit, half, twice string }{
		{"100/s", "50/s", "200/s"},
		{"5/s", "5/2s", "10/s"},
		{"1/s", "1/2s", "2/s"},
		{"5/s burst 3 queue 7", "5/2s burst 1 queue 7", "10/s burst 6 queue 7"},
		{"sliding 5/1m", "sliding 2/1m", "sliding 10/1m"},
		{"fixed 1/1h", "fixed 1/1h", "fixed 2/1h"},
		{"concurrency 5 queue 2", "concurrency 2 queue 2", "concurrency 10 queue 2"},
		{"unlimited", "unlimited", "unlimited"},
	} {
		parse := func(text string) spec.Limit {
			l, err := spec.Parse(text)
			require.NoError(t, err)
			return l
		}
		assert.Equal(t, parse(test.half), scaled(parse(test.limit), 0.5), test.limit)
		assert.Equal(t, parse(test.twice), scaled(parse(test.limit), 2), test.limit)
		assert.Equal(t, parse(test.limit), scaled(parse(test.limit), 1), test.limit)
	}
}

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
		for _, r := range p.route(&record{method: []byte(test.method), path: []byte(test.path)}) {
			got = append(got, r.policy)
		}
		assert.Equal(t, test.want, got, "%s %s", test.method, test.path)
	}
}
