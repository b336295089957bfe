package httplimit_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// rejecting returns options that let no request pass, each in another way.
func rejecting() map[string]httplimit.Options {
	rejecting := httplimit.Policy{Name: "named", Limiter: refuser(core.Reject())}
	with := func(f func(http.ResponseWriter, *http.Request, *httplimit.Rejection)) httplimit.Options {
		return httplimit.Options{Policies: []httplimit.Policy{rejecting}, OnRejected: f}
	}
	return map[string]httplimit.Options{
		"standard": with(nil),
		"its own": with(func(w http.ResponseWriter, r *http.Request, rejection *httplimit.Rejection) {
			if err := r.Context().Err(); err != nil {
				panic(err) // net/http cancels the context if the body cannot be read in time
			}
			w.WriteHeader(rejection.Status)
			_, _ = io.WriteString(w, strings.Repeat("later", 10_000))
		}),
		"standard, after OnRejected": with(func(http.ResponseWriter, *http.Request, *httplimit.Rejection) {}),
		"standard, called": with(func(w http.ResponseWriter, r *http.Request, rejection *httplimit.Rejection) {
			rejection.ServeHTTP(w, r)
		}),
		"standard, the writer wrapped": {
			Global:   &httplimit.Policy{Limiter: refuser(core.Grant(1, nil)), Refund: func(*http.Request, int) bool { return false }},
			Policies: []httplimit.Policy{rejecting}, Headers: httplimit.Draft11, ProblemJSON: true,
		},
	}
}

// A rejected HTTP/1 request keeps its connection if its body, of 256 KiB at most, is there within 5 ms. Otherwise the
// rejection does not wait for the body, and what comes of it later is not taken for a request. While the body is
// missing, the request keeps no permit of the wrappers outside.
func TestTheBodyOfARejectedRequest(t *testing.T) {
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	const most, never = 256 << 10, time.Duration(-1)
	plain := func(h http.Handler) http.Handler { return h }
	for name, c := range map[string]struct {
		head string
		body string
		sent time.Duration // after the head
		took time.Duration
		kept bool
		wrap func(http.Handler) http.Handler
	}{
		"none":                       {"", "", 0, 0, true, plain},
		"at hand":                    {"Content-Length: 4", "body", 0, 0, true, plain},
		"soon":                       {"Content-Length: 4", "body", 4999 * time.Microsecond, 4999 * time.Microsecond, true, plain},
		"too late":                   {"Content-Length: 4", "", never, 5 * time.Millisecond, false, plain},
		"chunks, too late":           {"Transfer-Encoding: chunked", "", never, 5 * time.Millisecond, false, plain},
		"256 KiB":                    {length(most), strings.Repeat("x", most), 0, 0, true, plain},
		"more":                       {length(most + 1), "", never, 0, false, plain},
		"chunks of 256 KiB":          {"Transfer-Encoding: chunked", chunk(most), 0, 0, true, plain},
		"chunks of more":             {"Transfer-Encoding: chunked", chunk(most + 1), 0, 0, false, plain},
		"the client waits":           {"Content-Length: 4\r\nExpect: 100-continue", "", never, 0, false, plain},
		"no deadline can be set":     {"Content-Length: 4", "", never, 0, false, hidden},
		"no deadline is needed":      {"", "", 0, 0, true, hidden},
		"partly read by a handler":   {"Content-Length: 4", "body", 0, 0, false, readingFirst(2)},
		"wholly read by a handler":   {"Content-Length: 4", "body", 0, 0, false, readingFirst(4)},
		"full duplex, at hand":       {"Content-Length: 4", "body", 0, 0, true, fullDuplex},
		"full duplex, too late":      {"Content-Length: 4", "body", 10 * time.Millisecond, 5 * time.Millisecond, false, fullDuplex},
		"full duplex, more":          {length(most + 1), "", never, 0, false, fullDuplex},
		"full duplex, client waits":  {"Content-Length: 4\r\nExpect: 100-continue", "", never, 0, false, fullDuplex},
		"full duplex, chunks, later": {"Transfer-Encoding: chunked", chunk(4), 10 * time.Millisecond, 5 * time.Millisecond, false, fullDuplex},
	} {
		for how, o := range rejecting() {
			t.Run(name+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					one := atOnce(t, 1, 0)
					outer := limits(t, httplimit.Options{Global: &httplimit.Policy{Limiter: all(one)}})
					l := limits(t, o)
					inside := c.wrap(outer.Handler(l.Handler(l.Policy("named")(ok))))
					client := serveOne(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						assert.Equal(t, "/", r.URL.Path)
						inside.ServeHTTP(w, r)
					})})
					start := time.Now()
					go func() {
						_, _ = fmt.Fprintf(client, "POST / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", c.head)
						if c.sent != never {
							time.Sleep(c.sent)
							_, _ = io.WriteString(client, c.body)
						}
					}()
					in := bufio.NewReader(client)
					answer, err := http.ReadResponse(in, nil)
					require.NoError(t, err)
					require.Equal(t, c.took, time.Since(start))
					require.Equal(t, http.StatusTooManyRequests, answer.StatusCode)
					require.Equal(t, c.kept, !answer.Close)
					_ = core.Must(io.ReadAll(answer.Body))
					synctest.Wait()
					free(t, one)
					if !c.kept {
						go func() { _, _ = io.WriteString(client, smuggled) }()
						return
					}
					time.Sleep(time.Minute)
					_, err = io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
					require.NoError(t, err)
					answer, err = http.ReadResponse(in, nil)
					require.NoError(t, err)
					require.Equal(t, http.StatusTooManyRequests, answer.StatusCode)
				})
			})
		}
	}
}

