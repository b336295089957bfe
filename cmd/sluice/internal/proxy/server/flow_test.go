package server

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
