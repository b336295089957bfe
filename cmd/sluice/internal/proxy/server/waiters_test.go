package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// changes are changes of a limit and the status of a request that waits meanwhile: the limit is lifted, raised, of another kind, or one
// of more or fewer limits, of which the request waits for one.
var changes = []struct {
	before, after string
	want          int
}{
	{"concurrency 1 queue 9", "unlimited", 200},
	{"concurrency 1 queue 9", "concurrency 2 queue 9", 200},
	{"concurrency 1 queue 9", "concurrency 2", 200},
	{"concurrency 1 queue 9", "1000/s", 200},
	{"concurrency 1 queue 9", "concurrency 2 queue 9, 1000/s queue 9", 200},
	{"concurrency 1 queue 9, fixed 200/1h", "unlimited", 200},
	{"concurrency 1 queue 9, fixed 200/1h", "concurrency 2 queue 9, fixed 200/1h", 200},
	{"concurrency 1 queue 9, fixed 200/1h", "fixed 200/1h", 200},
	{"concurrency 1 queue 9, fixed 200/1h", "fixed 200/1h, concurrency 2 queue 9, 1000/s", 200},
	{"fixed 200/1h, sliding 200/1h, concurrency 1 queue 9", "fixed 200/1h, sliding 200/1h", 200},
	{"fixed 1/1h queue 9", "fixed 9/1h queue 9", 200},
	{"fixed 1/1h queue 9", "sliding 9/1h queue 9", 200},
	{"fixed 1/1h queue 9", "unlimited", 200},
	{"sliding 1/1h queue 9", "sliding 9/1h queue 9, concurrency 5", 200},
	{"1/h queue 9", "1000/s queue 9", 200},
	{"1/h queue 9", "concurrency 2", 200},
	{"concurrency 1 queue 9", "blocked", 429},
	{"concurrency 1 queue 9, fixed 200/1h", "blocked", 429},
}

// TestWaitersFollow: a request that waits is served as soon as the limit allows it, whether the limit is changed by the file or by PUT,
// with a key and without, and for a key with an override. With a limit that rejects everything it is rejected.
func TestWaitersFollow(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]string{
		"no key": "limit: %q", "key": "key: ip, limit: %q", "override": "key: ip, limit: blocked, overrides: {127.0.0.1: %q}",
	} {
		for _, test := range changes {
			for _, by := range []string{"reload", "PUT"} {
				if by == "PUT" && name == "override" {
					continue // PUT leaves overrides alone
				}
				t.Run(name+", "+test.before+" to "+test.after+" by "+by, func(t *testing.T) {
					t.Parallel()
					waiterFollows(t, "", "a", limit, test.before, test.after, by, test.want)
				})
			}
		}
	}
}

// TestWaitersFollowOnRedis: so does a request that waits in a limiter on a Redis server.
func TestWaitersFollowOnRedis(t *testing.T) {
	t.Parallel()
	start := startRedis(t)
	for i, test := range changes {
		for _, by := range []string{"reload", "PUT"} {
			limit := []string{"limit: %q", "key: ip, limit: %q"}[i%2]
			t.Run(test.before+" to "+test.after+" by "+by, func(t *testing.T) {
				t.Parallel()
				waiterFollows(t, start, fmt.Sprintf("%s-%d", by, i), limit, test.before, test.after, by, test.want)
			})
		}
	}
}

// waiterFollows changes the limit of a policy while a request waits for it, and checks the status of that. start is the start of the
// file.
func waiterFollows(t *testing.T, start, policy, limit, before, after, by string, want int) {
	t.Helper()
	came, hold := make(chan struct{}, 2), make(chan struct{})
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		if r.URL.Path == "/held" {
			<-hold
		}
		hello(w, r)
	})
	text := func(l string) string {
		wait := ""
		if strings.Contains(l, "queue") {
			wait = ", max-wait: 2h" // which has no effect without a queue
		}
		return fmt.Sprintf(start+"to: %s\npolicies: {%s: {"+limit+"%s}}\nroutes: {/: %s}\n", b.URL, policy, l, wait, policy)
	}
	p := serves(t, nil, text(before))
	asks := func(path string) <-chan int {
		status := make(chan int, 1)
		go func() {
			a, err := http.Get("http://" + p.address + path)
			if assert.NoError(t, err) {
				_ = a.Body.Close()
				status <- a.StatusCode
			}
		}()
		return status
	}
	held := asks("/held")
	<-came
	defer func() {
		close(hold)
		assert.Equal(t, http.StatusOK, <-held)
	}()
	waits := asks("/waits")
	require.Eventually(t, func() bool { return p.queued("127.0.0.1") == 1 }, time.Minute, time.Millisecond)
	if by == "PUT" {
		status, body := p.asksAdmin("PUT", "/limits/"+policy, fmt.Sprintf(`{"limit": %q}`, after))
		require.Equal(t, 200, status, body)
	} else {
		p.becomes(text(after))
		require.NotContains(t, p.said.String(), "reload failed")
	}
	select {
	case status := <-waits:
		assert.Equal(t, want, status)
	case <-time.After(time.Minute):
		t.Error("it still waits")
	}
}

// startRedis starts a redis-server, or skips the test where there is none. It returns the start of a file of a proxy that uses it.
func startRedis(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server here")
	}
	socket := filepath.Join(t.TempDir(), "redis")
	process := exec.CommandContext(context.WithoutCancel(t.Context()), program, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no")
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, time.Minute, 5*time.Millisecond)
	return "redis: unix://" + socket + "\nredis-timeout: 1m\n"
}

// queued returns how many permits requests wait for under the first policy.
func (r *running) queued(client string) (n int) {
	policy := r.state.Load().limits.Policies[0]
	states := policy.States()
	if len(policy.Key) > 0 {
		states, _ = r.state.Load().limits.StatesOf(policy.Name, []string{client})
	}
	for _, s := range states {
		n += *s.Queued
	}
	return n
}

// TestFlow: requests that wait are let through in turn by API key, by weight: gold has two for each one of free.
func TestFlow(t *testing.T) {
	var mu sync.Mutex
	var order []string
	b := backendOf(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, r.Header.Get("X-Key"))
	})
	p := serves(t, nil, "to: "+b.URL+`
global: {limit: concurrency 1 queue 100 fair-share, flow: "header:X-Key", weights: {gold: 2}, max-wait: 1m}
`)
	l := p.limiter(0)
	lease := l.TryAcquire(1)
	var all sync.WaitGroup
	for i, key := range []string{"free", "free", "free", "free", "gold", "gold", "gold", "gold"} {
		all.Go(func() {
			if status, _ := p.asks("GET", "/", "X-Key", key); status != http.StatusOK {
				t.Errorf("status %d", status)
			}
		})
		require.Eventually(t, func() bool { return l.Statistics().Queued == i+1 }, time.Minute, time.Millisecond)
	}
	lease.Release()
	all.Wait()
	assert.Equal(t, []string{"free", "gold", "gold", "free", "gold", "gold", "free", "free"}, order)

	a, _ := p.sends("GET / HTTP/1.1\r\nHost: h\r\nX-Key: free\r\nX-Key: gold\r\n\r\n")
	assert.Equal(t, http.StatusBadRequest, a.StatusCode, "a backend may read another flow")
}
