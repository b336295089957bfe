//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProxiesShareALimit: what one proxy has granted counts in the other, per client; while Redis is unreachable, a policy
// that fails open lets requests pass, and the others respond with 503.
func TestProxiesShareALimit(t *testing.T) {
	t.Parallel()
	url, redis := redisServer(t)
	proxies := twoProxies(t, configOf(helloServer(t).URL, "redis: "+url+`
redis-timeout: 1m
policies:
  each: {key: "header:X-Client", limit: fixed 4/1000d, download: 10MiB/s}
  open: {limit: fixed 4/1000d, fail-open: true}
routes: {/: each, /open: open}
`))
	statuses := make(map[int]int)
	for i := range 10 {
		statuses[proxies[i%2].asks("/", "a {curly}")]++
	}
	assert.Equal(t, map[int]int{200: 4, 429: 6}, statuses)
	require.NoError(t, redis.Kill())
	for i := range 4 {
		assert.Equal(t, http.StatusServiceUnavailable, proxies[i%2].asks("/", "another"))
		assert.Equal(t, http.StatusOK, proxies[i%2].asks("/open", "another"))
	}
}

// TestProxyWatchesRedis: without requests too, the proxy notices that Redis no longer decides and that it decides again; in
// between, policies log nothing and the admin server does not invent what a key has left.
func TestProxyWatchesRedis(t *testing.T) {
	t.Parallel()
	redis := newRedisServer(t)
	redis.end()
	s := startProxy(t, configOf(helloServer(t).URL, "redis: "+redis.url+`
redis-timeout: 1m
policies:
  each: {key: "header:X-Client", limit: fixed 4/1000d}
  open: {limit: fixed 4/1000d, fail-open: true}
routes: {/: each, /open: open}
`))
	const unreachable = "^sluice proxy: redis is unreachable: .*; requests get 503, or pass where fail-open is true, until it decides again; retrying$"
	assert.Regexp(t, unreachable, s.line(s.errs))
	assert.Equal(t, 503, s.asks("/", "a"))
	assert.Equal(t, 200, s.asks("/open", "a"))
	_, metrics := s.admins("GET", "/metrics")
	assert.Contains(t, metrics, "sluice_proxy_redis_up 0\n")
	status, body := s.admins("GET", "/limits/each?key=a")
	assert.Equal(t, 503, status)
	assert.Contains(t, body, "redis is unreachable: ")
	redis.start()
	assert.Equal(t, "sluice proxy: redis is reachable again; it decides", s.line(s.errs))
	_, metrics = s.admins("GET", "/metrics")
	assert.Contains(t, metrics, "sluice_proxy_redis_up 1\n")
	status, body = s.admins("GET", "/limits/each?key=a")
	assert.Equal(t, 200, status, body)
	redis.end()
	assert.Regexp(t, unreachable, s.line(s.errs))
}

// TestResetOnRedis: a reset by one proxy applies to all of them immediately: of one key, which that proxy may never have seen, and of
// all keys that it has.
func TestResetOnRedis(t *testing.T) {
	t.Parallel()
	url, redis := redisServer(t)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("costs") {
			w.Header().Set("X-Cost", r.URL.Query().Get("costs"))
		}
		_, _ = io.WriteString(w, "hello")
	}))
	defer backend.Close()
	proxies := twoProxies(t, configOf(backend.URL, "redis: "+url+`
redis-timeout: 1m
policies:
  each: {key: ["header:X-Client", path:1], limit: fixed 1/1000d, settle: X-Cost, overrides: {vip: 2/h burst 2}}
  eachother: {key: "header:X-Client", limit: fixed 1/1000d}
routes: {/: each, /other: eachother}
`))
	asks := func(i int, path, client string) int { return proxies[i].asks(path, client) }
	resets := func(i int, query string) (int, string) { return proxies[i].admins("POST", "/limits/each/reset"+query) }
	locked := func(i int, path, client string) {
		require.Equal(t, 200, asks(i, path, client), client)
		for asks(i, path, client) == 200 { // an override has two
		}
	}
	letsIn := func(i int, path, client string) {
		require.Eventually(t, func() bool { return asks(i, path, client) == 200 }, time.Minute, time.Millisecond)
	}

	locked(0, "/a", "both")
	require.Equal(t, 429, asks(1, "/a", "both"), "it remembers that")
	status, body := resets(1, "?key=both&key=a")
	require.Equal(t, 200, status, body)
	require.JSONEq(t, `{"reset": 1}`, body)
	letsIn(0, "/a", "both")
	require.Equal(t, 429, asks(0, "/a", "both"))

	status, body = resets(1, "?key=unseen&key=a")
	require.Equal(t, 200, status, body)
	require.JSONEq(t, `{"reset": 0}`, body)

	locked(0, "/a?costs=1000000", "debtor")
	status, body = resets(1, "?key=debtor&key=a") // which it has never seen
	require.Equal(t, 200, status, body)
	letsIn(0, "/a", "debtor")

	locked(0, "/a", "known")
	locked(0, "/a", "next")
	told := clientOf(t, url).Publish(t.Context(), "sluice/reset", `{"from": "another", "policy": "each", "key": ["known", "a"]}`)
	require.NoError(t, told.Err())
	status, body = resets(1, "?key=next&key=a")
	require.Equal(t, 200, status, body)
	letsIn(0, "/a", "next")
	require.Equal(t, 429, asks(0, "/a", "known"), "the proxy that is told of a reset does not reset again")

	for _, client := range []string{"one", "two/three", "{4} *?", "vip", ""} {
		locked(0, "/b", client)
		require.Equal(t, 429, asks(1, "/b", client))
	}
	locked(1, "/other", "one")
	status, body = resets(1, "")
	require.Equal(t, 200, status, body)
	for _, client := range []string{"one", "two/three", "{4} *?", "vip", ""} {
		letsIn(0, "/b", client)
	}
	require.Equal(t, 429, asks(1, "/other", "one"), "a policy whose name starts with the same letters")

	require.NoError(t, redis.Kill())
	status, body = resets(0, "?key=one&key=b")
	require.Equal(t, 503, status, body)
	require.Contains(t, body, "redis is unreachable")
}

