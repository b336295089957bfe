package httplimit_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// refuser answers all with one lease.
type refuser core.Lease

func (l refuser) TryAcquire(*http.Request, int) core.Lease { return core.Lease(l) }
func (l refuser) Acquire(context.Context, *http.Request, int) (core.Lease, error) {
	return core.Lease(l), core.Lease(l).Err()
}

func TestRejection(t *testing.T) {
	retry := func(d time.Duration) core.Metadata { return core.RetryAfter.With(d) }
	reason := func(s string) core.Metadata { return core.ReasonPhrase.With(s) }
	for _, c := range []struct {
		name   string
		policy httplimit.Policy
		status int
		after  string
		body   string
	}{
		{"unknown", httplimit.Policy{Limiter: refuser(core.Reject())}, 429, "", "Too Many Requests\n"},
		{"lies", httplimit.Policy{Limiter: broken{lies: true}}, 429, "", "Too Many Requests\n"},
		{"at least 1", httplimit.Policy{Limiter: refuser(core.Reject(retry(1)))}, 429, "1", "Too Many Requests\n"},
		{"rounded up", httplimit.Policy{Limiter: refuser(core.Reject(retry(2*time.Second + 1)))}, 429, "3", "Too Many Requests\n"},
		{"exact", httplimit.Policy{Limiter: refuser(core.Reject(retry(2 * time.Second)))}, 429, "2", "Too Many Requests\n"},
		{"status", httplimit.Policy{Limiter: refuser(core.Reject(retry(time.Second))), Status: 503}, 503, "1", "Service Unavailable\n"},
		{"odd status", httplimit.Policy{Limiter: refuser(core.Reject()), Status: 499}, 499, "", "Too Many Requests\n"},
		{"reason", httplimit.Policy{Limiter: refuser(core.Reject(reason("ask sales")))}, 429, "", "ask sales\n"},
		{"built-in reason", httplimit.Policy{Limiter: refuser(core.Reject(reason("queue limit reached")))}, 429, "", "Too Many Requests\n"},
		{"only the error knows", httplimit.Policy{Limiter: broken{err: fmt.Errorf("x: %w", &core.RejectedError{RetryAfter: time.Minute})}}, 429, "60", "Too Many Requests\n"},
		{"more than the limit", httplimit.Policy{Limiter: all(perMinute(t, 2)), Permits: func(*http.Request) int { return 3 }}, 429, "", "Too Many Requests\n"},
		{"failure", httplimit.Policy{Limiter: broken{err: errBroken}, Status: 429}, 503, "", "Service Unavailable\n"},
		{"reason of a failure", httplimit.Policy{Limiter: refuser(core.Fail(errBroken).With(core.ReasonPhrase.With("the password")))}, 503, "", "Service Unavailable\n"},
		{"closed", httplimit.Policy{Limiter: broken{err: core.ErrClosed}}, 503, "", "Service Unavailable\n"},
		{"fails open", httplimit.Policy{Limiter: broken{err: core.ErrClosed}, FailOpen: true}, 200, "", "ok"},
		{"refuses, though open to failures", httplimit.Policy{Limiter: broken{lies: true}, FailOpen: true}, 429, "", "Too Many Requests\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := limits(t, httplimit.Options{Global: &c.policy}).Handler(ok)
			w := get(h, "/")
			require.Equal(t, c.status, w.Code)
			require.Equal(t, c.body, w.Body.String())
			require.Equal(t, c.after, w.Header().Get("Retry-After"))
			if c.status != 200 {
				require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
				require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
				body := &unread{t}
				w = play(h, httptest.NewRequest(http.MethodHead, "/", body))
				require.Empty(t, w.Body.String())
				require.Equal(t, c.status, w.Code)
			}
		})
	}
}

// unread fails the test when it is read.
type unread struct{ t *testing.T }

func (u *unread) Read([]byte) (int, error) {
	u.t.Error("a rejected request's body was read")
	return 0, io.EOF
}

