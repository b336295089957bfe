package httplimit_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

func TestHeadersAsText(t *testing.T) {
	for h, text := range map[httplimit.Headers]string{
		httplimit.RetryAfterOnly: "retry-after", httplimit.XRateLimit: "x-ratelimit", httplimit.Draft11: "draft-11",
	} {
		require.Equal(t, text, h.String())
		b, err := h.MarshalText()
		require.NoError(t, err)
		require.Equal(t, text, string(b))
		var back httplimit.Headers
		require.NoError(t, back.UnmarshalText(b))
		require.Equal(t, h, back)
	}
	require.Equal(t, "Headers(3)", httplimit.Headers(3).String())
	_, err := httplimit.Headers(3).MarshalText()
	require.ErrorContains(t, err, "Headers(3)")
	h := httplimit.Draft11
	require.ErrorContains(t, h.UnmarshalText([]byte("draft-12")), `"draft-12"`)
	require.Equal(t, httplimit.Draft11, h)
}

// power returns 2^n, also where that is no constant of an int.
func power(n int) int { return 1 << n }

// leasing grants or refuses with that metadata.
func leasing(granted bool, m ...core.Metadata) httplimit.Limiter {
	if granted {
		return refuser(core.Grant(1, nil, m...))
	}
	return refuser(core.Reject(m...))
}

func TestHeaders(t *testing.T) {
	limit, left := core.PermitLimit.With, core.Remaining.With
	reset, retry, window := core.ResetAfter.With, core.RetryAfter.With, core.Window.With
	for _, c := range []struct {
		name      string
		limiters  []httplimit.Limiter
		x         [3]string
		policy, r string
	}{
		{"nothing known", []httplimit.Limiter{leasing(true)}, [3]string{}, "", ""},
		{
			"a rate",
			[]httplimit.Limiter{leasing(true, limit(100), left(40), reset(1500*time.Millisecond), window(time.Minute))},
			[3]string{"100", "40", "2"},
			`"p0";q=100;w=60`, `"p0";r=40;t=2`,
		},
		{
			"not a whole second",
			[]httplimit.Limiter{leasing(true, limit(100), left(40), reset(1500*time.Millisecond), window(1900*time.Millisecond))},
			[3]string{"100", "40", "2"},
			`"p0";q=100;w=2`, `"p0";r=40;t=2`,
		},
		{
			"at once",
			[]httplimit.Limiter{leasing(true, limit(10), left(0))},
			[3]string{"10", "0", ""},
			`"p0";q=10;qu="concurrent-requests"`, `"p0";r=0`,
		},
		{
			"two",
			[]httplimit.Limiter{leasing(true, limit(10), left(5)), leasing(true), leasing(true, limit(7), left(4), reset(time.Hour), window(time.Hour))},
			[3]string{"7", "4", "3600"},
			`"p0";q=10;qu="concurrent-requests", "p2";q=7;w=3600`, `"p0";r=5, "p2";r=4;t=3600`,
		},
		{
			"rejected",
			[]httplimit.Limiter{leasing(true, limit(10), left(0)), leasing(false, limit(7), left(0), retry(1), reset(time.Hour), window(time.Hour))},
			[3]string{"7", "0", "3600"},
			`"p0";q=10;qu="concurrent-requests", "p1";q=7;w=3600`, `"p0";r=1, "p1";r=0;t=1`,
		},
		{
			"a quota before a concurrency limit",
			[]httplimit.Limiter{leasing(true, limit(10), left(5), reset(time.Second), window(time.Minute)), leasing(true, limit(7), left(4))},
			[3]string{"10", "5", "1"},
			`"p0";q=10;w=60, "p1";q=7;qu="concurrent-requests"`, `"p0";r=5;t=1, "p1";r=4`,
		},
		{
			"a quota after a concurrency limit",
			[]httplimit.Limiter{leasing(true, limit(7), left(4)), leasing(true, limit(10), left(5), reset(time.Second), window(time.Minute))},
			[3]string{"10", "5", "1"},
			`"p0";q=7;qu="concurrent-requests", "p1";q=10;w=60`, `"p0";r=4, "p1";r=5;t=1`,
		},
		{
			"a concurrency limit that rejects, beside a quota",
			[]httplimit.Limiter{leasing(true, limit(10), left(5), reset(time.Second), window(time.Minute)), leasing(false, limit(7), left(0))},
			[3]string{"10", "6", "1"},
			`"p0";q=10;w=60, "p1";q=7;qu="concurrent-requests"`, `"p0";r=6;t=1, "p1";r=0`,
		},
		{
			"the one that rejects, of two",
			[]httplimit.Limiter{leasing(true, limit(10), left(0), reset(time.Second), window(time.Minute)), leasing(false, limit(7), left(1), reset(time.Hour), window(time.Hour))},
			[3]string{"7", "1", "3600"},
			`"p0";q=10;w=60, "p1";q=7;w=3600`, `"p0";r=1;t=1, "p1";r=1`,
		},
		{
			"rejected, and all is back",
			[]httplimit.Limiter{leasing(true, limit(10), left(9), reset(time.Second), window(time.Minute)), leasing(false, limit(7), left(0))},
			[3]string{"10", "10", "0"},
			`"p0";q=10;w=60, "p1";q=7;qu="concurrent-requests"`, `"p0";r=10;t=0, "p1";r=0`,
		},
		{
			"large",
			[]httplimit.Limiter{leasing(true, limit(power(62)), left(power(61)), reset(1<<62), window(1<<62))},
			[3]string{"4611686018427387904", "2305843009213693952", "4611686019"},
			`"p0";q=999999999999999;w=4611686019`, `"p0";r=999999999999999;t=4611686019`,
		},
		{"a window of no time", []httplimit.Limiter{leasing(true, limit(1), left(1), window(0))}, [3]string{"1", "1", ""}, `"p0";q=1;w=1`, `"p0";r=1`},
		{"below zero", []httplimit.Limiter{leasing(true, limit(1), left(-3))}, [3]string{"1", "0", ""}, `"p0";q=1;qu="concurrent-requests"`, `"p0";r=0`},
	} {
		if c.name == "large" && strconv.IntSize < 64 {
			continue // more than an int holds there
		}
		t.Run(c.name, func(t *testing.T) {
			o := httplimit.Options{}
			var names []string
			for i, l := range c.limiters {
				names = append(names, fmt.Sprint("p", i))
				o.Policies = append(o.Policies, httplimit.Policy{Name: names[i], Limiter: l})
			}
			for _, o.Headers = range []httplimit.Headers{httplimit.RetryAfterOnly, httplimit.XRateLimit, httplimit.Draft11} {
				l := limits(t, o)
				check := func(h http.Header) {
					var x [3]string
					var policy, r string
					switch o.Headers {
					case httplimit.XRateLimit:
						x = c.x
					case httplimit.Draft11:
						policy, r = c.policy, c.r
					}
					got := [3]string{h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Reset")}
					require.Equal(t, x, got)
					require.Equal(t, policy, h.Get("RateLimit-Policy"))
					require.Equal(t, r, h.Get("RateLimit"))
				}
				inside := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { check(w.Header()) }))
				check(get(l.Policy(names...)(inside), "/").Header())
				if strings.Contains(c.name, "reject") {
					continue // the wrappers around it have set their headers before
				}
				nested := inside
				for i := range names {
					nested = l.Policy(names[len(names)-1-i])(nested)
				}
				check(get(nested, "/").Header())
			}
		})
	}
}

