package config_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/yamlconf"
	"github.com/sluice-go/sluice/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const whole = `
listen: ":8080"
to: [http://127.0.0.1:9000, https://backend.example/base]
trusted: [10.1.2.3/8, 192.0.2.1, '::ffff:192.0.2.2', '::ffff:10.1.2.3/104', 2001:db8::/32]
headers: draft-11
problems: true
admin: 127.0.0.1:9090
redis: redis://127.0.0.1:6379/0
redis-timeout: 200ms
backend-timeout: 5
global:
  {limit: concurrency 500 queue 200 fair-share, status: 503, max-wait: 2s, flow: ip, weights: {192.0.2.1: 2, "2001:db8::7": 3}}
policies:
  api:    {key: ip, limit: 100/s burst 200}
  login:  {key: ip, limits: [sliding 5/1m, fixed 500/month day 15 tz Europe/Berlin], count: failures}
  export:
    {key: [header:x-api-key, path:1], limits: [10/h, concurrency 2], download: 2MiB/s, fail-open: true,
     overrides: {acme: [1000/h, concurrency 5], health: unlimited}, cost: 2, settle: x-cost, shadow: true}
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

func TestParse(t *testing.T) {
	c, err := config.Parse("limits.yaml", []byte(whole))
	require.NoError(t, err)
	assert.Equal(t, ":8080", c.Listen)
	urls, err := c.Backends()
	require.NoError(t, err)
	assert.Len(t, urls, 2)
	assert.Equal(t, "[10.0.0.0/8 192.0.2.1/32 192.0.2.2/32 10.0.0.0/8 2001:db8::/32]", fmt.Sprint(c.Trusted), "clients are seen as IPv4")
	assert.Equal(t, 200*time.Millisecond, c.RedisTimeout)
	assert.Equal(t, 5*time.Second, c.BackendTimeout)
	assert.Equal(t, 503, c.Global.Status)
	assert.Equal(t, "ip", c.Global.Flow.String())
	assert.Equal(t, map[string]int{"192.0.2.1": 2, "2001:db8::/64": 3}, c.Global.Weights, "by the values that requests have")
	assert.True(t, c.KeepHost)
	assert.True(t, c.Underscores)
	assert.Equal(t, 5000, c.Keys)
	assert.Equal(t, int64(10<<20), c.MaxBody)
	assert.Equal(t, 10_000, c.Connections[0].Permits)
	assert.Equal(t, spec.TokenBucket, c.ConnectionsPerIP[0].Kind)
	assert.Equal(t, "-", c.AccessLog)
	require.Len(t, c.Policies, 3)
	export := c.Policies[2]
	assert.Equal(t, config.Key{{Kind: config.KeyHeader, Name: "X-Api-Key"}, {Kind: config.KeyPath, Name: "1", Segment: 1}}, export.Key)
	assert.Equal(t, "header:X-Api-Key, path:1", export.Key.String())
	require.Len(t, export.Overrides.All, 2)
	assert.Len(t, export.Overrides.All[0].Limits, 2)
	assert.Equal(t, spec.Unlimited, export.Overrides.All[1].Limits[0].Kind)
	assert.Equal(t, 2, export.Cost)
	assert.Equal(t, "X-Cost", export.Settle)
	assert.True(t, export.Shadow)
	assert.Equal(t, 1, c.Policies[0].Cost)
	assert.Equal(t, "month day 15 tz Europe/Berlin", c.Policies[1].Limits[1].Calendar.String())
	require.Len(t, export.Limits, 2)
	assert.Equal(t, spec.Concurrency, export.Limits[1].Kind)
	assert.Equal(t, 2<<20, export.Download[0].Permits)
	assert.Equal(t, yamlconf.Place{Line: 17, Column: 48}, export.Limits[0].At)
	require.Len(t, c.Routes, 5)
	assert.True(t, c.Routes[3].Exempt)
	assert.Empty(t, c.Routes[4].Policies)
	assert.Equal(t, []string{"login", "api"}, c.Routes[1].Policies)
}

func TestFaults(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "f:1:1: the file is empty"},
		{"a: [", "f:1:4: error loading config file: did not find expected node content"},
		{"nosuch: 1\n", `f:1:1: the file has no "nosuch"`},
		{"global: {max_wait: 2s}\n", `f:1:10: global has no "max_wait"; did you mean max-wait?`},
		{"global: {limit: fixed 5/month tz Europe/Berln}\n", `"tz Europe/Berln": unknown time zone`},
		{"listen: 8080\n", `f:1:9: listen is "8080"`},
		{"trusted: [1.2.3.4.5]\n", `f:1:11: trusted: "1.2.3.4.5" is not an address or a network such as 10.0.0.0/8`},
		{"max-body: 10\n", `f:1:11: max-body is "10", but counts bytes; write the unit, such as 10MB, or B for bytes`},
		{"policies: {c: {key: ip, limit: 5MB/s}}\n", `f:1:32: limit: "5MB/s" is an amount of bytes, but the limit counts requests; write a number such as 10/s, without B, or use download or upload for bytes`},
		{"policies: {c: {key: ip, limits: [1/s, concurrency 5KiB]}}\n", `is an amount of bytes, but the limit counts requests`},
		{"policies: {c: {key: ip, limit: 1/s, overrides: {192.0.2.1: 5kB/s}}}\n", `is an amount of bytes, but the limit counts requests`},
		{"connections: 5kB/s\n", `connections: "5kB/s" is an amount of bytes, but the limit counts connections; write a number such as 10/s, without B`},
		{"global: {download: 5/s}\n", `f:1:20: download: "5/s" counts bytes; write the unit, such as 5kB/s, or B for bytes`},
		{"global: {upload: 20k/s}\n", `upload: "20000/s" counts bytes`},
		{"global: {limit: 10/s, max-wait: 3s}\n", `f:1:33: max-wait has no effect, because no limit of global has a queue; add one, such as limit: 100/s queue 50`},
		{"policies: {a: {download: 1MB/s, max-wait: 3s}}\n", `because no limit of policy "a" has a queue`},
		{"max-body: 0\n", `f:1:11: max-body is "0"`},
		{"redis: http://x\n", `f:1:8: redis is not a URL`},
		{"listen: ':8080'\nadmin: 127.0.0.1:8080\n", `f:2:8: admin is "127.0.0.1:8080", where listen is`},
		{"global: {limit: concurrency 5 queue 9}\n", `f:1:17: "concurrency 5 queue 9" has a queue but the policy has no max-wait; add one, such as max-wait: 10s`},
		{"policies: {a: {limits: [1/s, 2/s queue 1], max-wait: 0}}\n", `f:1:30: "2/s queue 1" has a queue`},
		{"routes: {'get /x': []}\n", `f:1:10: route "get /x" matches nothing: methods are written in upper case`},
		{"connections: concurrency 5 queue 9\n", `f:1:14: connections: "concurrency 5 queue 9" has a queue, but connections do not wait`},
		{"policies: {a: {upload: blocked}}\n", `f:1:24: upload: "blocked" would end no transfer; want a limit such as 1MiB/s`},
		{"policies: {a: {limit: 1/s, key: 'header:host'}}\n", `f:1:33: key is "header:host", whose value can be spelled in many ways; use key: host`},
		{"policies: {a: {limit: 1/s, key: [ip, 'header:Cookie']}}\n", `use key: cookie:NAME`},
		{"keys: 0\n", `f:1:7: keys is "0", want a number from 1`},
		{"host: same\n", `f:1:7: host is "same", want keep or backend`},
		{"policies: {a: {limit: 1/s, key: 'header:connection'}}\n", `f:1:33: key is header:Connection, which concerns one connection and is not forwarded`},
		{"policies: {a: {limit: 1/s, key: [ip, 'header:TE']}}\n", `key is header:Te, which concerns one connection and is not forwarded`},
		{"policies: {a: {limit: 1/s, key: 'header:Proxy-Authorization'}}\n", `is not forwarded`},
		{"policies: {a: {limit: 1/s, key: 'header:x-forwarded-for'}}\n", `f:1:33: key is header:X-Forwarded-For, which clients can set; use key: ip, and list your proxies in trusted`},
		{"policies: {a: {limit: 1/s, key: 'header:X-Forwarded-For'}}\ntrusted: 10.0.0.1\n", `use key: ip`},
		{"policies: {a: {limit: 1/s, key: 'header:Forwarded'}}\ntrusted: 10.0.0.1\n", `use key: ip`},
		{"policies: {a: {limit: 1/s, key: 'header:CF-Connecting-IP'}}\n", `use key: ip, and list your proxies in trusted`},
		{"global: {limit: 1/s queue 9 fair-share, flow: 'header:X-Real-IP', max-wait: 1s}\n", `flow is header:X-Real-Ip, which clients can set; use flow: ip`},
		{"global: {limit: 1/s, settle: keep-alive}\n", `settle is "keep-alive", which concerns one connection`},
		{"policies: {a: {limit: 1/s, key: 'header:X_Key'}}\n", "f:1:33: key is header:X_key, but the proxy drops headers with other characters than letters, digits and hyphens; with underscores: true"},
		{"redis-timeout: soon\n", `f:1:16: redis-timeout: "soon" is not a duration`},
		{"backend-timeout: -1\n", `f:1:18: backend-timeout: "-1" is negative`},
		{"global: {limit: ''}\n", `f:1:17: no words, want a limit such as 100/s`},
		{"global: {limit: 0}\n", `f:1:17: "0": want at least 1`},
		{"global: {limit: 5}\n", `f:1:17: limit: "5" has no time; write concurrency 5 for as many at a time, or a rate such as 5/s`},
		{"policies: {a: {download: 5}}\n", `f:1:26: "5": no time, want an amount such as 5/s`},
		{"global: {limits: }\n", `f:1:18: limits has no limit, want one such as 1000/s, or unlimited`},
		{"global: {limit: 1/s}\nlisten: x\nglobal: {limit: bad}\n", `f:3:1: "global" is here twice, first in line 1`},
		{"\xef\xbb\xbflisten: x\n", `f:1:9: listen is "x"`},
		{"tls: {}\n", "f:1:6: tls wants both"},
		{"listen: 127.0.0.1:99999\n", `f:1:9: listen is "127.0.0.1:99999"`},
		{"global: {limit: 1/s, key: 'header:A B'}\n", `f:1:27: key is "header:A B"`},
		{"global: {status: 503}\n", "f:1:9: global limits nothing, want limit, limits, upload or download"},
		{"global: {limit: 1/s, key: }\n", `f:1:27: key is empty, want ip, header:NAME, cookie:NAME, query:NAME, host, pattern or path:N, or a list of them`},
		{"global: {limit: 1/s, key: [ip, kookie:a]}\n", `f:1:32: key is "kookie:a", want ip, header:NAME, cookie:NAME, query:NAME, host, pattern or path:N, or a list of them`},
		{"global: {limit: 1/s, key: [path:1, path:2, path:1]}\n", `f:1:44: key has path:1 twice`},
		{"global: {limit: 1/s, key: path:0}\n", `f:1:27: key is "path:0", want the number of a segment, such as path:1`},
		{"global: {limit: 1/s, key: path:101}\n", `f:1:27: key is "path:101"`},
		{"global: {limit: 1/s, key: [[ip]]}\n", `f:1:28: key is a list, want a text`},
		{"global: {limit: 1/s, cost: 0}\n", `f:1:28: cost is "0", want a number from 1`},
		{"global: {limit: 1/s, cost: 99999999999}\n", `f:1:28: cost is "99999999999"`},
		{"global: {limit: 1/s, cost: }\n", `f:1:28: cost is empty, want a text`},
		{"global: {limit: 5/s, cost: 6}\n", `f:1:17: "5/s" never has the 6 permits that a request costs: raise it, or add a burst of 6`},
		{"policies: {a: {limits: [9/s, sliding 5/1m], cost: 6}}\n", `f:1:30: "sliding 5/min" never has the 6 permits that a request costs: raise it, or lower cost`},
		{"policies: {a: {key: ip, limit: 9/s, overrides: {192.0.2.1: [9/s, concurrency 5]}, cost: 6}}\n", `f:1:66: "concurrency 5" never has the 6 permits`},
		{"policies: {a: {key: ip, limit: 9/s, overrides: {192.0.2.1: 9/s queue 5}}}\n", `f:1:60: "9/s queue 5" has a queue`},
		{"global: {limit: 1/s, settle: 'X Cost'}\n", `f:1:30: settle is "X Cost", want a header of the backend's response, such as X-Cost`},
		{"global: {limit: 1/s, shadow: dark}\n", `f:1:30: shadow is "dark", want true or false`},
		{"policies: {a: {limit: 1/s, overrides: {a: 1/s}}}\n", `f:1:39: overrides requires key; add one, such as key: ip`},
		{"policies: {a: {key: ip, limit: 1/s, overrides: 5/s}}\n", `f:1:48: overrides is "5/s", want keys and values`},
		{"policies: {a: {key: ip, limit: 1/s, overrides: {acme: 1/s}}}\n", `f:1:49: overrides: "acme" is not an address or a network such as 10.0.0.0/8`},
		{"policies: {a: {key: ip, limit: 1/s, overrides: {192.0.2.1: 1/s, 192.0.2.1/32: 2/s}}}\n", `f:1:65: overrides: "192.0.2.1/32" is here twice, first in line 1`},
		{"policies: {a: {key: ip, limit: 1/s, overrides: {192.0.2.1: 5/x}}}\n", `f:1:60: "5/x": unknown time`},
		{"policies: {a: {key: ip, limit: 1/s, overrides: {192.0.2.1: }}}\n", `f:1:60: 192.0.2.1 has no limit, want one such as 1000/s, or unlimited`},
		{"policies: {a: {key: ip, limit: 1/s, overrides: {192.0.2.1: {x: 1/s}}}}\n", `f:1:60: a limit is a mapping, want a text`},
		{"policies: {a: {key: host, limit: 1/s, overrides: {a b: 1/s}}}\n", `f:1:51: overrides: "a b" is not a host`},
		{"policies: {a: {key: path:1, limit: 1/s, overrides: {a/b: 1/s}}}\n", `f:1:53: overrides: "a/b" is not one segment of a path`},
		{"policies: {a: {key: pattern, limit: 1/s, overrides: {/b: 1/s}}}\nroutes: {/a: a}\n", `f:1:54: overrides: no route has the pattern "/b"`},
		{"global: {limit: concurrency 5 fair-share, flow: ip}\n", "f:1:49: flow requires max-wait, because only requests that wait have an order; add one"},
		{"global: {limit: concurrency 5 queue 9, flow: ip, max-wait: 1s}\n", "f:1:46: flow requires a limit with fair-share"},
		{"global: {limit: 1/s queue 9 fair-share, weights: {a: 2}, max-wait: 1s}\n", "f:1:50: weights requires a flow of one part, such as flow: header:X-Api-Key"},
		{"global: {limit: 1/s queue 9 fair-share, flow: [ip, host], weights: {a: 2}, max-wait: 1s}\n", "weights requires a flow of one part"},
		{"global: {limit: 1/s queue 9 fair-share, flow: host, weights: {a: 0}, max-wait: 1s}\n", `the weight of "a" is "0", want a number from 1 to 1048576`},
		{"global: {limit: 1/s queue 9 fair-share, flow: host, weights: {a: 2, A: 3}, max-wait: 1s}\n", `weights: "A" is here twice`},
		{"global: {limit: 1/s queue 9 fair-share, flow: ip, weights: {a: 2}, max-wait: 1s}\n", `weights: "a" is not the address of a client`},
		{"global: {limit: 1/s queue 9 fair-share, flow: age, max-wait: 1s}\n", `flow is "age", want ip, header:NAME`},
		{"policies: {none: {limit: 1/s}}\n", `f:1:12: policy name "none" is reserved`},
		{"policies: {global: {limit: 1/s}}\n", `policy name "global" is reserved`},
		{"policies: {a b: {limit: 1/s}}\n", "a name has"},
		{"routes: {/: nosuch}\n", `f:1:10: route "/": no policy is named "nosuch"`},
		{"policies: {a: {limit: 1/s}}\nroutes: {/: [a, a]}\n", "twice"},
		{"policies: {a: {limit: 1/s}}\nroutes: {/: [a, none]}\n", "cannot be combined with policies"},
		{"routes: {'/{a}/b': [], '/c/{d}': []}\n", "conflicts"},
		{"redis-budget: 0\n", "f:1:15: redis-budget is 0, want a duration such as 200ms; omit it for 50ms"},
		{"redis-timeout: 0\n", "f:1:16: redis-timeout is 0, want a duration such as 200ms; omit it for 50ms"},
		{"listen: *nosuch\n", "f:1:9: error loading config file: unknown anchor 'nosuch' referenced"},
		{"listen: ':1'\n---\nlisten: ':2'\n", "second document"},
	} {
		_, err := config.Parse("f", []byte(test.text))
		if assert.Error(t, err, "%s", test.text) {
			assert.Contains(t, err.Error(), test.want, "%s", test.text)
		}
	}
}

