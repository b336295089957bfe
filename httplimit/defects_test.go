package httplimit_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// A middleware outside, such as one that records http.route, reads the pattern that a mux inside
// has matched, also if a wrapper inside the mux rejects the request. So does Refund.
func TestOuterMiddlewareSeesThePattern(t *testing.T) {
	full := atOnce(t, 1, 0)
	defer full.TryAcquire(1).Release()
	var pattern string // as Refund sees it
	l := limits(t, httplimit.Options{
		Global: &httplimit.Policy{
			Limiter: all(core.Unlimited()),
			Refund:  func(r *http.Request, _ int) bool { pattern = r.Pattern; return false },
		},
		Policies: []httplimit.Policy{{Name: "p", Limiter: all(core.Unlimited())}, {Name: "full", Limiter: all(full)}},
	})
	mux := http.NewServeMux()
	mux.Handle("GET /items/{id}", ok)
	mux.Handle("GET /panics", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	mux.Handle("GET /full", l.Policy("full")(ok))
	for path, want := range map[string]string{
		"/items/7": "GET /items/{id}", "/panics": "GET /panics", "/full": "GET /full", "/missing": "",
	} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		func() {
			defer func() { _ = recover() }()
			play(l.Handler(l.Policy("p")(mux)), r)
		}()
		require.Equal(t, want, r.Pattern)
		if path != "/full" { // which is refunded anyway
			require.Equal(t, want, pattern)
		}
	}
}

// delaying is a ResponseWriter that sends a status with the body, or when it is flushed: gin's.
type delaying struct {
	*httptest.ResponseRecorder

	status int
	sent   []int
}

func (d *delaying) WriteHeader(status int) { d.status = status }
func (d *delaying) Flush() {
	if d.status != 0 {
		d.sent = append(d.sent, d.status)
	}
}
func (d *delaying) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

// A 101 is sent before the connection is handed over, also where a ResponseWriter around
// net/http's delays it, whose own method to send it is hidden by ours.
func TestHijackSends101(t *testing.T) {
	for name, o := range wrapping() {
		t.Run(name, func(t *testing.T) {
			for _, status := range []int{0, http.StatusSwitchingProtocols} {
				w := &delaying{ResponseRecorder: httptest.NewRecorder()}
				limits(t, o).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if status != 0 {
						w.WriteHeader(status)
					}
					_, _, err := http.NewResponseController(w).Hijack()
					assert.NoError(t, err)
				})).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				if status == 0 {
					require.Empty(t, w.sent)
				} else {
					require.Equal(t, []int{status}, w.sent)
				}
			}
		})
	}
}

// deadlines is a ResponseWriter that takes read deadlines.
type deadlines struct {
	*httptest.ResponseRecorder

	err error
}

func (d deadlines) SetReadDeadline(time.Time) error { return d.err }

// A throttled Read obeys the read deadline also while it waits for permits, and loses nothing.
func TestAThrottledUploadObeysTheReadDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 10}))
		const body = "0123456789"
		start := time.Now()
		lim := limits(t, httplimit.Options{
			Global:   &httplimit.Policy{Upload: all(l)},
			Policies: []httplimit.Policy{{Name: "free", Upload: all(core.Unlimited())}},
		})
		h := lim.Handler(lim.Policy("free")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			assert.NoError(t, c.SetReadDeadline(start.Add(1300*time.Millisecond)))
			first, err := io.ReadAll(r.Body)
			assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
			assert.Equal(t, 1300*time.Millisecond, time.Since(start))
			assert.NoError(t, c.SetReadDeadline(time.Time{}))
			rest, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			assert.Equal(t, body, string(first)+string(rest))
			assert.Equal(t, 9*time.Second, time.Since(start))
		})))
		h.ServeHTTP(deadlines{ResponseRecorder: httptest.NewRecorder()}, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
	})
	lim := limits(t, httplimit.Options{Global: &httplimit.Policy{Upload: all(core.Unlimited())}})
	lim.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		assert.ErrorIs(t, http.NewResponseController(w).SetReadDeadline(time.Time{}), errBroken)
	})).ServeHTTP(deadlines{httptest.NewRecorder(), errBroken}, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x")))
}