// TestResetsWithoutPermission: Redis lets the proxies use the limits, but not the channel of resets, until it does.
func TestResetsWithoutPermission(t *testing.T) {
	t.Parallel()
	url, _ := redisServer(t)
	c := clientOf(t, url)
	require.NoError(t, c.Do(t.Context(), "acl", "setuser", "default", "resetchannels").Err())
	s := start(t, programs(t), "sluice", "proxy", "--config", fileOf(t, "limits.yaml", configOf(helloServer(t).URL, "redis: "+url+`
redis-timeout: 1m
policies: {each: {key: "header:X-Client", limit: fixed 1/1000d}}
routes: {/: each}
`)))
	assert.Regexp(t, "cannot subscribe to sluice/reset: redis refused: NOPERM .*; resets by other proxies do not reach this one; retrying$", s.line(s.errs))
	address, admin := s.addressAfter("sluice proxy: listening on "), s.addressAfter("sluice proxy: admin on ")
	require.Equal(t, 200, statusOf(t, "http://"+address+"/", "a"))
	reset := func() (int, string) {
		a, err := http.Post("http://"+admin+"/limits/each/reset?key=a", "", nil)
		require.NoError(t, err)
		return a.StatusCode, bodyOf(t, a)
	}
	status, body := reset()
	assert.Equal(t, 503, status)
	assert.Regexp(t, `^reset 1 limiter \(one key\), but the other proxies were not notified and may reject until .*: redis refused: NOPERM`, body)
	assert.Contains(t, s.line(s.errs), `policy each: reset 1 limiter (one key), but the other proxies were not notified`)
	require.NoError(t, c.Do(t.Context(), "acl", "setuser", "default", "allchannels").Err())
	assert.Contains(t, s.line(s.errs), "subscribed to sluice/reset; resets by other proxies reach this one again")
	status, _ = reset()
	assert.Equal(t, 200, status)
}

// twoProxies starts two proxies of a configuration.
func twoProxies(t *testing.T, config string) (proxies [2]*proxy) {
	t.Helper()
	for i := range proxies {
		proxies[i] = startProxy(t, config)
	}
	return proxies
}

// replace puts a file with a text in place of another, as editors do.
func replace(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}