// TestUnlimited: a file that limits nothing says why.
func TestUnlimited(t *testing.T) {
	for text, want := range map[string]string{
		"host: keep\n":                         "add global, or policies and routes that use them",
		"policies: {a: {limit: 5/s}}\n":        "add global, or policies and routes that use them",
		"global: {limit: 5/s, shadow: true}\n": "policies in shadow reject nothing; remove shadow to enforce them",
		"global: {limit: unlimited}\n":         "all limits are unlimited",
		"connections: unlimited\npolicies: {a: {limit: 5/s, shadow: true}}\nroutes: {/: a}\n": "all limits are unlimited",
		"global: {limit: 5/s}\n":                             "",
		"connections: concurrency 5\n":                       "",
		"policies: {a: {download: 1MB/s}}\nroutes: {/: a}\n": "",
		"policies: {a: {key: ip, limit: unlimited, overrides: {10.0.0.0/8: 5/s}}}\nroutes: {/: a}\n": "",
	} {
		c, err := config.Parse("f", []byte(text))
		require.NoError(t, err, text)
		assert.Equal(t, want, c.Unlimited(), text)
	}
}

// TestWarnings: a setting without effect is reported, but is not an error.
func TestWarnings(t *testing.T) {
	const policies = "policies:\n  used: {limit: 1/s}\n  open: {limit: 1/s, fail-open: true}\n"
	for _, test := range []struct {
		text string
		want []string
	}{
		{policies + "routes: {/: [used, open]}\n", []string{"f:3:33: warning: fail-open of policy \"open\" has no effect without redis"}},
		{policies + "routes: {/: [used, open]}\nredis: redis://h\n", nil},
		{policies + "redis: redis://h\n", []string{
			"f:2:3: warning: no route has policy \"used\"", "f:3:3: warning: no route has policy \"open\"",
		}},
		{"global: {limit: 1/s, fail-open: true}\n", []string{"f:1:33: warning: fail-open of global has no effect without redis"}},
		{"global: {limit: 1/s, fail-open: false}\n", nil},
	} {
		c, err := config.Parse("f", []byte(test.text))
		require.NoError(t, err, test.text)
		var got []string
		for _, w := range c.Warnings() {
			got = append(got, w.Error())
		}
		assert.Equal(t, test.want, got, test.text)
	}
}

