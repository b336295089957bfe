package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReloadUnderLoad: no request fails while the file changes, and what is held stays counted.
func TestReloadUnderLoad(t *testing.T) {
	b := backendOf(t, hello)
	text := func(i int) string {
		return fmt.Sprintf(`to: %s
headers: %s
global: {limit: concurrency %d}
policies:
  api: {key: ip, limit: %d/s burst %d}
  p%d: {limit: 10/s}
routes:
  "/": api
  "/p%d/": p%d
`, b.URL, []string{"draft-11", "x-ratelimit"}[i%2], 100+i, 1000000+i, 1000000, i, i, i)
	}
	p := serves(t, nil, text(0))
	held := p.limiter(0).TryAcquire(7)
	require.True(t, held.Acquired())
	var stop atomic.Bool
	var failed, done atomic.Int64
	var w sync.WaitGroup
	for range 4 {
		w.Go(func() {
			for !stop.Load() {
				a, err := http.Get("http://" + p.address + "/x")
				if err != nil || a.StatusCode != http.StatusOK {
					failed.Add(1)
				}
				if err == nil {
					_, _ = io.Copy(io.Discard, a.Body)
					_ = a.Body.Close()
				}
				done.Add(1)
			}
		})
	}
	for i := 1; i <= 100; i++ {
		p.becomes(text(i))
		for at := done.Load(); done.Load() == at; { // each is met by requests
			_, _ = p.asks("GET", "/x")
		}
	}
	stop.Store(true)
	w.Wait()
	assert.Zero(t, failed.Load(), "of %d", done.Load())
	assert.NotContains(t, p.said.String(), "reload failed")
	s := p.limiter(0).Statistics()
	assert.Equal(t, 200, s.Limit)
	assert.Equal(t, 193, s.Available)
	held.Release()
}

// TestReloadInFlight: what is in flight when the file changes counts under the new numbers, is refunded to the limiter
// that it was taken from, and gets its turn even in the queue of a policy that is gone. A raised limit serves those that wait.
func TestReloadInFlight(t *testing.T) {
	came, hold := make(chan struct{}, 5), make(chan struct{})
	b := backendOf(t, func(w http.ResponseWriter, _ *http.Request) {
		came <- struct{}{}
		<-hold
		_, _ = io.WriteString(w, "hello")
	})
	p := serves(t, nil, "to: "+b.URL+`
global: {limit: concurrency 7}
policies:
  stays: {limits: [fixed 2/1h, sliding 9/1h], count: failures}
  goes:  {limit: concurrency 1 queue 1, max-wait: 1m}
  grows: {limit: concurrency 1 queue 1, max-wait: 1m}
routes: {/stays: stays, /goes: goes, /grows: grows}
`)
	goes, grows := p.limiter(2), p.limiter(3)
	var all sync.WaitGroup
	for _, path := range []string{"/stays", "/goes", "/goes", "/grows", "/grows"} {
		all.Go(func() {
			a, err := http.Get("http://" + p.address + path)
			if assert.NoError(t, err) {
				assert.Equal(t, http.StatusOK, a.StatusCode, path)
				_ = a.Body.Close()
			}
		})
	}
	for range 3 {
		<-came
	}
	for _, l := range []limiter{goes, grows} {
		require.Eventually(t, func() bool { return l.Statistics().Queued == 1 }, time.Minute, time.Millisecond)
	}
	p.becomes("to: " + b.URL + `
global: {limit: concurrency 6}
policies:
  stays: {limits: [fixed 3/1h, sliding 9/1h], count: failures}
  grows: {limit: concurrency 2 queue 1, max-wait: 1m}
routes: {/stays: stays, /grows: grows, /: []}
`)
	<-came
	assert.Equal(t, 1, p.left(0))
	assert.Equal(t, 2, p.left(1))
	close(hold)
	all.Wait()
	p.eventually(6)
	assert.Equal(t, 3, p.left(1))
	assert.Equal(t, 1, goes.Available())
}

