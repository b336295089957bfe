package httplimit_test

import (
	"bufio"
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// A request that is rejected before its body was read leaves the connection to the next one, or says that it will be
// closed. Either way the server has nothing to complain of, and nothing of the body is taken for a request.
func TestRejectionLeavesTheConnectionInOrder(t *testing.T) {
	t.Parallel()
	whole := func(head, body string) [2]string { return [2]string{head + "\r\n" + body, ""} }
	late := func(head, body string) [2]string { return [2]string{head + "\r\n", body} }
	length := func(n int) string { return "Content-Length: " + strconv.Itoa(n) + "\r\n" }
	smuggled := "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	large := strings.Repeat(smuggled, 1<<20/len(smuggled))

	nop := func(r *http.Request) { r.Body = io.NopCloser(r.Body) }
	for _, c := range []struct {
		name   string
		sent   [2]string           // at once, and once the answer is there
		before func(*http.Request) // done by a handler outside
		kept   bool                // the connection is, by the standard answer
	}{
		{"with the head", whole(length(4), "body"), nil, true},
		{"after the answer", late(length(4), "body"), nil, true},
		{"some of it later", [2]string{length(4) + "\r\nbo", "dy"}, nil, true},
		{"as much as net-http reads", late(length(256<<10-1), large[:256<<10-1]), nil, true},
		{"one more", late(length(256<<10), large[:256<<10]), nil, false},
		{"more", late(length(len(large)), large), nil, false},
		{"chunked", late("Transfer-Encoding: chunked\r\n", "4\r\nbody\r\n0\r\n\r\n"), nil, false},
		{"asked for first", late(length(4)+"Expect: 100-continue\r\n", ""), nil, false},
		{"the client's last", late(length(4)+"Connection: close\r\n", "body"), nil, false},
		{"counted outside", whole(length(4), "body"), func(r *http.Request) { r.Body = http.MaxBytesReader(nil, r.Body, 100) }, false},
		{"closed for nothing", whole(length(4), "body"), nop, false},
		{"closed for nothing, more", late(length(len(large)), large), nop, false},
	} {
		for name, o := range rejecting() {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				t.Parallel() // a server that gives up a body takes half a second for it
				l := limits(t, o)
				var complaints bytes.Buffer
				s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/" {
						t.Errorf("%s was taken for a request", r.URL.Path)
					}
					if c.before != nil {
						c.before(r)
					}
					l.Handler(l.Policy("named")(http.NotFoundHandler())).ServeHTTP(w, r)
				}))
				s.Config.ErrorLog = log.New(&complaints, "", 0)
				s.Start()
				standard := !strings.HasPrefix(name, "its own")
				rejectedTwice(t, s, c.sent, c.kept && standard)
				s.Close()
				require.Empty(t, complaints.String())
			})
		}
	}
}

// rejecting returns options that let nobody pass, each in another way.
func rejecting() map[string]httplimit.Options {
	refusing := httplimit.Policy{Name: "named", Limiter: refuser(core.Reject())}
	with := func(f func(http.ResponseWriter, *http.Request, *httplimit.Rejection)) httplimit.Options {
		return httplimit.Options{Policies: []httplimit.Policy{refusing}, OnRejected: f}
	}
	return map[string]httplimit.Options{
		"standard": with(nil),
		"its own": with(func(w http.ResponseWriter, _ *http.Request, no *httplimit.Rejection) {
			w.WriteHeader(no.Status)
			_, _ = io.WriteString(w, "later")
		}),
		"standard, told": with(func(http.ResponseWriter, *http.Request, *httplimit.Rejection) {}),
		"standard, asked for": with(func(w http.ResponseWriter, r *http.Request, no *httplimit.Rejection) {
			no.ServeHTTP(w, r)
		}),
		"standard, the writer wrapped": {
			Global:   &httplimit.Policy{Limiter: refuser(core.Grant(1, nil)), Refund: func(*http.Request, int) bool { return false }},
			Policies: []httplimit.Policy{refusing}, Headers: httplimit.Draft11, Problems: true,
		},
	}
}

// rejectedTwice sends a request twice, by one connection if that is kept.
func rejectedTwice(t *testing.T, s *httptest.Server, sent [2]string, kept bool) {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	for range 2 {
		_, err = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\n"+sent[0])
		require.NoError(t, err)
		answer, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, answer.StatusCode)
		_, err = io.ReadAll(answer.Body)
		require.NoError(t, err)
		_, _ = io.WriteString(c, sent[1]) // a server that closes need not take it
		if !kept {
			require.True(t, answer.Close)
			return
		}
		require.False(t, answer.Close)
	}
}

// What comes of a body after its time is up is not taken for a request: the connection is closed.
func TestRejectionEndsTheConnectionOfABodyThatDoesNotCome(t *testing.T) {
	l := limits(t, rejecting()["standard"])
	inside := l.Policy("named")(http.NotFoundHandler())
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.NoError(t, http.NewResponseController(w).SetReadDeadline(time.Now())) // as a ReadTimeout that is over
		inside.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = quiet()
	s.Start()
	defer s.Close()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	_, err = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo")
	require.NoError(t, err)
	in := bufio.NewReader(c)
	answer, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, answer.StatusCode)
	_, err = io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	_, err = in.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

// A ResponseWriter that holds the answer back until the handler has returned sends that one, and no other before it.
func TestRejectionBehindAWriterThatHoldsItBack(t *testing.T) {
	l := limits(t, rejecting()["standard"])
	inside := l.Policy("named")(http.NotFoundHandler())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held := &holding{ResponseWriter: w}
		inside.ServeHTTP(held, r)
		w.WriteHeader(held.status)
		_, _ = w.Write(held.body.Bytes())
	}))
	defer s.Close()
	for range 3 {
		answer, err := s.Client().Post(s.URL, "text/plain", strings.NewReader("body"))
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, answer.StatusCode)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, "Too Many Requests\n", string(text))
		require.NoError(t, answer.Body.Close())
	}
}

type holding struct {
	http.ResponseWriter

	status int
	body   bytes.Buffer
}

func (h *holding) WriteHeader(status int)      { h.status = status }
func (h *holding) Write(p []byte) (int, error) { return h.body.Write(p) }
func (h *holding) Unwrap() http.ResponseWriter { return h.ResponseWriter }
