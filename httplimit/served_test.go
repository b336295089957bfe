package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"net"
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

// dial opens a connection to a server, and sends it text.
func dial(t *testing.T, s *httptest.Server, text string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(c, text)
	require.NoError(t, err)
	return c.(*net.TCPConn)
}

// The server removes the temporary files of a multipart form that the handler has parsed.
func TestMultipartFilesAreRemoved(t *testing.T) {
	everyWay(t, func(t *testing.T, o httplimit.Options) {
		dir := t.TempDir()
		t.Setenv("TMPDIR", dir)
		t.Setenv("TMP", dir)
		files := func() int {
			entries, err := os.ReadDir(dir)
			assert.NoError(t, err)
			return len(entries)
		}
		o.Policies = []httplimit.Policy{{Name: "p", Limiter: all(core.Unlimited())}}
		l := limits(t, o)
		s := httptest.NewServer(l.Handler(l.Policy("p")(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			assert.NoError(t, r.ParseMultipartForm(1))
			assert.Equal(t, 1, files())
		}))))
		defer s.Close()
		form := "--b\r\nContent-Disposition: form-data; name=f; filename=f\r\n\r\n" + strings.Repeat("x", 100<<10) + "\r\n--b--\r\n"
		response, err := s.Client().Post(s.URL, "multipart/form-data; boundary=b", strings.NewReader(form))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		s.Close()
		require.Zero(t, files())
	})
}

// What net/http puts into the request after the handler was called reaches the handler.
func TestTrailersThatWereNotAnnounced(t *testing.T) {
	everyWay(t, func(t *testing.T, o httplimit.Options) {
		s := httptest.NewServer(limits(t, o).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			assert.NoError(t, err)
			_, _ = io.WriteString(w, r.Trailer.Get("Late"))
		})))
		defer s.Close()
		c := dial(t, s, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nLate: trailer\r\n\r\n")
		body := readAnswer(t, c)
		require.Equal(t, "trailer", string(body))
	})
}

// A request whose wait is ended while its client is still there has not been served, and the
// answer does not say so.
func TestAWaitThatEndsIsNotAnswered200(t *testing.T) {
	for name, end := range map[string]func(c *net.TCPConn, shutdown func()) error{
		"half closed": func(c *net.TCPConn, _ func()) error { return c.CloseWrite() },
		"shutdown":    func(_ *net.TCPConn, shutdown func()) error { shutdown(); return nil },
	} {
		for _, version := range []string{"1.0", "1.1"} {
			t.Run(name+" "+version, func(t *testing.T) {
				outer, l := atOnce(t, 2, 0), atOnce(t, 1, 1)
				held := l.TryAcquire(1)
				j := new(journal)
				lim := limits(t, httplimit.Options{
					Global:   &httplimit.Policy{Limiter: all(outer)},
					Policies: []httplimit.Policy{{Name: "p", Limiter: all(l), MaxWait: -1}}, Observer: j,
					OnRejected: func(http.ResponseWriter, *http.Request, *httplimit.Rejection) { t.Error("it was not rejected") },
				})
				s := httptest.NewUnstartedServer(lim.Handler(lim.Policy("p")(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					t.Error("it was granted")
				}))))
				ctx, shutdown := context.WithCancel(t.Context())
				defer shutdown()
				s.Config.BaseContext = func(net.Listener) context.Context { return ctx }
				s.Config.ErrorLog = quiet()
				s.Start()
				defer s.Close()
				c := dial(t, s, "GET / HTTP/"+version+"\r\nHost: x\r\n\r\n")
				until(t, func() bool { return l.Statistics().Queued == 1 })
				require.NoError(t, end(c, shutdown))
				answer, err := io.ReadAll(c)
				require.NoError(t, err)
				require.Empty(t, string(answer), "the connection is closed instead")
				held.Release()
				s.Close()
				free(t, outer)
				free(t, l)
				require.Contains(t, j.read(), "request_canceled p")
			})
		}
	}
}

