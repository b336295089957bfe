package httplimit_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// A rejection is written by the wrapper of a handler, whether OnRejected is the policy's or that of all, and by a Check.
func TestRejection(t *testing.T) {
	type on = func(http.ResponseWriter, *http.Request, *httplimit.Rejection)
	const (
		tooMany, unavailable = "Too Many Requests\n", "Service Unavailable\n"

		quota    = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded"`
		capacity = `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints"`
	)
	reject := func(status int, m ...core.Metadata) httplimit.Policy {
		return httplimit.Policy{Limiter: refuser(core.Reject(m...)), Status: status}
	}
	failing := func(l httplimit.Limiter) httplimit.Policy { return httplimit.Policy{Limiter: l} }
	retry, reason := core.RetryAfter.With, core.ReasonPhrase.With
	after := func(seconds string) http.Header { return http.Header{"Retry-After": {seconds}} }
	numbers := reject(0, retry(5*time.Second), core.PermitLimit.With(1), core.Remaining.With(0))
	setStatus := func(status int) on {
		return func(_ http.ResponseWriter, _ *http.Request, rejection *httplimit.Rejection) {
			rejection.Status = status
		}
	}
	for _, c := range []struct {
		name    string
		policy  httplimit.Policy
		on      on // nil: the standard response
		status  int
		body    string
		header  http.Header
		problem string // the body as JSON
	}{
		{"unknown", reject(0), nil, 429, tooMany, nil, ""},
		{"lies", failing(refuser(core.Lease{})), nil, 429, tooMany, nil, ""},
		{"at least 1", reject(0, retry(1)), nil, 429, tooMany, after("1"), ""},
		{"rounded up", reject(0, retry(2*time.Second+1)), nil, 429, tooMany, after("3"), ""},
		{"exact", reject(0, retry(2*time.Second)), nil, 429, tooMany, after("2"), ""},
		{"status", reject(503, retry(time.Second)), nil, 503, unavailable, after("1"), capacity + `,"status":503,"detail":"Service Unavailable","violated-policies":["p"]}`},
		{"odd status", reject(499), nil, 499, tooMany, nil, ""},
		{"reason", reject(0, reason(`say "please"`)), nil, 429, "say \"please\"\n", nil, quota + `,"status":429,"detail":"say \"please\"","violated-policies":["p"]}`},
		{"built-in reason", reject(0, reason("queue limit reached")), nil, 429, tooMany, nil, ""},
		{"blocked", failing(all(core.Blocked())), nil, 429, tooMany, nil, ""},
		{"only the error knows", failing(refuser(core.Fail(fmt.Errorf("x: %w", &core.RejectedError{RetryAfter: time.Minute})))), nil, 429, tooMany, after("60"), ""},
		{
			"more than the limit",
			httplimit.Policy{Limiter: all(perMinute(t, 2)), Cost: func(*http.Request) int { return 3 }},
			nil, 429, tooMany,
			http.Header{"X-Ratelimit-Limit": {"2"}, "X-Ratelimit-Remaining": {"2"}, "X-Ratelimit-Reset": {"0"}},
			"",
		},
		{"failure", httplimit.Policy{Limiter: refuser(core.Fail(errBroken)), Status: 429}, nil, 503, unavailable, nil, `{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"Service Unavailable"}`},
		{"reason of a failure", httplimit.Policy{Limiter: refuser(core.Fail(errBroken).With(reason("the password")))}, nil, 503, unavailable, nil, ""},
		{"closed", failing(refuser(core.Fail(core.ErrClosed))), nil, 503, unavailable, nil, ""},
		{"fails open", httplimit.Policy{Limiter: refuser(core.Fail(core.ErrClosed)), FailOpen: true}, nil, 200, "ok", nil, ""},
		{"refuses, though open to failures", httplimit.Policy{Limiter: refuser(core.Lease{}), FailOpen: true}, nil, 429, tooMany, nil, ""},

		{"OnRejected does nothing", numbers, func(http.ResponseWriter, *http.Request, *httplimit.Rejection) {}, 429, tooMany, after("5"), ""},
		{"header alone", numbers, func(w http.ResponseWriter, _ *http.Request, _ *httplimit.Rejection) {
			if w.Header().Get("Retry-After") != "5" || w.Header().Get("Cache-Control") != "no-store" {
				panic("not set yet")
			}
			w.Header().Set("Retry-After", "9")
			w.Header().Del("Cache-Control")
		}, 429, tooMany, http.Header{"Retry-After": {"9"}, "Cache-Control": nil}, ""},
		{"another status, written", numbers, func(w http.ResponseWriter, r *http.Request, rejection *httplimit.Rejection) {
			rejection.Status = 503
			rejection.ServeHTTP(w, r)
		}, 503, unavailable, after("5"), ""},
		{"another status", reject(503), setStatus(420), 420, tooMany, nil, quota + `,"status":420,"detail":"Too Many Requests","violated-policies":["p"]}`},
		{"a status that is none", numbers, setStatus(7), 429, tooMany, nil, ""},
		{"its own", numbers, func(w http.ResponseWriter, _ *http.Request, _ *httplimit.Rejection) {
			w.WriteHeader(http.StatusTeapot)
		}, 418, "", after("5"), ""},
		{"a body", numbers, func(w http.ResponseWriter, _ *http.Request, _ *httplimit.Rejection) { _, _ = io.WriteString(w, "no") }, 200, "no", nil, ""},
		{"a redirect", numbers, func(w http.ResponseWriter, r *http.Request, _ *httplimit.Rejection) {
			http.Redirect(w, r, "/wait", http.StatusSeeOther)
		}, 303, "<a href=\"/wait\">See Other</a>.\n\n", http.Header{"X-Ratelimit-Limit": nil}, ""},
		{"a redirect by the status", numbers, setStatus(303), 303, "See Other\n", http.Header{"X-Ratelimit-Limit": nil}, ""},
		{"a flush", numbers, func(w http.ResponseWriter, _ *http.Request, _ *httplimit.Rejection) { w.(http.Flusher).Flush() }, 200, "", nil, ""},
		{"a failure, told", failing(refuser(core.Fail(errBroken))), func(_ http.ResponseWriter, _ *http.Request, rejection *httplimit.Rejection) {
			require.Equal(t, "p", rejection.Policy)
			require.Equal(t, 503, rejection.Status)
			require.ErrorIs(t, rejection.Err, errBroken)
			require.ErrorIs(t, rejection.Lease.Err(), errBroken)
			require.Zero(t, rejection.RetryAfter)
		}, 503, unavailable, http.Header{"Retry-After": nil}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.policy.Name = "p"
			o := httplimit.Options{Headers: httplimit.XRateLimit, OnRejected: c.on, Policies: []httplimit.Policy{c.policy}}
			own := o
			if c.on != nil {
				c.policy.OnRejected = c.on
				own.Policies = []httplimit.Policy{c.policy}
				own.OnRejected = func(http.ResponseWriter, *http.Request, *httplimit.Rejection) { t.Error("the policy has its own") }
			}
			for _, o := range []httplimit.Options{o, own} {
				l := limits(t, o)
				w := httptest.NewRecorder()
				w.Header().Set("Content-Length", "1000") // of the body that a handler outside had in mind
				w.Header().Set("Content-Encoding", "gzip")
				l.Policy("p")(ok).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				require.Equal(t, c.status, w.Code)
				require.Equal(t, c.body, w.Body.String())
				for k, v := range c.header {
					require.Equal(t, v, w.Header()[k], k)
				}
				if c.on == nil {
					standard(t, l, w, c.header)
				}
			}
			if c.problem != "" {
				o.ProblemJSON = true
				w := get(limits(t, o).Policy("p")(ok), "/")
				require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
				require.JSONEq(t, c.problem, w.Body.String())
			}
		})
	}
}

