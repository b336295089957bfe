package server

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWaitersFollow: a request that waits is served as soon as its limit is lifted, raised, of another kind, or one of more or fewer
// limits, whether by the file or by PUT, with a key and without, and whether it waited for one of several limits. With a limit that
// rejects everything it is rejected.
func TestWaitersFollow(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "key: ip, "} {
		for _, test := range []struct {
			before, after string
			want          int
		}{
			{"concurrency 1 queue 9", "unlimited", 200},
			{"concurrency 1 queue 9", "concurrency 2 queue 9", 200},
			{"concurrency 1 queue 9", "1000/s", 200},
			{"concurrency 1 queue 9", "concurrency 2 queue 9, 1000/s queue 9", 200},
			{"concurrency 1 queue 9, fixed 200/1h", "concurrency 2 queue 9, fixed 200/1h", 200},
			{"concurrency 1 queue 9, fixed 200/1h", "fixed 200/1h", 200},
			{"fixed 1/1h queue 9", "fixed 9/1h queue 9", 200},
			{"fixed 1/1h queue 9", "sliding 9/1h queue 9", 200},
			{"concurrency 1 queue 9", "blocked", 429},
		} {
			for _, by := range []string{"reload", "PUT"} {
				t.Run(key+test.before+" to "+test.after+" by "+by, func(t *testing.T) {
					t.Parallel()
					came, hold := make(chan struct{}, 2), make(chan struct{})
					b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
						came <- struct{}{}
						if r.URL.Path == "/held" {
							<-hold
						}
						hello(w, r)
					})
					text := func(limit string, wait string) string {
						return "to: " + b.URL + "\npolicies: {a: {" + key + "limit: \"" + limit + "\"" + wait + "}}\nroutes: {/: a}\n"
					}
					p := serves(t, nil, text(test.before, ", max-wait: 2h"))
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
						status, body := p.asksAdmin("PUT", "/limits/a", fmt.Sprintf(`{"limit": %q}`, test.after))
						require.Equal(t, 200, status, body)
					} else {
						// A limit without a queue and a wait do not go together in a file.
						p.becomes(text(test.after+", concurrency 1000 queue 1", ", max-wait: 2h"))
						require.NotContains(t, p.said.String(), "reload failed")
					}
					select {
					case status := <-waits:
						assert.Equal(t, test.want, status)
					case <-time.After(time.Minute):
						t.Error("it still waits")
					}
				})
			}
		}
	}
}

// queued returns how many permits requests wait for under policy a.
func (r *running) queued(client string) (n int) {
	policy := r.state.Load().limits.Policies[0]
	states := policy.States()
	if len(policy.Key) > 0 {
		states, _ = r.state.Load().limits.StatesOf("a", []string{client})
	}
	for _, s := range states {
		n += *s.Queued
	}
	return n
}