func length(n int) string { return fmt.Sprint("Content-Length: ", n) }

func chunk(n int) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", n, strings.Repeat("x", n)) }

// hidden hides what the server's ResponseWriter can do.
func hidden(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	})
}

// readingFirst reads some of the body, as a middleware may do that looks at it.
func readingFirst(n int) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadFull(r.Body, make([]byte, n))
			next.ServeHTTP(w, r)
		})
	}
}

func fullDuplex(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		next.ServeHTTP(w, r)
	})
}

// serveOne serves one connection, and returns the client's side. The server must have nothing to complain about.
func serveOne(t *testing.T, s *http.Server) net.Conn {
	t.Helper()
	var complaints strings.Builder
	s.ErrorLog = log.New(&complaints, "", 0)
	conns := make(memory)
	go func() { assert.Equal(t, http.ErrServerClosed, s.Serve(conns)) }()
	client, server := net.Pipe()
	conns <- server
	t.Cleanup(func() {
		_ = client.Close()
		_ = s.Close()
		time.Sleep(time.Second) // net/http closes a connection half a second after such an answer
		assert.Empty(t, complaints.String())
	})
	return client
}

// The deadline for the body of a rejected request is taken back: the server's own applies again.
func TestTheDeadlineOfARejectedBodyIsTakenBack(t *testing.T) {
	for timeout, want := range map[time.Duration]error{0: nil, time.Minute: nil, time.Second: context.Canceled} {
		t.Run(timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limits(t, httplimit.Options{
					Global:     &httplimit.Policy{Limiter: refuser(core.Reject())},
					OnRejected: func(http.ResponseWriter, *http.Request, *httplimit.Rejection) { time.Sleep(2 * time.Second) },
				})
				var ended error
				client := serveOne(t, &http.Server{ReadTimeout: timeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					l.Handler(ok).ServeHTTP(w, r)
					ended = r.Context().Err()
				})})
				go func() { _, _ = io.WriteString(client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody") }()
				readAnswer(t, client)
				require.Equal(t, want, ended)
			})
		})
	}
}

// slowWriter is a writer under which a body comes to its end just before its deadline.
type slowWriter struct {
	http.ResponseWriter
	deadlines int
}

func (w *slowWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *slowWriter) SetReadDeadline(t time.Time) error {
	w.deadlines++
	if w.deadlines == 2 {
		time.Sleep(time.Second)
	}
	return http.NewResponseController(w.ResponseWriter).SetReadDeadline(t)
}

// After the end of a body net/http reads on, and takes the connection's context for ended if a deadline passes. So
// the connection is not used for another request then.
func TestADeadlineThatPassesAfterTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := limits(t, httplimit.Options{Global: &httplimit.Policy{Limiter: refuser(core.Reject())}}).Handler(ok)
		client := serveOne(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(&slowWriter{ResponseWriter: w}, r)
		})})
		go func() { _, _ = io.WriteString(client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody") }()
		answer, err := http.ReadResponse(bufio.NewReader(client), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, answer.StatusCode)
		require.True(t, answer.Close)
	})
}

// A writer that takes no read deadline keeps the body from being read, also in a test without a server.
func TestTheBodyOfARejectedRequestWithoutAServer(t *testing.T) {
	h := limits(t, httplimit.Options{Global: &httplimit.Policy{Limiter: refuser(core.Reject())}}).Handler(ok)
	require.Equal(t, "close", play(h, httptest.NewRequest(http.MethodPost, "/", &unread{t})).Header().Get("Connection"))
	require.Empty(t, get(h, "/").Header().Get("Connection"), "there is no body")
}
