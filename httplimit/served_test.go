package httplimit_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
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

// The body of a client that has no more to send is read to its end, at the policy's rate.
func TestUploadOfAHalfClosedConnection(t *testing.T) {
	body := strings.Repeat("0123456789abcde", 333)[:4990]
	p := httplimit.Policy{Upload: all(core.Must(core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: 1000, TokensPerPeriod: 10, ReplenishmentPeriod: time.Millisecond, QueueLimit: 1 << 20,
	})))}
	s := httptest.NewServer(limits(t, httplimit.Options{Global: &p}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(w, r.Body)
		assert.NoError(t, err)
	})))
	defer s.Close()
	c := dial(t, s, fmt.Sprintf("POST / HTTP/1.0\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	require.NoError(t, c.CloseWrite())
	require.Equal(t, body, string(readAnswer(t, c)))
}

// A response that ends early, because net/http takes a client that has no more to send for one that is gone, does not
// look complete.
func TestDownloadToAHalfClosedConnection(t *testing.T) {
	for name, send := range map[string]func(w http.ResponseWriter, body string){
		"write":  func(w http.ResponseWriter, body string) { _, _ = w.Write([]byte(body)) },
		"string": func(w http.ResponseWriter, body string) { _, _ = io.WriteString(w, body) },
		"copy": func(w http.ResponseWriter, body string) {
			_, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader(body)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := httplimit.Policy{Download: all(core.Must(core.NewTokenBucket(core.TokenBucketOptions{
				TokenLimit: 5000, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour, QueueLimit: 1 << 20,
			})))}
			s := httptest.NewServer(limits(t, httplimit.Options{Global: &p}).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				send(w, strings.Repeat("x", 10_000))
			})))
			defer s.Close()
			c := dial(t, s, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, c.CloseWrite())
			if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil { // otherwise nothing was sent
				_, err = io.ReadAll(answer.Body)
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			}
		})
	}
}
