package httplimit_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/httplimit"
)

// window is what doc.go says of Server.HTTP2.
var window = &http.HTTP2Config{
	MaxConcurrentStreams: 250, MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 250 * 64 << 10,
}

// serveHTTP2 starts a server, and returns a client that sends all requests over one connection.
func serveHTTP2(t *testing.T, h http.Handler, c *http.HTTP2Config) (url string, client *http.Client) {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols, s.Config.HTTP2, s.Config.ErrorLog = protocols, c, quiet()
	s.Start()
	t.Cleanup(s.Close)
	client = &http.Client{Transport: &http.Transport{Protocols: protocols}}
	t.Cleanup(client.CloseIdleConnections)
	return s.URL, client
}

// told calls once when that many bytes were read from it.
type told struct {
	io.Reader

	left int
	call func()
	once sync.Once
}

func (r *told) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.left -= n; r.left <= 0 {
		r.once.Do(r.call)
	}
	return n, err
}

// A request that waits does not keep the body of the request that holds the permit from arriving, although both share a
// connection and nobody reads the first body.
func TestHTTP2BodyOfAWaitingRequest(t *testing.T) {
	l := atOnce(t, 1, 10)
	began := make(chan struct{}, 2)
	h := limits(t, httplimit.Options{Global: &httplimit.Policy{Limiter: all(l), MaxWait: -1}}).Handler(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began <- struct{}{}
			n, err := io.Copy(io.Discard, r.Body)
			assert.NoError(t, err)
			_, _ = fmt.Fprint(w, n)
		}))
	url, client := serveHTTP2(t, h, window)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	post := func(body io.Reader) chan string {
		answer := make(chan string, 1)
		go func() {
			defer close(answer)
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
			if !assert.NoError(t, err) {
				return
			}
			response, err := client.Do(r)
			if !assert.NoError(t, err) {
				return
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			assert.NoError(t, err)
			answer <- fmt.Sprint(response.StatusCode, " ", string(text))
		}()
		return answer
	}
	body, more := io.Pipe()
	holder := post(body)
	_, err := more.Write(make([]byte, 1000))
	require.NoError(t, err)
	<-began
	full := make(chan struct{})
	waiter := post(&told{Reader: bytes.NewReader(make([]byte, 3<<20)), left: window.MaxReceiveBufferPerStream, call: func() { close(full) }})
	<-full
	_, err = more.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	require.NoError(t, more.Close())
	require.Equal(t, fmt.Sprint("200 ", 1000+(1<<20)), <-holder)
	require.Equal(t, fmt.Sprint("200 ", 3<<20), <-waiter)
}

// A server whose windows let one request stop the others is told of.
func TestHTTP2WindowsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		config *http.HTTP2Config
		policy httplimit.Policy
		warns  bool
	}{
		"by default":          {nil, httplimit.Policy{Limiter: all(atOnce(t, 1, 1)), MaxWait: -1}, true},
		"by default, uploads": {nil, httplimit.Policy{Upload: all(atOnce(t, 1, 1))}, true},
		"in shadow":           {nil, httplimit.Policy{Limiter: all(atOnce(t, 1, 1)), MaxWait: -1, Shadow: true}, false},
		"no waits":            {nil, httplimit.Policy{Limiter: all(atOnce(t, 1, 1))}, false},
		"as documented":       {window, httplimit.Policy{Limiter: all(atOnce(t, 1, 1)), MaxWait: -1}, false},
		"too many streams":    {&http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}, httplimit.Policy{Limiter: all(atOnce(t, 1, 1)), MaxWait: -1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			l := limits(t, httplimit.Options{Global: &c.policy, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			url, client := serveHTTP2(t, l.Handler(ok), c.config)
			for range 2 {
				response, err := client.Post(url, "text/plain", strings.NewReader("body"))
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
			}
			want := 0
			if c.warns {
				want = 1
			}
			require.Equal(t, want, strings.Count(log.String(), "Server.HTTP2"), log.String())
		})
	}
}
