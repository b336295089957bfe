package config_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/spec"
)

const whole = `
listen: ":8080"
to: [http://127.0.0.1:9000, https://backend.example/base]
trusted: [10.0.0.0/8, 192.0.2.1]
headers: draft-11
problems: true
admin: 127.0.0.1:9090
redis: redis://127.0.0.1:6379/0
redis-budget: 200ms
backend-timeout: 5
global:   {limit: concurrency 500 queue 200 newest-first, status: 503, max-wait: 2s}
policies:
  api:    {key: ip, limit: 100/s burst 200}
  login:  {key: ip, limit: sliding 5/1m, count: failures}
  export: {key: header:X-Api-Key, limits: [10/h, concurrency 1], download: 2MiB/s, fail-open: true}
host: keep
keys: 5000
max-body: 10MiB
connections: concurrency 10_000
connections-per-ip: 50/s
access-log: "-"
underscores: true
routes:
  "/api/": api
  "POST /login": [login, api]
  "GET /export/{id}": export
  "/healthz": none
  "/": []
`

// TestTrusted: IPv4 in the form of IPv6 is IPv4, as which clients are seen.
func TestTrusted(t *testing.T) {
	c, err := config.Parse("f", []byte("trusted: [10.1.2.3/8, 192.0.2.1, '::ffff:192.0.2.2', '::ffff:10.1.2.3/104', 2001:db8::/32, '::1']\n"))
	require.NoError(t, err)
	var got []string
	for _, p := range c.Trusted {
		got = append(got, p.String())
	}
	assert.Equal(t, []string{"10.0.0.0/8", "192.0.2.1/32", "192.0.2.2/32", "10.0.0.0/8", "2001:db8::/32", "::1/128"}, got)
}

func TestParse(t *testing.T) {
	c, err := config.Parse("limits.yaml", []byte(whole))
	require.NoError(t, err)
	assert.Equal(t, ":8080", c.Listen)
	urls, err := c.Backends()
	require.NoError(t, err)
	assert.Len(t, urls, 2)
	assert.Equal(t, 200*time.Millisecond, c.RedisBudget)
	assert.Equal(t, 5*time.Second, c.BackendTimeout)
	assert.Equal(t, 503, c.Global.Status)
	assert.True(t, c.KeepHost)
	assert.True(t, c.Underscores)
	assert.Equal(t, 5000, c.Keys)
	assert.Equal(t, int64(10<<20), c.MaxBody)
	assert.Equal(t, 10_000, c.Connections.Permits)
	assert.Equal(t, spec.TokenBucket, c.ConnectionsPerIP.Kind)
	assert.Equal(t, "-", c.AccessLog)
	require.Len(t, c.Policies, 3)
	export := c.Policies[2]
	assert.Equal(t, config.KeyHeader, export.Key)
	assert.Equal(t, "X-Api-Key", export.Header)
	require.Len(t, export.Limits, 2)
	assert.Equal(t, spec.Concurrency, export.Limits[1].Kind)
	assert.Equal(t, 2<<20, export.Download.Permits)
	assert.Equal(t, config.Position{Line: 15, Column: 44}, export.Places[0])
	require.Len(t, c.Routes, 5)
	assert.True(t, c.Routes[3].Exempt)
	assert.Empty(t, c.Routes[4].Policies)
	assert.Equal(t, []string{"login", "api"}, c.Routes[1].Policies)
}