// standard wants w, which policy p of l has written, to be the standard response, and that of a Check and for a HEAD request.
func standard(t *testing.T, l *httplimit.Limits, w *httptest.ResponseRecorder, header http.Header) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	_, rejection := l.Check(r, "p")
	if w.Code == http.StatusOK {
		require.Nil(t, rejection)
		return
	}
	want := http.Header{"Cache-Control": {"no-store"}, "Content-Type": {"text/plain; charset=utf-8"}, "X-Content-Type-Options": {"nosniff"}}
	maps.Copy(want, header)
	require.Equal(t, want, w.Header())
	checked := httptest.NewRecorder()
	rejection.ServeHTTP(checked, r)
	require.Equal(t, w.Code, checked.Code)
	require.Equal(t, w.Body.String(), checked.Body.String())
	require.Equal(t, want, checked.Header())
	head := play(l.Policy("p")(ok), httptest.NewRequest(http.MethodHead, "/", &unread{t}))
	require.Equal(t, w.Code, head.Code)
	require.Empty(t, head.Body.String())
}

// unread fails the test when it is read.
type unread struct{ t *testing.T }

func (u *unread) Read([]byte) (int, error) {
	u.t.Error("a rejected request's body was read")
	return 0, io.EOF
}

// The standard answer does not follow if OnRejected has taken the connection over.
func TestOnRejectedHijacks(t *testing.T) {
	l := limits(t, httplimit.Options{
		Global: &httplimit.Policy{Limiter: refuser(core.Reject())},
		OnRejected: func(w http.ResponseWriter, _ *http.Request, _ *httplimit.Rejection) {
			_, _, err := http.NewResponseController(w).Hijack()
			require.NoError(t, err)
		},
	})
	w := &delaying{ResponseRecorder: httptest.NewRecorder()}
	l.Handler(ok).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Zero(t, w.status)
	require.Empty(t, w.Body.String())
}

func TestARejectionOfOnesOwn(t *testing.T) {
	w := httptest.NewRecorder()
	(&httplimit.Rejection{RetryAfter: time.Second}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Equal(t, 429, w.Code)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
}

func TestResultsOfDecisions(t *testing.T) {
	j := new(journal)
	l := limits(t, httplimit.Options{
		Observer: j,
		Policies: []httplimit.Policy{
			{Name: "no", Limiter: refuser(core.Lease{})},
			{Name: "fails", Limiter: refuser(core.Fail(errBroken))},
			{Name: "open", Limiter: refuser(core.Fail(errBroken)), FailOpen: true},
			{Name: "bytes", Upload: all(core.Unlimited())},
		},
	})
	for name, want := range map[string]string{
		"no": "endpoint_limiter no 0s", "fails": "failed fails 0s", "open": "failed open 0s", "bytes": "",
	} {
		get(l.Policy(name)(ok), "/")
		require.Equal(t, want, j.read())
	}
	require.Equal(t, "Result(9)", httplimit.Result(9).String())
}
