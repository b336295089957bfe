package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// slow is a handler that takes a second.
var slow = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
})

// A request whose wait is over is rejected, and nothing is written to a client that has gone.
func TestWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		maxWait, leaves time.Duration // of the client; below 0: it has gone
		want            int           // 0: nothing
		after           time.Duration
		observed        string
	}{
		"served":              {-1, time.Hour, 200, 2 * time.Second, "queued global +1; queued global -1; active global +1; acquired global 1s; active global -1; released global 1s"},
		"MaxWait over":        {400 * time.Millisecond, time.Hour, 429, 400 * time.Millisecond, "queued global +1; queued global -1; global_limiter global 400ms"},
		"the client goes":     {-1, 300 * time.Millisecond, 0, 300 * time.Millisecond, "queued global +1; queued global -1; request_canceled global 300ms"},
		"the client has gone": {time.Hour, -1, 0, 0, "request_canceled global 0s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, l := new(journal), atOnce(t, 1, 1)
				h := limits(t, httplimit.Options{Global: &httplimit.Policy{Limiter: all(l), MaxWait: c.maxWait}, Observer: j}).Handler(slow)
				time.AfterFunc(time.Second, l.TryAcquire(1).Release)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				if c.leaves < 0 {
					leave()
				} else {
					time.AfterFunc(c.leaves, leave)
				}
				start, w := time.Now(), &bare{header: make(http.Header)}
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
				require.Equal(t, c.after, time.Since(start))
				require.Equal(t, c.want == 429, w.status == 429)
				if c.want == 0 {
					require.Equal(t, bare{header: http.Header{}}, *w, "nothing is written")
				}
				require.Equal(t, c.observed, j.read())
				time.Sleep(time.Hour)
				free(t, l)
			})
		})
	}
}

// bare is a ResponseWriter that can write, and no more.
type bare struct {
	header http.Header
	status int
	body   []byte
}

func (b *bare) Header() http.Header {
	if b.header == nil {
		b.header = make(http.Header)
	}
	return b.header
}
func (b *bare) WriteHeader(status int) { b.status = status }
func (b *bare) Write(p []byte) (int, error) {
	b.body = append(b.body, p...)
	return len(p), nil
}

// A rate limiter knows that the wait is hopeless, and when to come back.
func TestHopelessWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: 3500 * time.Millisecond, QueueLimit: 5}))
		h := limits(t, httplimit.Options{Global: &httplimit.Policy{Limiter: all(l), MaxWait: time.Second}}).Handler(ok)
		require.Equal(t, 200, get(h, "/").Code)
		start := time.Now()
		w := get(h, "/")
		require.Equal(t, 429, w.Code)
		require.Equal(t, "4", w.Header().Get("Retry-After"))
		require.Zero(t, time.Since(start))
		time.Sleep(2600 * time.Millisecond)
		require.Equal(t, 200, get(h, "/").Code)
		require.Equal(t, 3500*time.Millisecond, time.Since(start))
	})
}