func TestFaults(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "f:1:1: the file is empty"},
		{"# nothing\n", "f:1:1: the file is empty"},
		{"a: [", "f:1:"},
		{"nosuch: 1\n", `f:1:1: the file has no "nosuch"`},
		{"listen: 8080\n", `f:1:9: listen is "8080"`},
		{"listen: {}\n", "want a text"},
		{"trusted: [1.2.3.4.5]\n", `f:1:11: trusted has "1.2.3.4.5"`},
		{"headers: loud\n", `f:1:10: headers is "loud"`},
		{"problems: maybe\n", `f:1:11: problems is "maybe"`},
		{"max-body: 0\n", `f:1:11: max-body is "0"`},
		{"redis: http://x\n", `f:1:8: redis is no URL`},
		{"listen: ':8080'\nadmin: 127.0.0.1:8080\n", `f:2:8: admin is "127.0.0.1:8080", where listen is`},
		{"global: {limit: concurrency 5 queue 9}\n", `f:1:17: "concurrency 5 queue 9" has a queue, and nothing says how long a request may wait in it: add max-wait, such as max-wait: 10s`},
		{"policies: {a: {limits: [1/s, 2/s queue 1], max-wait: 0}}\n", `f:1:30: "2/s queue 1" has a queue`},
		{"connections: concurrency 5 queue 9\n", `f:1:14: "concurrency 5 queue 9" has a queue, in which no connection waits`},
		{"connections-per-ip: many\n", `f:1:21: "many"`},
		{"keys: 0\n", `f:1:7: keys is "0", want a number from 1`},
		{"keys: many\n", `f:1:7: keys is "many"`},
		{"max-body: big\n", `f:1:11: max-body is "big", want a size such as 10MiB`},
		{"host: same\n", `f:1:7: host is "same", want keep or backend`},
		{"underscores: 5\n", `f:1:14: underscores is "5"`},
		{"policies: {a: {limit: 1/s, key: 'header:X_Key'}}\n", "f:1:12: key is header:X_key, but header fields with underscores are dropped: add underscores: true"},
		{"redis-budget: soon\n", `f:1:15: redis-budget: "soon" is no time`},
		{"backend-timeout: -1\n", `f:1:18: backend-timeout: "-1" is below 0`},
		{"policies: {a: {limits: []}}\n", `f:1:12: policy "a" limits nothing`},
		{"global: {limits: }\n", `f:1:10: global limits nothing`},
		{"global: {limit: 1/s}\nlisten: x\nglobal: {limit: bad}\n", `f:2:9: listen is "x"`},
		{"global: {limit: 1/s}\nlisten: x\nglobal: {limit: bad}\n", `f:3:1: "global" is here twice, first in line 1`},
		{"\xef\xbb\xbflisten: x\n", `f:1:9: listen is "x"`},
		{"tls: {cert: a}\n", "tls wants both"},
		{"tls: {}\n", "f:1:6: tls wants both"},
		{"tls:\n", "tls wants both"},
		{"listen: 127.0.0.1:99999\n", `f:1:9: listen is "127.0.0.1:99999"`},
		{"admin: ':x y'\n", `f:1:8: admin is ":x y"`},
		{"global: {limit: 1/s, key: 'header:A B'}\n", `f:1:27: key is "header:A B"`},
		{"global: {}\n", "global limits nothing"},
		{"global: {limit: 1/s, limits: [1/s]}\n", "want one of them"},
		{"global: {limit: 1/x}\n", `f:1:17: "1/x"`},
		{"global: {limit: 1/s, key: name}\n", `f:1:27: key is "name"`},
		{"global: {limit: 1/s, status: 200}\n", `f:1:30: status is "200"`},
		{"global: {limit: 1/s, max-wait: -1s}\n", "f:1:32: max-wait"},
		{"global: {limit: 1/s, count: none}\n", `f:1:29: count is "none"`},
		{"global: {limit: 1/s, limit: 2/s}\n", `"limit"`},
		{"policies: {none: {limit: 1/s}}\n", `cannot be called "none"`},
		{"policies: {global: {limit: 1/s}}\nglobal: {limit: 1/s}\n", "global"},
		{"policies: {a b: {limit: 1/s}}\n", "a name has"},
		{"routes: {/: nosuch}\n", `f:1:10: route "/": no policy is named "nosuch"`},
		{"routes: {nosuch: []}\n", "f:1:10: route"},
		{"policies: {a: {limit: 1/s}}\nroutes: {/: [a, a]}\n", "twice"},
		{"policies: {a: {limit: 1/s}}\nroutes: {/: [a, none]}\n", "is none, and names policies"},
		{"routes: {'/{a}/b': [], '/c/{d}': []}\n", "conflicts"},
		{"listen: *nosuch\n", "f:1:"},
		{"listen: ':1'\n---\nlisten: ':2'\n", "second document"},
	} {
		_, err := config.Parse("f", []byte(test.text))
		if assert.Error(t, err, "%s", test.text) {
			assert.Contains(t, err.Error(), test.want, "%s", test.text)
		}
	}
}