// TestBackends: requests to this proxy itself would come back forever.
func TestBackends(t *testing.T) {
	const itself = `to is %q, where listen is`
	for _, test := range []struct{ listen, to, want string }{
		{"127.0.0.1:8080", "http://127.0.0.1:8080", itself},
		{"127.0.0.1:8080", "http://localhost:8080", itself},
		{":8080", "http://127.0.0.1:8080/base", itself},
		{":8080", "http://[::1]:8080", itself},
		{"0.0.0.0:8080", "http://localhost:8080", itself},
		{":80", "http://localhost", itself},
		{":443", "h2://localhost", itself},
		{"127.0.0.1:8080", "http://127.0.0.1:9000", ""},
		{":8080", "http://backend.example:8080", ""},
		{"127.0.0.1:8080", "http://192.0.2.1:8080", ""},
		{":1", "http://h:99999", "to is %q, want a URL such as http://127.0.0.1:9000"},
		{":1", "h:1", "to is %q, want a URL"},
		{":1", "http://:80", "to is %q, want a URL"},
		{":1", "ftp://h", "to is %q, want a URL"},
		{":1", "http://h?x", "to is %q, want a URL"},
		{":1", ":1", "to is %q, want a URL"},
		{":1", "http://user:secret@h", "to has a user name, but the proxy does not log in to backends"},
	} {
		c, err := config.Parse("f", []byte("listen: '"+test.listen+"'\nto: '"+test.to+"'\n"))
		require.NoError(t, err)
		_, err = c.Backends()
		if test.want == "" {
			require.NoError(t, err, test.to)
			continue
		}
		require.ErrorContains(t, err, "f:2:5: "+strings.Replace(test.want, "%q", strconv.Quote(test.to), 1))
	}
}