// TestReloadOtherLimits: a request in flight is refunded to the limits that stay, or charged what it has cost, also when others come and
// go beside them.
func TestReloadOtherLimits(t *testing.T) {
	came, hold := make(chan struct{}), make(chan struct{})
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			came <- struct{}{}
			<-hold
		}
		w.Header().Set("X-Cost", "2")
		hello(w, r)
	})
	text := func(limits string) string {
		return "to: " + b.URL + "\npolicies:\n  a: {key: ip, limits: [" + limits + "], count: failures}\n" +
			"  s: {key: ip, limits: [" + limits + "], settle: X-Cost}\nroutes: {/: a, /settles: s}\n"
	}
	all := []string{"fixed 3/1h", "fixed 3/1h, concurrency 9", "fixed 3/1h, sliding 9/1h", "fixed 3/1h"}
	p := serves(t, nil, text(all[0]))
	var w sync.WaitGroup
	for i, limits := range all {
		p.becomes(text(limits))
		paths := []string{"/held"}
		switch i {
		case 0:
			paths = append(paths, "/settles")
		case 3:
			paths = nil
		}
		for _, path := range paths {
			w.Go(func() {
				status, _ := p.asks("GET", path)
				assert.Equal(t, 200, status)
			})
			<-came
		}
	}
	assert.Zero(t, p.grants(1, "/?wrong"))
	close(hold)
	w.Wait()
	assert.Equal(t, []int{1}, p.leftOf("s", "127.0.0.1"))
	for range 3 {
		status, _ := p.asks("GET", "/?wrong")
		assert.Equal(t, 403, status)
	}
	status, _ := p.asks("GET", "/?wrong")
	assert.Equal(t, 429, status)
}

// TestReloadTrusted: a proxy is believed once the file says so.
func TestReloadTrusted(t *testing.T) {
	text := "to: " + backendOf(t, hello).URL + "\nglobal: {key: ip, limit: fixed 1/1h}\n"
	p := serves(t, nil, text)
	for _, client := range []string{"192.0.2.1", "192.0.2.2"} {
		_, _ = p.asks("GET", "/", "X-Forwarded-For", client)
	}
	assert.Zero(t, p.grants(1, "/", "X-Forwarded-For", "192.0.2.3"), "clients cannot say who they are")
	p.becomes(text + "trusted: 127.0.0.0/8\n")
	assert.Equal(t, 1, p.grants(2, "/", "X-Forwarded-For", "192.0.2.3"))
}

func TestBadFileChangesNothing(t *testing.T) {
	b := backendOf(t, hello)
	secure := httptest.NewTLSServer(http.HandlerFunc(hello))
	defer secure.Close()
	cert, key := certificate(t, secure)
	good := "to: " + b.URL + "\nglobal: {limit: fixed 1000/1h}\n"
	p := serves(t, nil, good)
	state := p.state.Load()
	for _, test := range []struct{ text, say string }{
		{"", "to is missing"},
		{"to: [", "limits.yaml:2:5: error loading config file"},
		{"to: 9\nglobal: {limit: many, status: 9}\n", `limits.yaml:3:17: "many"`},
		{"to: 9\nglobal: {limit: many, status: 9}\n", "limits.yaml:3:31: status"},
		{"to: 9\n", `limits.yaml:2:5: to is "9"`},
		{good + "admin: 127.0.0.1:1\n", "limits.yaml:4:8: admin: changing it"},
		{good + "tls: {cert: nosuch, key: nosuch}\n", "limits.yaml:4:13: tls: open nosuch"},
		{good + "redis: redis://:secret@127.0.0.1:1/0\n", "limits.yaml:4:8: redis: changing it requires a restart"},
		{good + "policies: {a: {key: host, limit: 1/s, overrides: {h: sliding 10/5ns}}}\nroutes: {/: a}\n", `"segments": 10 are more than the 5 nanoseconds`},
		{good + "keys: 7\n", "keys: changing it requires a restart"},
		{good + "redis-timeout: 7s\n", "redis-timeout: changing it requires a restart"},
		{good + "tls: {cert: " + cert + ", key: " + key + "}\n", "tls: switching TLS on or off requires a restart"},
	} {
		p.becomes(test.text)
		assert.Contains(t, p.said.String(), test.say)
		assert.Same(t, state, p.state.Load())
	}
	write(t, p.file, "")
	p.reload(true)
	assert.Contains(t, p.said.String(), "limits.yaml:1:1: the file is empty")
	require.NoError(t, os.Remove(p.file))
	p.reload(true)
	assert.Contains(t, p.said.String(), "no such file")
	assert.Same(t, state, p.state.Load())
	assert.NotContains(t, p.said.String(), "secret")
	status, _ := p.asks("GET", "/")
	assert.Equal(t, 200, status)
}

