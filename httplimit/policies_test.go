package httplimit_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name   string
		cost   string // of 5 permits that were taken
		refund bool
		shadow bool
		handle func(http.ResponseWriter)
		seen   string
		want   int
	}{
		{"less", "2", false, false, write200, "refund? 200; settle 200 2", 8},
		{"more than the limit", "12", false, false, write200, "refund? 200; settle 200 12", 0},
		{"refunded", "2", true, false, write200, "refund? 200", 10},
		{"panic", "2", false, false, func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "refund? 500; settle 500 2", 8},
		{"in shadow", "2", false, true, write200, "refund? 200; settle 200 2", 8},
		{"released early", "2", false, false, nil, "refund? 200; settle 200 2", 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, window, slots := new(journal), perMinute(t, 10), atOnce(t, 10, 0)
			var asked core.Limiter
			settle := func(_ *http.Request, status int, h http.Header) int {
				j.write("settle %d %s", status, h.Get("X-Cost"))
				if c.handle != nil {
					assert.Equal(t, 5, asked.Available(), "the lease is held meanwhile")
				}
				n, err := strconv.Atoi(h.Get("X-Cost"))
				assert.NoError(t, err)
				return n
			}
			for _, l := range []interface {
				core.Limiter
				core.Reporter
			}{window, slots} {
				asked = l
				lim := limits(t, httplimit.Options{Global: &httplimit.Policy{
					Limiter: all(l), Cost: func(*http.Request) int { return 5 }, Settle: settle, Shadow: c.shadow,
					Refund: func(_ *http.Request, status int) bool {
						j.write("refund? %d", status)
						return c.refund
					},
				}})
				func() {
					defer func() { _ = recover() }()
					get(lim.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						w.Header().Set("X-Cost", c.cost)
						if c.handle != nil {
							c.handle(w)
							return
						}
						lease, ok := httplimit.LeaseFromContext(r.Context())
						assert.True(t, ok)
						lease.Release()
					})), "/")
				}()
				require.Equal(t, c.seen, j.read())
			}
			require.Equal(t, c.want, window.Available())
			free(t, slots) // settled or not, it is released
		})
	}
}

func write200(w http.ResponseWriter) { _, _ = io.WriteString(w, "ok") }

// A policy in shadow decides, the Observer is notified, and no client notices.
func TestShadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		j, one := new(journal), atOnce(t, 1, 10)
		o := httplimit.Options{
			Observer: j, Headers: httplimit.Draft11, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Policies: []httplimit.Policy{
				{Name: "one", Shadow: true, Limiter: all(one), MaxWait: -1, Upload: refuser(core.Fail(errBroken)), Download: refuser(core.Fail(errBroken))},
				{Name: "fails", Shadow: true, Limiter: refuser(core.Fail(errBroken))},
			},
			OnRejected: func(http.ResponseWriter, *http.Request, *httplimit.Rejection) { t.Error("it was rejected") },
		}
		l := limits(t, o)
		start := time.Now()
		w := play(l.Policy("one")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			assert.Zero(t, one.Available(), "it takes permits")
			l.Policy("one")(l.Policy("fails")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(w, r.Body)
				assert.NoError(t, err)
			}))).ServeHTTP(w, r)
		})), httptest.NewRequest(http.MethodPost, "/", strings.NewReader("hello")))
		require.Equal(t, 200, w.Code)
		require.Equal(t, "hello", w.Body.String())
		require.Equal(t, http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, w.Header())
		require.Zero(t, time.Since(start))
		free(t, one)
		require.Equal(t, "active one +1; acquired one 0s; shadowed one 0s; failed fails 0s; active one -1; released one 0s", j.read())
		require.Contains(t, log.String(), `level=WARN msg="httplimit: a policy in shadow would have rejected" policy=one error.permits=1`)
		require.Contains(t, log.String(), `level=ERROR msg="httplimit: a limiter failed" policy=fails error="the secret host is down" others=0`)
	})
}

// The body of an answer to HEAD is not sent, and costs nothing.
func TestDownloadOfHead(t *testing.T) {
	bytes := perMinute(t, 1000)
	l := limits(t, httplimit.Options{Global: &httplimit.Policy{Download: all(bytes)}})
	for method, left := range map[string]int{http.MethodHead: 1000, http.MethodGet: 998} {
		bytes.Reset()
		play(l.Handler(ok), httptest.NewRequest(method, "/", nil))
		require.Equal(t, left, bytes.Available(), method)
	}
}