// TestFaultsBelowFaults: what is below a wrong name is checked, too.
func TestFaultsBelowFaults(t *testing.T) {
	for _, text := range []string{
		"policies: {a: {key: age, limit: 1/s, overrides: {acme: 5/x}}}\n",
		"policies: {a: {key: ip, limit: 1/s, overrides: {acme: 5/x}}}\n",
		"global: {limit: 1/s queue 9 fair-share, flow: ip, weights: {acme: 5/x}, max-wait: 1s}\n",
	} {
		_, err := config.Parse("f", []byte(text))
		assert.ErrorContains(t, err, `"5/x"`, text)
		assert.Contains(t, err.Error(), "\n", text)
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

// TestSegments: a path has one reading of each segment that is a part of a key or a flow of its route.
func TestSegments(t *testing.T) {
	const limit = "{limit: concurrency 5 queue 5 fair-share, max-wait: 1s, "
	for text, ambiguous := range map[string]bool{
		"global: " + limit + "key: path:1}\n":                          true,
		"global: " + limit + "flow: path:1}\n":                         true,
		"policies: {a: " + limit + "key: path:1}}\nroutes: {/: a}\n":   true,
		"policies: {a: " + limit + "flow: path:1}}\nroutes: {/: a}\n":  true,
		"global: " + limit + "key: path:3}\n":                          false,
		"global: " + limit + "key: path:1}\nroutes: {/: none}\n":       false,
		"policies: {a: " + limit + "flow: path:1}}\nroutes: {/: []}\n": false,
	} {
		c, err := config.Parse("f", []byte(text))
		require.NoError(t, err, text)
		u, err := url.ParseRequestURI("/x;v=1/y")
		require.NoError(t, err)
		found := c.Mux.Match(&http.Request{Method: http.MethodGet, Host: "h", URL: u})
		assert.Equal(t, ambiguous, found.Answer != nil, text)
	}
}