// FuzzLoad: whatever the file, there is a proxy, or each line that is said has a place.
func FuzzLoad(f *testing.F) {
	const start = "listen: 127.0.0.1:0\nto: http://127.0.0.1:9000\n"
	for _, text := range []string{
		start,
		start + "global: {limit: concurrency 500 queue 200 newest-first, status: 503, max-wait: 2s}\n",
		start + "policies: {api: {key: ip, limit: 100/s burst 200}, b: {key: 'header:A', limits: [10/h, concurrency 1], download: 2MiB/s}}\nroutes: {/: [api, b]}\n",
		start + "redis: redis://127.0.0.1:1/0\npolicies: {a: {key: host, limit: sliding 5/1m segments 5}, b: {key: pattern, limit: fixed 1/d, upload: 9EiB/s}}\n",
		start + "redis: 'redis://127.0.0.1:1/x?y=z'\nglobal: {limit: concurrency 9223372036854775807}\n",
		start + "global: {key: host, limit: 9223372036854775807/ns burst 9223372036854775807}\n",
		start + "tls: {cert: /dev/null, key: /dev/null}\n",
		start + "policies: {a: {key: [ip, 'header:A', path:2], limits: [9/s, sliding 9/1m], cost: 3, settle: X-Cost, shadow: true, overrides: {10.0.0.0/8: {a: {b: unlimited}}, 192.0.2.1: 5/s}}}\nroutes: {/a: a, /: []}\n",
		start + "policies: {a: {key: pattern, limit: 1/s, overrides: {/a: concurrency 9007199254740993}}}\nroutes: {/a: a}\nredis: redis://127.0.0.1:1/0\n",
		"---\r\nlisten: :8080\r\nto: http://h:1\r\nroutes:\r\n  /: []\r\n...\r\n",
		"\ufefflisten: ':80'\nto: http://h\n",
		"{listen: ':80', to: http://h, policies: {a: {limit: 1/s}}, routes: {/: a}}",
		"listen: !!str 80\nto: !!binary aGk=\n<<: {admin: ':1'}\n",
		"listen: |\n  :80\nto: ~\nglobal: null\n",
	} {
		f.Add(text)
	}
	place := regexp.MustCompile(`^limits\.yaml:[1-9][0-9]*:[1-9][0-9]*: .`)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "/dev/") && text != start+"tls: {cert: /dev/null, key: /dev/null}\n" || strings.Contains(text, "/proc") {
			t.Skip("files that may not end")
		}
		t.Chdir(t.TempDir())
		if err := os.WriteFile("limits.yaml", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := New("limits.yaml", t.Logf)
		defer p.Close() //nolint:staticcheck // there is a proxy with an error, too
		if err == nil {
			return
		}
		for line := range bytes.SplitSeq([]byte(err.Error()), []byte("\n")) {
			if !place.Match(line) {
				t.Errorf("%q has no place, of %q", line, err)
			}
		}
	})
}
