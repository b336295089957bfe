package server

import (
	"bytes"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// countedBody is a body of a request that counts what the client has sent.
type countedBody struct {
	io.Reader

	sent atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.sent.Add(int64(n))
	return n, err
}

// stops waits until no more of the body is sent.
func (b *countedBody) stops(t *testing.T) {
	t.Helper()
	before, since := int64(-1), time.Now()
	require.Eventually(t, func() bool {
		if now := b.sent.Load(); now != before || now == 0 {
			before, since = now, time.Now()
		}
		return time.Since(since) > 100*time.Millisecond
	}, time.Minute, time.Millisecond)
}

// TestBodiesOfAConnection: over HTTP/2 the body of a request that waits does not keep back the body of the request that has the only
// permit, although both come over one connection.
func TestBodiesOfAConnection(t *testing.T) {
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	p := serves(t, nil, "to: "+b.URL+"\npolicies: {one: {limit: concurrency 1 queue 10, max-wait: 1m}}\nroutes: {/: one}\n")
	c := h2cClient(t)
	posts := func(body io.Reader) <-chan string {
		done := make(chan string, 1)
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.address+"/", body)
		require.NoError(t, err)
		go func() {
			a, err := c.Do(q)
			if err != nil {
				done <- err.Error()
				return
			}
			_, _ = io.Copy(io.Discard, a.Body)
			_ = a.Body.Close()
			done <- a.Status
		}()
		return done
	}
	from, to := io.Pipe()
	holder := posts(from)
	_, err := to.Write(make([]byte, 1000))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return p.left(0) == 0 }, time.Minute, time.Millisecond)
	waiting := &countedBody{Reader: bytes.NewReader(make([]byte, 3<<20))}
	waiter := posts(waiting)
	waiting.stops(t) // what the proxy takes of it is full
	go func() {
		_, _ = to.Write(make([]byte, 100<<10))
		_ = to.Close()
	}()
	assert.Equal(t, "200 OK", <-holder)
	assert.Equal(t, "200 OK", <-waiter, "it waited for the permit, and not for max-wait")
}
