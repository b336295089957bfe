package compat_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// What chi tests of the writers that it wraps holds for httplimit's too.

// fancy is a recorder with the other methods of an HTTP/1 writer.
type fancy struct{ *httptest.ResponseRecorder }

func (f fancy) ReadFrom(src io.Reader) (int64, error)      { return io.Copy(f.ResponseRecorder, src) }
func (fancy) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, http.ErrNotSupported }
func (fancy) CloseNotify() <-chan bool                     { return nil }

// fancy2 is a recorder with the other methods of an HTTP/2 writer.
type fancy2 struct{ *httptest.ResponseRecorder }

func (fancy2) CloseNotify() <-chan bool             { return nil }
func (fancy2) Push(string, *http.PushOptions) error { return http.ErrNotSupported }

// hijackable is a recorder that can be flushed and hijacked, and no more.
type hijackable struct{ *httptest.ResponseRecorder }

func (hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

// A flush commits the status, said or not, even before any body is written.
func TestStatusWhenFlushed(t *testing.T) {
	for kind, wrap := range map[string]func(*httptest.ResponseRecorder) http.ResponseWriter{
		"flush":        func(r *httptest.ResponseRecorder) http.ResponseWriter { return r },
		"flush hijack": func(r *httptest.ResponseRecorder) http.ResponseWriter { return hijackable{r} },
		"HTTP/1":       func(r *httptest.ResponseRecorder) http.ResponseWriter { return fancy{r} },
		"HTTP/2":       func(r *httptest.ResponseRecorder) http.ResponseWriter { return fancy2{r} },
		"chi, HTTP/1": func(r *httptest.ResponseRecorder) http.ResponseWriter {
			return middleware.NewWrapResponseWriter(fancy{r}, 1)
		},
		"chi, HTTP/2": func(r *httptest.ResponseRecorder) http.ResponseWriter {
			return middleware.NewWrapResponseWriter(fancy2{r}, 2)
		},
	} {
		for name, status := range map[string]struct{ said, want int }{"implicit": {0, http.StatusOK}, "explicit": {http.StatusCreated, http.StatusCreated}} {
			for _, download := range []httplimit.Limiter{nil, all(core.Unlimited())} {
				t.Run(kind+" "+name, func(t *testing.T) {
					original, refunded := httptest.NewRecorder(), 0
					h := limits(t, httplimit.Options{Global: &httplimit.Policy{
						Limiter: all(atOnce(t, 1)), Download: download,
						Refund: func(_ *http.Request, status int) bool { refunded = status; return true },
					}}).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						if status.said != 0 {
							w.WriteHeader(status.said)
						}
						w.(http.Flusher).Flush()
						assert.True(t, original.Flushed)
						w.WriteHeader(http.StatusInternalServerError)
						_, err := io.WriteString(w, "body")
						assert.NoError(t, err)
						assert.NoError(t, http.NewResponseController(w).Flush())
					}))
					h.ServeHTTP(wrap(original), httptest.NewRequest(http.MethodGet, "/", nil))
					require.Equal(t, status.want, refunded)
					require.Equal(t, status.want, original.Code)
					require.Equal(t, "body", original.Body.String())
				})
			}
		}
	}
}

// Over HTTP/1 and HTTP/2 the writer has the methods of net/http's, and ReadFrom also over HTTP/2 if it is wrapped.
// Writers of chi's around it and inside of it see the same status and the same bytes.
func TestWritersAmongChis(t *testing.T) {
	bytes, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1 << 20, QueueLimit: 1 << 20})
	require.NoError(t, err)
	for _, http2 := range []bool{false, true} {
		for name, p := range map[string]httplimit.Policy{
			"plain":    {Limiter: all(core.Unlimited())},
			"refund":   {Limiter: all(core.Unlimited()), Refund: func(*http.Request, int) bool { return false }},
			"download": {Download: all(bytes)},
		} {
			t.Run(name, func(t *testing.T) {
				var outer, inner middleware.WrapResponseWriter
				around := func(seen *middleware.WrapResponseWriter, next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						*seen = middleware.NewWrapResponseWriter(w, r.ProtoMajor)
						next.ServeHTTP(*seen, r)
					})
				}
				methods := func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						_, flusher := w.(http.Flusher)
						_, hijacker := w.(http.Hijacker)
						_, readerFrom := w.(io.ReaderFrom)
						_, pusher := w.(http.Pusher)
						assert.Equal(t, http2, r.ProtoMajor == 2)
						assert.Equal(t, []bool{true, !http2, !http2 || name != "plain", http2}, []bool{flusher, hijacker, readerFrom, pusher})
						next.ServeHTTP(w, r)
					})
				}
				talk := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusCreated)
					_, err := io.Copy(w, strings.NewReader("hello "))
					assert.NoError(t, err)
					_, err = io.WriteString(w, "world")
					assert.NoError(t, err)
				})
				l := limits(t, httplimit.Options{Global: &p})
				s := httptest.NewUnstartedServer(l.Handler(methods(around(&outer, l.Handler(around(&inner, talk))))))
				s.EnableHTTP2 = http2
				s.StartTLS()
				defer s.Close()
				response, err := s.Client().Get(s.URL)
				require.NoError(t, err)
				body, err := io.ReadAll(response.Body)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				s.Close()
				require.Equal(t, "hello world", string(body))
				for _, w := range []middleware.WrapResponseWriter{outer, inner} {
					require.Equal(t, http.StatusCreated, w.Status())
					require.Equal(t, len(body), w.BytesWritten())
				}
			})
		}
	}
}