// Headers ask no limiter: a rejected request counts once, as what it was.
func TestHeadersCountNothing(t *testing.T) {
	for _, h := range []httplimit.Headers{httplimit.RetryAfterOnly, httplimit.XRateLimit, httplimit.Draft11} {
		first, full, small := perMinute(t, 10), perMinute(t, 1), perMinute(t, 2)
		full.TryAcquire(1)
		l := limits(t, httplimit.Options{Headers: h, Policies: []httplimit.Policy{
			{Name: "first", Limiter: all(first)},
			{Name: "full", Limiter: all(full)},
			{Name: "small", Limiter: all(small), Cost: func(*http.Request) int { return 3 }},
		}})
		require.Equal(t, http.StatusTooManyRequests, get(l.Policy("first", "full")(ok), "/").Code)
		require.Equal(t, uint64(1), first.Statistics().Granted, h)
		require.Equal(t, 10, first.Available())
		first.TryAcquire(1)
		header := get(l.Policy("first", "small")(ok), "/").Header()
		require.Zero(t, small.Statistics().Granted, h)
		require.Empty(t, header.Get("Retry-After"))
		switch h {
		case httplimit.XRateLimit:
			require.Equal(t, "2", header.Get("X-RateLimit-Limit"))
			require.Equal(t, "2", header.Get("X-RateLimit-Remaining"))
		case httplimit.Draft11:
			require.Equal(t, `"first";q=10;w=60, "small";q=2;w=60`, header.Get("RateLimit-Policy"))
			require.Equal(t, `"first";r=9;t=60, "small";r=2;t=0`, header.Get("RateLimit"))
		}
	}
}

func TestNoHeadersOnRedirects(t *testing.T) {
	for _, h := range []httplimit.Headers{httplimit.XRateLimit, httplimit.Draft11} {
		l := limits(t, httplimit.Options{
			Headers:  h,
			Global:   &httplimit.Policy{Limiter: all(perMinute(t, 100))},
			Policies: []httplimit.Policy{{Name: "p", Limiter: all(perMinute(t, 10))}},
		})
		for _, status := range []int{200, 204, 301, 304, 399, 400, 500} {
			w := get(l.Policy("p")(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
			})), "/")
			require.Equal(t, status < 300 || status > 399, len(w.Header()) > 0, "%d: %v", status, w.Header())
		}
		if h == httplimit.Draft11 {
			w := get(l.Handler(l.Policy("p")(ok)), "/")
			require.Equal(t, `"global";q=100;w=60, "p";q=10;w=60`, w.Header().Get("RateLimit-Policy"))
			require.Regexp(t, `^"global";r=99;t=60, "p";r=\d;t=60$`, w.Header().Get("RateLimit"))
		}
		w := get(l.Handler(l.Policy("p")(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-RateLimit-Limit", "mine")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusFound)
			w.WriteHeader(http.StatusOK)
		}))), "/")
		require.Equal(t, http.Header{"X-Ratelimit-Limit": {"mine"}}, w.Header())
	}
}
