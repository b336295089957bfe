package httplimit_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
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
				lim := limits(t, httplimit.Options{Observer: new(journal), Global: &httplimit.Policy{
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

// perClient is a bucket per client.
func perClient(o core.TokenBucketOptions) httplimit.Limiter {
	return core.Must(partition.New(partition.Options[*http.Request, netip.Prefix]{
		Key: httplimit.ByIP(httplimit.IPOptions{}), New: func(netip.Prefix) (core.Limiter, error) { return core.NewTokenBucket(o) },
	}))
}

// What has no effect is an error where New can see it.
func TestOptionsWithoutEffect(t *testing.T) {
	queued, none := all(atOnce(t, 1, 1)), all(atOnce(t, 1, 0))
	flow := func(*http.Request) core.Flow { return core.Flow{} }
	chain := all(core.Must(core.Chain(perMinute(t, 1), atOnce(t, 1, 0))))
	keyed := perClient(core.PerSecond(1, 1))
	for name, c := range map[string]struct {
		o    httplimit.Options
		want string
	}{
		"no policy":                   {httplimit.Options{ProblemJSON: true}, "httplimit: Options has no policy, want at least one"},
		"MaxWait without a queue":     {httplimit.Options{Global: &httplimit.Policy{Limiter: none, MaxWait: time.Second}}, "httplimit: Options.Global.MaxWait = 1s, want 0, since the limiter has no queue (QueueLimit is 0)"},
		"MaxWait without any queue":   {httplimit.Options{Global: &httplimit.Policy{Limiter: chain, MaxWait: -1}}, "MaxWait"},
		"MaxWait without a limiter":   {httplimit.Options{Global: &httplimit.Policy{Upload: queued, MaxWait: 1}}, "MaxWait"},
		"MaxWait with a queue":        {httplimit.Options{Global: &httplimit.Policy{Limiter: queued, MaxWait: 1}}, ""},
		"MaxWait with a partition":    {httplimit.Options{Global: &httplimit.Policy{Limiter: keyed, MaxWait: 1}}, ""},
		"MaxWait with a Switch":       {httplimit.Options{Global: &httplimit.Policy{Limiter: all(core.NewSwitch(atOnce(t, 1, 0))), MaxWait: 1}}, ""},
		"Flow alone":                  {httplimit.Options{Global: &httplimit.Policy{Limiter: queued, Flow: flow}}, "httplimit: Options.Global.Flow is set, want a MaxWait too, or one of Upload and Download"},
		"Flow with MaxWait":           {httplimit.Options{Global: &httplimit.Policy{Limiter: queued, Flow: flow, MaxWait: -1}}, ""},
		"Flow with Upload":            {httplimit.Options{Global: &httplimit.Policy{Upload: queued, Flow: flow}}, ""},
		"Shadow that nobody sees":     {httplimit.Options{Policies: []httplimit.Policy{{Name: "a", Limiter: none, Shadow: true}}}, "httplimit: Options.Policies[0].Shadow = true, want an Observer or a Logger too"},
		"Shadow with an Observer":     {httplimit.Options{Observer: new(journal), Policies: []httplimit.Policy{{Name: "a", Limiter: none, Shadow: true}}}, ""},
		"Shadow with a Logger":        {httplimit.Options{Logger: slog.Default(), Policies: []httplimit.Policy{{Name: "a", Limiter: none, Shadow: true}}}, ""},
		"a global policy without use": {httplimit.Options{Global: &httplimit.Policy{Limiter: none}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := httplimit.New(c.o)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			ready := limits(t, httplimit.Options{Global: &httplimit.Policy{Limiter: queued}})
			require.ErrorContains(t, ready.Update(c.o), c.want)
		})
	}
}

// What New cannot see is logged once in a while, and what FailOpen lets pass too, with the Logger or slog.Default.
func TestWarnings(t *testing.T) {
	noQueue := perClient(core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: 24 * time.Hour})
	use := func(l *httplimit.Limits) http.Handler { return l.Policy("p")(ok) }
	for name, c := range map[string]struct {
		o    httplimit.Options
		use  func(*httplimit.Limits) http.Handler
		want string // once in a minute
	}{
		"a global policy that no Handler applies": {httplimit.Options{Global: &httplimit.Policy{Limiter: all(core.Blocked())}}, use, "the global policy limits nothing, because no Handler applies it"},
		"one that a Handler applies": {
			httplimit.Options{Global: &httplimit.Policy{Limiter: all(core.Unlimited())}},
			func(l *httplimit.Limits) http.Handler { return l.Handler(l.Policy("p")(ok)) }, "",
		},
		"one that is checked": {httplimit.Options{Global: &httplimit.Policy{Limiter: all(core.Unlimited())}}, func(l *httplimit.Limits) http.Handler {
			l.Check(httptest.NewRequest(http.MethodGet, "/", nil))
			return use(l)
		}, ""},
		"MaxWait without a queue": {
			httplimit.Options{Global: &httplimit.Policy{Limiter: noQueue, MaxWait: time.Second}},
			func(l *httplimit.Limits) http.Handler { return l.Handler(ok) }, "MaxWait has no effect, because the limiter has no queue",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, own := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) {
					var log bytes.Buffer
					logger := slog.New(slog.NewTextHandler(&log, nil))
					if o := &c.o; own {
						o.Logger = logger
					} else {
						o.Logger = nil
						before := slog.Default()
						slog.SetDefault(logger)
						defer slog.SetDefault(before)
					}
					c.o.Policies = []httplimit.Policy{{Name: "p", Limiter: all(core.Unlimited())}}
					h := c.use(limits(t, c.o))
					for range 3 {
						get(h, "/")
					}
					want := min(len(c.want), 1)
					require.Equal(t, want, strings.Count(log.String(), "\n"), log.String())
					require.Contains(t, log.String(), c.want)
					time.Sleep(time.Minute - 1)
					get(h, "/")
					require.Equal(t, want, strings.Count(log.String(), "\n"))
					time.Sleep(1)
					get(h, "/")
					require.Equal(t, 2*want, strings.Count(log.String(), "\n"))
				})
			}
		})
	}
}

// If the client has gone, nobody knows what it got: neither Refund nor Settle is called, and the permits stay taken.
func TestNoOutcomeOfAClientThatHasGone(t *testing.T) {
	for name, p := range map[string]httplimit.Policy{
		"Refund": {Refund: func(*http.Request, int) bool { t.Error("Refund was called"); return true }},
		"Settle": {Settle: func(*http.Request, int, http.Header) int { t.Error("Settle was called"); return 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			rate, slots := perMinute(t, 3), atOnce(t, 1, 0)
			p.Name, p.Limiter = "p", all(core.Must(core.Chain(rate, slots)))
			ctx, leave := context.WithCancel(t.Context())
			h := limits(t, httplimit.Options{Policies: []httplimit.Policy{p}}).Policy("p")(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leave() }))
			play(h, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
			require.Equal(t, 2, rate.Available())
			free(t, slots)
		})
	}
}
