package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// openFiles returns how many files this process has open; 0 where the system does not tell.
func openFiles() int {
	files, _ := os.ReadDir("/proc/self/fd")
	return len(files)
}

// TestStressClientsThatVanish: clients disconnect, orderly or not, with half a header, half a body, in the queue or amid the response.
// At no time are more requests forwarded than the limit allows, and in the end nothing is left of them: no permit, no debt that no
// one has made, no goroutine and no open file.
func TestStressClientsThatVanish(t *testing.T) {
	const limit, clients, each = 4, 16, 40
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		costly(w, r)
	})
	text := "to: " + b.URL + `
connections: concurrency 1000
global: {limit: concurrency 4 queue 8, max-wait: 1m}
policies: {each: {key: [ip, "header:X-Client"], limit: fixed 1000000/1h, cost: 3, settle: X-Cost}}
routes: {/: each}
`
	p := serves(t, nil, text)
	var forwarded, most atomic.Int64
	forward := p.forward
	p.forward = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := forwarded.Add(1)
		defer forwarded.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		forward.ServeHTTP(w, r)
	})
	p.becomes(text)
	goroutines, files := runtime.NumGoroutine(), openFiles()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for n := range each {
				c, err := net.Dial("tcp", p.address)
				if !assert.NoError(t, err) {
					return
				}
				assert.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
				query := []string{"header=5", "trailer=4", "announced=6", "header=0", ""}[n%5]
				head := fmt.Sprintf("POST /?%s HTTP/1.1\r\nHost: x\r\nX-Client: %d\r\n", query, i)
				switch (n / 5) % 4 {
				case 0:
					_, _ = io.WriteString(c, head)
				case 1:
					_, _ = io.WriteString(c, head+"Content-Length: 10\r\n\r\nhalf")
				case 2:
					_, _ = io.WriteString(c, head+"\r\n")
				case 3:
					_, _ = io.WriteString(c, head+"Content-Length: 4\r\n\r\nbody")
					_, _ = c.Read(make([]byte, 100))
				}
				switch n % 3 {
				case 0:
					_ = c.(*net.TCPConn).SetLinger(0) // a reset
				case 1:
					_ = c.(*net.TCPConn).CloseWrite()
				}
				_ = c.Close()
			}
		})
	}
	all.Wait()
	p.eventually(limit)
	assert.LessOrEqual(t, most.Load(), int64(limit))
	assert.Positive(t, most.Load())
	assert.Zero(t, p.limiter(0).Statistics().Queued)
	require.Eventually(t, func() bool { return *p.state.Load().limits.Connections[0].States()[0].Available == 1000 }, time.Minute, time.Millisecond)
	for i := range clients {
		taken := 1_000_000 - p.leftOf("each", "127.0.0.1", strconv.Itoa(i))[0]
		assert.GreaterOrEqual(t, taken, 0)
		assert.LessOrEqual(t, taken, each*6)
	}
	p.becomes(text + "backend-timeout: 50s\n") // which closes idle connections to backends
	require.Eventually(t, func() bool {
		return runtime.NumGoroutine() <= goroutines+1 && openFiles() <= files // with the goroutine of Eventually
	}, time.Minute, 5*time.Millisecond, "%d goroutines and %d files before", goroutines, files)
}
