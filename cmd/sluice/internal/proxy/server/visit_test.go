package server

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/accesslog"
)

// logged returns the lines of an access log, once there are n.
func logged(t *testing.T, file string, n int) (all []string) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(file)
		all = strings.Split(string(text), "\n")
		all = all[:len(all)-1]
		return err == nil && len(all) >= n
	}, time.Minute, time.Millisecond)
	return all
}

// TestLogFormats: the formats timed and json have the time that a request took, the policy that rejected it, its backend and
// its status of gRPC, and sluice simulate reads both.
func TestLogFormats(t *testing.T) {
	to := h2cBackend(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/slow" {
			time.Sleep(20 * time.Millisecond)
		}
		w.Header().Set("Content-Type", "application/grpc")
		_, _ = io.WriteString(w, "hello")
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "5")
	})
	for _, format := range []string{"timed", "json"} {
		t.Run(format, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "access.log")
			p := serves(t, nil, "to: "+to+"\naccess-log: {file: "+file+", format: "+format+"}\npolicies: {b: {limit: fixed 1/1h}}\nroutes: {/: [], /b: b}\n")
			c := h2cClient(t)
			before := time.Now()
			for _, path := range []string{"/slow", "/b", "/b?<", "/x/../b"} {
				_, _, _ = p.calls(c, path)
			}
			lines := logged(t, file, 5) // a redirect is followed
			if format == "timed" {
				const times = ` at=\d+\.\d{6} took=\d+\.\d{6}`
				assert.Regexp(t, `"POST /slow HTTP/2.0" 200 5 "-" "Go-http-client/2.0"`+times+` backend=`+to+` grpc=5$`, lines[0])
				assert.Regexp(t, `200 5 .*`+times+` backend=`+to+` grpc=5$`, lines[1])
				assert.Regexp(t, `"POST /b\?< HTTP/2.0" 200 0 .*`+times+` policy=b grpc=8$`, lines[2])
				assert.Regexp(t, `" 307 .*`+times+`$`, lines[3])
			} else {
				var l map[string]any
				require.NoError(t, json.Unmarshal([]byte(lines[2]), &l))
				assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`, l["time"])
				delete(l, "time")
				delete(l, "duration")
				assert.Equal(t, map[string]any{
					"client": "127.0.0.1", "method": "POST", "host": p.address, "path": "/b?<", "protocol": "HTTP/2.0", "status": 200.0,
					"bytes": 0.0, "agent": "Go-http-client/2.0", "policy": "b", "grpc": "8",
				}, l)
				assert.Contains(t, lines[0], `"backend":"`+to+`","grpc":"5"}`)
				assert.Contains(t, lines[2], `"path":"/b?<"`)
			}
			log, err := accesslog.New("")
			require.NoError(t, err)
			n := 0
			for r := range log.Read(strings.NewReader(strings.Join(lines, "\n"))) {
				at := time.Unix(0, r.At)
				assert.False(t, at.Before(before.Truncate(time.Microsecond)), at)
				assert.False(t, at.After(time.Now()), at)
				n++
				if n == 1 {
					assert.GreaterOrEqual(t, r.Took, int64(20*time.Millisecond))
				}
			}
			require.NoError(t, log.Err())
			assert.Equal(t, 5, n)
			assert.Equal(t, 5, log.Durations)
		})
	}
}

// TestAnswersAreCounted: by backend and status, with a line for each request that no backend answered.
func TestAnswersAreCounted(t *testing.T) {
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cut" {
			panic(http.ErrAbortHandler)
		}
		hello(w, r)
	})
	p := serves(t, nil, "to: "+b.URL+"\nadmin: 127.0.0.1:0\nglobal: {limit: fixed 4/1h}\n")
	for _, want := range []struct {
		path   string
		status int
	}{{"/", 200}, {"/?wrong", 403}, {"/cut", 502}} {
		status, _ := p.asks("GET", want.path)
		require.Equal(t, want.status, status)
	}
	assert.Contains(t, p.said.String(), "502 for GET /cut of 127.0.0.1: "+b.URL+": the backend closed the connection before it responded\n")
	p.becomes("to: http://127.0.0.1:1\nadmin: 127.0.0.1:0\nglobal: {limit: fixed 4/1h}\n")
	for _, want := range []int{502, 429} {
		status, _ := p.asks("GET", "/")
		require.Equal(t, want, status)
	}
	assert.Contains(t, p.said.String(), "502 for GET / of 127.0.0.1: http://127.0.0.1:1: dial tcp 127.0.0.1:1: ")
	for _, line := range []string{
		`sluice_proxy_responses_total{backend="` + b.URL + `",code="200"} 1`,
		`sluice_proxy_responses_total{backend="` + b.URL + `",code="403"} 1`,
		`sluice_proxy_responses_total{backend="` + b.URL + `",code="502"} 1`,
		`sluice_proxy_responses_total{backend="http://127.0.0.1:1",code="502"} 1`,
		`sluice_proxy_responses_total{backend="none",code="429"} 1`,
		`sluice_proxy_response_seconds_count{backend="` + b.URL + `"} 3`,
		`sluice_proxy_backend_up{backend="http://127.0.0.1:1"} 0`,
	} {
		require.Eventually(t, func() bool { return strings.Contains(p.scraped(), line+"\n") }, time.Minute, time.Millisecond, line)
	}
	assert.NotContains(t, p.scraped(), `sluice_proxy_backend_up{backend="`+b.URL)
}