// A client that has no more to send still gets its whole response, each byte once, and its body is still read, at the
// policy's rate.
func TestThrottledBodiesOfAHalfClosedConnection(t *testing.T) {
	body := strings.Repeat("0123456789abcde", 333)[:4990]
	file := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(file, []byte(body), 0o600))
	post := fmt.Sprintf("POST / HTTP/1.0\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	echo := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		<-r.Context().Done()
		_, err = w.Write(body)
		assert.NoError(t, err)
	}
	for name, c := range map[string]struct {
		throttle func(*httplimit.Policy, httplimit.Limiter)
		handle   http.HandlerFunc
		request  string
		want     string
	}{
		"download": {func(p *httplimit.Policy, l httplimit.Limiter) { p.Download = l }, echo, post, body},
		"upload":   {func(p *httplimit.Policy, l httplimit.Limiter) { p.Upload = l }, echo, post, body},
		"file": {func(p *httplimit.Policy, l httplimit.Limiter) { p.Download = l }, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFile(w, r, file)
		}, "GET / HTTP/1.1\r\nHost: x\r\nRange: bytes=10-4800\r\n\r\n", body[10:4801]},
	} {
		t.Run(name, func(t *testing.T) {
			var p httplimit.Policy
			c.throttle(&p, all(core.Must(core.NewTokenBucket(core.TokenBucketOptions{
				TokenLimit: 1000, TokensPerPeriod: 10, ReplenishmentPeriod: time.Millisecond, QueueLimit: 1 << 20,
			}))))
			s := httptest.NewServer(limits(t, httplimit.Options{Global: &p}).Handler(c.handle))
			defer s.Close()
			conn := dial(t, s, c.request)
			require.NoError(t, conn.CloseWrite())
			require.Equal(t, c.want, string(readAnswer(t, conn)))
		})
	}
}

// probedWriter is a ResponseWriter that notes when something is sent, and fails from the time lost
// on.
type probedWriter struct {
	*httptest.ResponseRecorder

	start time.Time
	lost  time.Duration
	sent  []string
}

func (w *probedWriter) Write(p []byte) (int, error) {
	at := time.Since(w.start)
	if w.lost > 0 && at >= w.lost {
		return 0, errBroken
	}
	w.sent = append(w.sent, fmt.Sprint(len(p), " at ", at))
	return w.ResponseRecorder.Write(p)
}

// A client that may have gone gets a few bytes immediately, and then every half second. Their permits are
// taken like all others.
func TestAClientThatMayHaveGone(t *testing.T) {
	for lost, want := range map[time.Duration]struct {
		took time.Duration
		sent []string
		n    int
	}{
		0:                       {24 * time.Second, []string{"1 at 0s", "16 at 500ms", "8 at 1s"}, 25},
		700 * time.Millisecond:  {time.Second, []string{"1 at 0s", "16 at 500ms"}, 17},
		1200 * time.Millisecond: {24 * time.Second, []string{"1 at 0s", "16 at 500ms", "8 at 1s"}, 25},
	} {
		t.Run(lost.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := core.Must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 1}))
				ctx, leave := context.WithCancel(context.WithValue(t.Context(), http.ServerContextKey, new(http.Server)))
				time.AfterFunc(500*time.Millisecond, leave)
				w := &probedWriter{ResponseRecorder: httptest.NewRecorder(), start: time.Now(), lost: lost}
				body := "0123456789abcdefghijklmno"
				limits(t, httplimit.Options{Global: &httplimit.Policy{Download: all(bucket)}}).Handler(
					http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						n, err := io.WriteString(w, body)
						assert.Equal(t, want.n, n)
						assert.Equal(t, n < len(body), err != nil)
					})).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
				require.Equal(t, want.took, time.Since(w.start))
				require.Equal(t, want.sent, w.sent)
				require.Equal(t, body[:want.n], w.Body.String())
			})
		})
	}
}