func TestBackendsThatCannotBe(t *testing.T) {
	for _, test := range []struct {
		to  string
		tcp bool
	}{
		{"http://h:99999", false},
		{"h:1", false},
		{"http://:80", false},
		{"ftp://h", false},
		{"http://h?x", false},
		{"http://user:secret@h", false},
		{"h:99999", true},
		{"h", true},
		{":1", true},
		{"http://h:1", true},
		{"h:", true},
	} {
		c, err := config.Parse("f", []byte("listen: ':1'\nto: '"+test.to+"'\n"))
		require.NoError(t, err)
		if test.tcp {
			_, err = c.Addresses()
		} else {
			_, err = c.Backends()
		}
		if assert.Error(t, err, "%s", test.to) {
			assert.Contains(t, err.Error(), "f:2:5: to ", "%s", test.to)
		}
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	_, err := config.Parse("f", []byte("listen: 8080\nheaders: loud\nglobal: {limit: many, status: 1}\nroutes: {/: a}\n"))
	require.Error(t, err)
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, 5)
	for i, place := range []string{"f:1:9:", "f:2:10:", "f:3:17:", "f:3:31:", "f:4:10:"} {
		assert.True(t, strings.HasPrefix(lines[i], place), "%s", lines[i])
	}
}

// TestNoSecretsAndNoFloods: a fault says neither a password nor a whole file of something else.
func TestNoSecretsAndNoFloods(t *testing.T) {
	for _, text := range []string{
		"redis: 'redis://:pass word@h:6379/0'\n",
		"redis: 'redis://:password@h:6379x/0'\n",
		"redis: 'tcp://:password@h:6379/0'\n",
		"listen: ':1'\nto: http://user:password@h\n",
	} {
		c, err := config.Parse("f", []byte(text))
		if err == nil {
			_, err = c.Backends()
		}
		require.Error(t, err, text)
		assert.NotContains(t, err.Error(), "pass", text)
	}
	for _, text := range []string{
		strings.Repeat("GET / HTTP/1.1 200\n", 100_000),
		"listen: " + strings.Repeat("x", 3_000_000),
		"- " + strings.Repeat("x ", 1_000_000),
		"a: {" + strings.Repeat("x", 3_000_000),
	} {
		_, err := config.Parse("f", []byte(text))
		require.Error(t, err)
		assert.Less(t, len(err.Error()), 1000)
	}
}

// seeds are files as people write them.
var seeds = []string{
	"listen: 127.0.0.1:0\nto: [127.0.0.1:9000, tcp://127.0.0.1:9001]\nglobal: {key: ip, limit: concurrency 10, download: 1MiB/s}\n",
	`# in blocks, with comments
listen: "[::]:8443"   # all addresses
tls:
  cert: /etc/ssl/fullchain.pem
  key: '/etc/ssl/private.pem'
to:
  - http://10.0.0.1:9000/base
  - "http://10.0.0.2:9000"
trusted:
- 10.0.0.0/8
- 2001:db8::/32
headers: x-ratelimit
problems: yes
global:
  limit: >-
    concurrency 500
    queue 200 newest-first
  status: 503
  max-wait: 1.5
policies:
  api: &api
    key: ip
    limits:
      - 100/s burst 200
      - sliding 5000/1h segments 12
    count: all
  copy: *api
  "big-files":
    upload: 512KiB/s
    download: 2MiB/s burst 4MiB
    fail-open: true
routes:
  "example.com/api/": [api]
  ? "GET /export/{id...}"
  : [api, big-files]
  /{$}: none
  /: []
`,
	"---\r\nlisten: :8080\r\nto: http://h:1\r\nroutes:\r\n  /: []\r\n...\r\n",
	"\ufefflisten: ':80'\nto: http://h\n",
	"{listen: ':80', to: http://h, policies: {a: {limit: 1/s}}, routes: {/: a}}",
	"listen: !!str 80\nto: !!binary aGk=\n<<: {admin: ':1'}\n",
	"listen: |\n  :80\nto: ~\nglobal: null\n",
}

// FuzzParse: whatever the file, there is a configuration or a fault with its place, and no panic.
func FuzzParse(f *testing.F) {
	f.Add(whole)
	for i := range whole {
		if i%97 == 0 {
			f.Add(whole[:i])
		}
	}
	for _, text := range seeds {
		f.Add(text)
	}
	f.Add("a: &a [*a]\nlisten: *a\n")
	f.Add("global: &g {limit: 1/s}\npolicies: {a: *g}\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse("f", []byte(text))
		if err != nil {
			fault, ok := errors.AsType[*config.Fault](err)
			require.True(t, ok, "%v", err)
			require.Positive(t, fault.At.Line)
			require.Positive(t, fault.At.Column)
			if c != nil {
				_, _ = c.Backends()
				_, _ = c.Addresses()
			}
			return
		}
		for _, p := range c.Policies {
			require.Len(t, p.Places, len(p.Limits))
		}
		_, _ = c.Backends()
		_, _ = c.Addresses()
	})
}