// clientOf returns a client of a server.
func clientOf(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	require.NoError(t, err)
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestReloadOnRedis: a limit on the server is the same for a proxy whose file has changed and for one that starts with
// that file, and one of another kind is another limit.
func TestReloadOnRedis(t *testing.T) {
	t.Parallel()
	url, _ := redisServer(t)
	config := configOf(helloServer(t).URL, "redis: "+url+"\nredis-timeout: 1m\nglobal: {%s}\n")
	first := startProxy(t, fmt.Sprintf(config, "limit: fixed 3/1000d"))
	becomes := func(limits string) {
		replace(t, first.file, fmt.Sprintf(config, limits))
		require.Contains(t, first.line(first.errs), "reloaded ")
	}
	var got []int
	asks := func(p *proxy) { got = append(got, p.asks("", "a")) }
	asks(first)
	becomes("limits: [fixed 3/1000d, concurrency 5]")
	second := startProxyOf(t, first.file)
	for _, p := range []*proxy{second, first, second, first} {
		asks(p)
	}
	becomes("limit: sliding 1/1000d")
	asks(first)
	asks(first)
	assert.Equal(t, []int{200, 200, 200, 429, 429, 200, 429}, got)
}

// TestProxyIsWarm: the server of Redis has the connections and the scripts before the proxy serves, and before new limits
// apply; a request opens none and sends no script.
func TestProxyIsWarm(t *testing.T) {
	t.Parallel()
	url, _ := redisServer(t)
	c := clientOf(t, url)
	seen := func() (scripts, connections, asked int) {
		text, err := c.Info(t.Context(), "stats", "commandstats").Result()
		require.NoError(t, err)
		number := func(before string) (n int) {
			_, text, _ := strings.Cut(text, before)
			for i := 0; i < len(text) && '0' <= text[i] && text[i] <= '9'; i++ {
				n = n*10 + int(text[i]-'0')
			}
			return n
		}
		return number("cmdstat_eval:calls=") + number("cmdstat_script|load:calls="), number("total_connections_received:"), number("cmdstat_evalsha:calls=")
	}
	_, others, _ := seen()
	config := configOf(helloServer(t).URL, "redis: "+url+"\nredis-timeout: 1m\nglobal: {%s}\n")
	s := startProxy(t, fmt.Sprintf(config, "limit: 100/s burst 100, key: ip"))
	for _, next := range []string{"limits: [fixed 10/h, concurrency 5]", "limits: [sliding 10/h, 100/s]"} {
		scripts, connections, asked := seen()
		require.Positive(t, scripts)
		require.Greater(t, connections, others)
		require.Equal(t, http.StatusOK, s.asks("", "a"))
		scriptsThen, connectionsThen, askedThen := seen()
		assert.Greater(t, askedThen, asked, "the request asks")
		assert.Equal(t, scripts, scriptsThen)
		assert.Equal(t, connections, connectionsThen)
		replace(t, s.file, fmt.Sprintf(config, next))
		assert.Contains(t, s.line(s.errs), "reloaded ")
	}
}

// TestRedisIsAway: a proxy starts, and its policies decide, whether Redis refuses connections or never answers.
func TestRedisIsAway(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	backend := helloServer(t)
	for _, l := range []net.Listener{silent, closed} {
		s := startProxy(t, configOf(backend.URL, "redis: redis://"+l.Addr().String()+`
policies: {strict: {limit: 100/s}, open: {limit: 100/s, fail-open: true}}
routes: {/: strict, /open: open}
`))
		for path, want := range map[string]int{"/": 503, "/open": 200} {
			assert.Equal(t, want, s.asks(path, "a"), path)
		}
	}
}

// TestPermissions: with the ACL line of docs/proxy.md, proxy and wait do what they promise.
func TestPermissions(t *testing.T) {
	t.Parallel()
	url, _ := redisServer(t)
	page, err := os.ReadFile("../../docs/proxy.md")
	require.NoError(t, err)
	_, text, found := strings.Cut(string(page), "ACL SETUSER ")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "```")
	words := []any{"ACL", "SETUSER"}
	for _, word := range append(strings.Fields(text), "~{job}:*", "&{job}:*") {
		words = append(words, word)
	}
	require.NoError(t, clientOf(t, url).Do(t.Context(), words...).Err())
	url = strings.Replace(url, "unix://", "unix://limiter:secret@", 1)
	s := startProxy(t, configOf(helloServer(t).URL, "redis: "+url+`
redis-timeout: 1m
policies:
  each: {key: "header:X-Client", limits: [10/1000d, fixed 10/1000d, sliding 10/1000d, fixed 10/year, concurrency 2], download: 10MiB/s}
routes: {/: each}
`))
	assert.Equal(t, http.StatusOK, s.asks("/", "a"))
	for _, query := range []string{"", "?key=a"} {
		status, body := s.admins("POST", "/limits/each/reset"+query)
		assert.Equal(t, http.StatusOK, status, body)
	}
	wait := func(key string, args ...string) (int, string, string) {
		return start(t, programs(t), "sluice", append([]string{"wait", "--redis", url, "--key", key}, args...)...).ends()
	}
	status, _, errs := wait("job", "--limit", "concurrency 1", "--", "true")
	assert.Zero(t, status, errs)
	status, _, errs = wait("job", "--limit", "concurrency 2")
	assert.Zero(t, status)
	assert.Equal(t, "sluice wait: key job: using limit \"concurrency 2\", but \"concurrency 1\" was used last\n", errs)
	status, _, errs = wait("another", "--limit", "concurrency 1")
	assert.Equal(t, 1, status)
	assert.Regexp(t, "^sluice wait: redis refused: NOPERM ", errs)
}