func TestProblems(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy httplimit.Policy
		change int
		want   string
	}{
		{
			"quota",
			httplimit.Policy{Limiter: refuser(core.Reject(core.ReasonPhrase.With(`say "please"`)))},
			0,
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"say \"please\"","violated-policies":["p"]}`,
		},
		{
			"capacity",
			httplimit.Policy{Limiter: refuser(core.Reject()), Status: 503},
			0,
			`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,"detail":"Service Unavailable","violated-policies":["p"]}`,
		},
		{
			"changed",
			httplimit.Policy{Limiter: refuser(core.Reject()), Status: 503},
			420,
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":420,"detail":"Too Many Requests","violated-policies":["p"]}`,
		},
		{
			"failure",
			httplimit.Policy{Limiter: broken{err: errBroken}},
			0,
			`{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"Service Unavailable"}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.policy.Name = "p"
			w := get(limits(t, httplimit.Options{
				ProblemJSON: true,
				Policies:    []httplimit.Policy{c.policy},
				OnRejected: func(_ http.ResponseWriter, _ *http.Request, rejection *httplimit.Rejection) {
					if c.change != 0 {
						rejection.Status = c.change
					}
				},
			}).Policy("p")(ok), "/")
			require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
			require.JSONEq(t, c.want, w.Body.String())
		})
	}
}

func TestOnRejected(t *testing.T) {
	for _, c := range []struct {
		name   string
		on     func(http.ResponseWriter, *http.Request, *httplimit.Rejection)
		status int
		body   string
		header http.Header
	}{
		{"nothing", func(http.ResponseWriter, *http.Request, *httplimit.Rejection) {}, 429, "Too Many Requests\n", nil},
		{"header alone", func(w http.ResponseWriter, _ *http.Request, _ *httplimit.Rejection) {
			if w.Header().Get("Retry-After") != "5" || w.Header().Get("Cache-Control") != "no-store" {
				panic("not set yet")
			}
			w.Header().Set("Retry-After", "9")
			w.Header().Del("Cache-Control")
		}, 429, "Too Many Requests\n", http.Header{"Retry-After": {"9"}, "Cache-Control": nil}},
		{"status", func(w http.ResponseWriter, r *http.Request, rejection *httplimit.Rejection) {
			rejection.Status = 503
			rejection.ServeHTTP(w, r)
		}, 503, "Service Unavailable\n", http.Header{"Retry-After": {"5"}}},
		{"status that is none", func(_ http.ResponseWriter, _ *http.Request, rejection *httplimit.Rejection) { rejection.Status = 7 }, 429, "Too Many Requests\n", nil},
		{"its own", func(w http.ResponseWriter, _ *http.Request, _ *httplimit.Rejection) {
			w.WriteHeader(http.StatusTeapot)
		}, 418, "", http.Header{"Retry-After": {"5"}}},
		{"a body", func(w http.ResponseWriter, _ *http.Request, _ *httplimit.Rejection) { _, _ = io.WriteString(w, "no") }, 200, "no", nil},
		{"a redirect", func(w http.ResponseWriter, r *http.Request, _ *httplimit.Rejection) {
			http.Redirect(w, r, "/wait", http.StatusSeeOther)
		}, 303, "<a href=\"/wait\">See Other</a>.\n\n", http.Header{"X-Ratelimit-Limit": nil}},
		{"a redirect by the status", func(_ http.ResponseWriter, _ *http.Request, rejection *httplimit.Rejection) {
			rejection.Status = 303
		}, 303, "See Other\n", http.Header{"X-Ratelimit-Limit": nil}},
		{"a flush", func(w http.ResponseWriter, _ *http.Request, _ *httplimit.Rejection) { w.(http.Flusher).Flush() }, 200, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			lease := core.Reject(core.RetryAfter.With(5*time.Second), core.PermitLimit.With(1), core.Remaining.With(0))
			l := limits(t, httplimit.Options{
				Headers: httplimit.XRateLimit,
				Policies: []httplimit.Policy{
					{Name: "options", Limiter: refuser(lease)},
					{Name: "own", Limiter: refuser(lease), OnRejected: c.on},
				},
				OnRejected: func(w http.ResponseWriter, r *http.Request, rejection *httplimit.Rejection) {
					if rejection.Policy != "options" {
						panic("the policy has its own")
					}
					c.on(w, r, rejection)
				},
			})
			for _, name := range []string{"options", "own"} {
				w := get(l.Policy(name)(ok), "/")
				require.Equal(t, c.status, w.Code)
				require.Equal(t, c.body, w.Body.String())
				for k, v := range c.header {
					require.Equal(t, v, w.Header()[k], k)
				}
			}
		})
	}
}

// The standard answer says nothing of the body that a handler outside had in mind.
func TestARejectionReplacesTheBody(t *testing.T) {
	l := limits(t, httplimit.Options{Global: &httplimit.Policy{Limiter: refuser(core.Reject())}})
	w := httptest.NewRecorder()
	w.Header().Set("Content-Length", "1000")
	w.Header().Set("Content-Encoding", "gzip")
	l.Handler(ok).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Equal(t, http.Header{
		"Cache-Control":          {"no-store"},
		"Content-Type":           {"text/plain; charset=utf-8"},
		"X-Content-Type-Options": {"nosniff"},
	}, w.Header())
}

// taken is a ResponseWriter whose connection can be taken over.
type taken struct{ *httptest.ResponseRecorder }

func (t taken) ReadFrom(r io.Reader) (int64, error) { return io.Copy(t.ResponseRecorder, r) }
func (taken) CloseNotify() <-chan bool              { return nil }

func (taken) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

// The standard answer does not follow if OnRejected has taken the connection over.
func TestOnRejectedHijacks(t *testing.T) {
	l := limits(t, httplimit.Options{
		Global: &httplimit.Policy{Limiter: refuser(core.Reject())},
		OnRejected: func(w http.ResponseWriter, _ *http.Request, _ *httplimit.Rejection) {
			_, _, err := w.(http.Hijacker).Hijack()
			require.NoError(t, err)
		},
	})
	w := taken{httptest.NewRecorder()}
	w.Code = 0
	l.Handler(ok).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Zero(t, w.Code)
	require.Empty(t, w.Body.String())
}

func TestOnRejectedOfAFailure(t *testing.T) {
	l := limits(t, httplimit.Options{
		Global: &httplimit.Policy{Limiter: broken{err: errBroken}},
		OnRejected: func(_ http.ResponseWriter, _ *http.Request, rejection *httplimit.Rejection) {
			require.Equal(t, "global", rejection.Policy)
			require.Equal(t, 503, rejection.Status)
			require.ErrorIs(t, rejection.Err, errBroken)
			require.ErrorIs(t, rejection.Lease.Err(), errBroken)
			require.Zero(t, rejection.RetryAfter)
		},
	})
	w := get(l.Handler(ok), "/")
	require.Equal(t, 503, w.Code)
	require.NotContains(t, w.Body.String(), "secret")
	require.NotContains(t, fmt.Sprint(w.Header()), "secret")
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
			{Name: "no", Limiter: broken{lies: true}},
			{Name: "fails", Limiter: broken{err: errBroken}},
			{Name: "open", Limiter: broken{err: errBroken}, FailOpen: true},
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
