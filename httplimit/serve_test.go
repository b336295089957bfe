package httplimit_test

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// servers starts a server for each protocol, and calls f with each. What the server has to
// say for itself does not matter.
func servers(t *testing.T, h http.Handler, f func(t *testing.T, s *httptest.Server)) {
	t.Helper()
	for _, protocol := range []string{"HTTP/1.1", "TLS", "HTTP/2"} {
		t.Run(protocol, func(t *testing.T) {
			s := httptest.NewUnstartedServer(h)
			s.Config.ErrorLog = quiet()
			switch protocol {
			case "HTTP/1.1":
				s.Start()
			case "HTTP/2":
				s.EnableHTTP2 = true
				s.StartTLS()
			default:
				s.StartTLS()
			}
			defer s.Close()
			f(t, s)
		})
	}
}

// everyWay runs f with options under which the ResponseWriter is unchanged, or wrapped.
func everyWay(t *testing.T, f func(t *testing.T, o httplimit.Options)) {
	t.Helper()
	ways := wrapping()
	ways["plain"] = httplimit.Options{Global: &httplimit.Policy{Limiter: all(core.Unlimited())}}
	ways["all"] = httplimit.Options{
		Headers: httplimit.XRateLimit,
		Global: &httplimit.Policy{
			Limiter: all(core.Unlimited()), Upload: all(core.Unlimited()), Download: all(core.Unlimited()),
			Refund: func(*http.Request, int) bool { return true },
		},
	}
	for name, o := range ways {
		t.Run(name, func(t *testing.T) { f(t, o) })
	}
}

// A response is streamed, and the trailers of both directions arrive.
func TestStreaming(t *testing.T) {
	everyWay(t, func(t *testing.T, o httplimit.Options) {
		step := make(chan struct{})
		h := limits(t, o).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			assert.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Minute)))
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.Copy(w, r.Body)
			for i := range 3 {
				_, _ = fmt.Fprintf(w, "data: %d\n", i)
				if i == 0 {
					assert.NoError(t, c.Flush())
				} else {
					w.(http.Flusher).Flush()
				}
				select {
				case <-step: // the client has seen it
				case <-r.Context().Done():
					return
				}
			}
			w.Header().Set(http.TrailerPrefix+"Late", r.Trailer.Get("Sent"))
		}))
		servers(t, h, func(t *testing.T, s *httptest.Server) {
			r := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, io.MultiReader(strings.NewReader("body\n"))))
			r.Trailer = http.Header{"Sent": {"yes"}}
			response, err := s.Client().Do(r)
			require.NoError(t, err)
			defer response.Body.Close()
			lines := bufio.NewReader(response.Body)
			require.Equal(t, "body\n", core.Must(lines.ReadString('\n')))
			for i := range 3 {
				require.Equal(t, fmt.Sprintf("data: %d\n", i), core.Must(lines.ReadString('\n')))
				step <- struct{}{}
			}
			require.Empty(t, core.Must(io.ReadAll(lines)))
			require.Equal(t, "yes", response.Trailer.Get("Late"))
		})
	})
}

func TestHijack(t *testing.T) {
	everyWay(t, func(t *testing.T, o httplimit.Options) {
		l := atOnce(t, 1, 0)
		o.Policies = []httplimit.Policy{{Name: "one", Limiter: all(l)}}
		held := limits(t, o).Policy("one")(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if !assert.NoError(t, err) {
				return
			}
			defer conn.Close()
			_, _ = fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
			_ = rw.Flush()
			line, _ := rw.ReadString('\n')
			_, _ = fmt.Fprint(conn, line)
		}))
		ended := make(chan struct{}) // a server forgets a connection that was hijacked
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			held.ServeHTTP(w, r)
		}))
		defer s.Close()
		conn := dial(t, s, "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
		in := bufio.NewReader(conn)
		response, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
		require.Zero(t, l.Available(), "held while the connection is open")
		_, _ = fmt.Fprint(conn, "hello\n")
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "hello\n", line)
		<-ended
		free(t, l)
	})
}

func TestFiles(t *testing.T) {
	content := strings.Repeat("0123456789abcdef", 1<<16)
	file := filepath.Join(t.TempDir(), "file.bin")
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	everyWay(t, func(t *testing.T, o httplimit.Options) {
		h := limits(t, o).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) }))
		servers(t, h, func(t *testing.T, s *httptest.Server) {
			for spec, want := range map[string]string{"": content, "bytes=100-299999": content[100:300000], "bytes=-5": content[len(content)-5:]} {
				r := core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil))
				if spec != "" {
					r.Header.Set("Range", spec)
				}
				response, err := s.Client().Do(r)
				require.NoError(t, err)
				b := core.Must(io.ReadAll(response.Body))
				require.Len(t, b, len(want))
				require.Zero(t, strings.Compare(want, string(b)))
				require.EqualValues(t, len(want), response.ContentLength)
				response.Body.Close()
			}
		})
	})
}

// A file that is throttled goes to the connection slice by slice, but still as a file.
func TestThrottledFilesKeepSendfile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file.bin")
	require.NoError(t, os.WriteFile(name, make([]byte, 1<<20), 0o600))
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	l := core.Must(core.NewTokenBucket(core.PerSecond(1<<30, 1<<20)))
	h := limits(t, httplimit.Options{Global: &httplimit.Policy{Download: all(l)}, Policies: []httplimit.Policy{{Name: "too", Download: all(l)}}}).Policy("too")(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n, err := io.Copy(w, file)
			assert.NoError(t, err)
			assert.EqualValues(t, 1<<20, n)
		}))
	w := &fileSender{}
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Greater(t, w.calls, 1)
	require.EqualValues(t, 1<<20, w.bytes)
}

// fileSender is a ResponseWriter as HTTP/1 has it, that wants files.
type fileSender struct {
	bare
	flusher
	hijacker
	notifier

	calls int
	bytes int64
}

func (s *fileSender) ReadFrom(r io.Reader) (int64, error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		return 0, fmt.Errorf("%T is no slice", r)
	}
	if _, ok := limited.R.(fs.File); !ok {
		return 0, fmt.Errorf("a slice of %T is none of a file", limited.R)
	}
	s.calls++
	n, err := io.Copy(io.Discard, limited)
	s.bytes += n
	return n, err
}

// until waits for something that happens elsewhere.
func until(t *testing.T, happened func() bool) {
	t.Helper()
	require.Eventually(t, happened, time.Minute, time.Millisecond)
}

// A handler that http.TimeoutHandler has given up keeps its permit until it returns.
func TestTimeoutHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, inner := atOnce(t, 1, 0), atOnce(t, 1, 0)
		l := limits(t, httplimit.Options{
			Global:   &httplimit.Policy{Limiter: all(outer)},
			Policies: []httplimit.Policy{{Name: "p", Limiter: all(inner)}},
		})
		done := make(chan struct{})
		h := l.Policy("p")(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
		require.Equal(t, http.StatusServiceUnavailable, get(l.Handler(http.TimeoutHandler(h, time.Millisecond, "slow")), "/").Code)
		free(t, outer)
		require.Zero(t, inner.Available(), "its handler still runs")
		close(done)
		synctest.Wait()
		free(t, inner)
	})
}
