package httplimit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// three has a global policy, the policies a and b, and others that let no request pass.
func three(t *testing.T, j *journal) *httplimit.Limits {
	t.Helper()
	return limits(t, httplimit.Options{
		Global: &httplimit.Policy{Limiter: all(refundable{noting{"global", j, false}})},
		Policies: []httplimit.Policy{
			{Name: "a", Limiter: all(refundable{noting{"a", j, false}})},
			{Name: "b", Limiter: all(noting{"b", j, false})},
			{Name: "no", Limiter: all(noting{"no", j, true})},
			{Name: "fails", Limiter: refuser(core.Fail(errBroken))},
			{Name: "panics", Limiter: panicking{http.ErrAbortHandler}},
		},
		Skip: func(r *http.Request) bool { j.write("skip?"); return r.URL.Path == "/skip" },
	})
}

func TestOrder(t *testing.T) {
	j := new(journal)
	l := three(t, j)
	h := http.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { j.write("handle") }))
	boom := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	const skip, global = "skip?; ", "skip?; grant global 1; "
	for _, c := range []struct {
		name string
		h    http.Handler
		path string
		want string
	}{
		{"global", l.Handler(h), "/", global + "handle; release global"},
		{"twice counts twice", l.Handler(l.Handler(h)), "/", global + global + "handle; release global; release global"},
		{"named", l.Policy("b", "a")(h), "/", skip + "grant b 1; grant a 1; handle; release a; release b"},
		{"named inside", l.Handler(l.Policy("a")(h)), "/", global + skip + "grant a 1; handle; release a; release global"},
		{"outermost first", l.Policy("b")(l.Policy("a")(h)), "/", skip + "grant b 1; " + skip + "grant a 1; handle; release a; release b"},
		{"a name twice", l.Policy("a", "a")(h), "/", skip + "grant a 1; grant a 1; handle; release a; release a"},
		{"no name", l.Policy()(h), "/", "handle"},
		{"refused", l.Policy("a", "b", "no")(h), "/", skip + "grant a 1; grant b 1; reject no; release b; refund a"},
		{"refused inside", l.Handler(l.Policy("a")(l.Policy("no")(h))), "/", global + skip + "grant a 1; " + skip + "reject no; refund a; refund global"},
		{"failed inside", l.Handler(l.Policy("fails")(h)), "/", global + skip + "refund global"},
		{"panic inside, in a limiter", l.Handler(l.Policy("panics")(h)), "/", global + skip + "refund global; panic"},
		{"skipped", l.Handler(l.Policy("no")(h)), "/skip", skip + skip + "handle"},
		{"panic", l.Handler(l.Policy("a")(boom)), "/", global + skip + "grant a 1; release a; release global; panic"},
	} {
		t.Run(c.name, func(t *testing.T) {
			func() {
				defer func() {
					if v := recover(); v != nil {
						require.Equal(t, http.ErrAbortHandler, v)
						j.write("panic")
					}
				}()
				get(c.h, c.path)
			}()
			require.Equal(t, c.want, j.read())
		})
	}
}

func TestUnknownNamePanics(t *testing.T) {
	l := three(t, new(journal))
	require.Panics(t, func() { l.Policy("a", "x")(ok) })
	require.Panics(t, func() { l.Check(httptest.NewRequest(http.MethodGet, "/", nil), "x") })
	require.Panics(t, func() { l.Policy("global")(ok) }, "the global policy has no name for handlers")
	require.Panics(t, func() { l.Policy("")(ok) })
}

func TestLeaseFrom(t *testing.T) {
	_, found := httplimit.LeaseFromContext(t.Context())
	require.False(t, found)

	outer, one, two, j := atOnce(t, 1, 0), atOnce(t, 10, 0), perMinute(t, 10), new(journal)
	l := limits(t, httplimit.Options{
		Global: &httplimit.Policy{Limiter: all(outer)},
		Policies: []httplimit.Policy{
			{Name: "o", Limiter: all(one), Cost: func(*http.Request) int { return 3 }},
			{Name: "w", Limiter: all(two), Refund: func(*http.Request, int) bool {
				j.write("refund?")
				return true
			}},
		},
	})
	var late core.Lease
	get(l.Handler(l.Policy("o", "w")(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		late, found = httplimit.LeaseFromContext(r.Context())
		assert.True(t, found)
		assert.Equal(t, 3, late.Permits())
		assert.Equal(t, 7, one.Available())
		late.Release()
		late.Release()
		free(t, one)
		assert.Equal(t, 9, two.Available())
		assert.Zero(t, outer.Available(), "a wrapper further outside keeps its lease")
		assert.Empty(t, j.read())
	}))), "/")
	require.Equal(t, "refund?", j.read(), "called after an early release, too")
	late.Release()
	free(t, outer)
	free(t, one)
	free(t, two)
}

func TestUserCodeThatPanicsCostsNoLease(t *testing.T) {
	boom := func() { panic("boom") }
	for name, p := range map[string]httplimit.Policy{
		"Permits": {Limiter: all(core.Unlimited()), Cost: func(*http.Request) int { boom(); return 1 }},
		"Limiter": {Limiter: panicking{"boom"}},
		"OnRejected": {Limiter: refuser(core.Lease{}), OnRejected: func(http.ResponseWriter, *http.Request, *httplimit.Rejection) {
			boom()
		}},
		"Refund": {Limiter: all(core.Unlimited()), Refund: func(*http.Request, int) bool { boom(); return true }},
		"Settle": {Limiter: all(core.Unlimited()), Settle: func(*http.Request, int, http.Header) int { boom(); return 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			one, two := atOnce(t, 1, 0), atOnce(t, 1, 0)
			p.Name = "p"
			l := limits(t, httplimit.Options{
				Global:   &httplimit.Policy{Limiter: all(one)},
				Policies: []httplimit.Policy{{Name: "two", Limiter: all(two)}, p},
			})
			require.PanicsWithValue(t, "boom", func() { get(l.Handler(l.Policy("two", "p")(ok)), "/") })
			free(t, one)
			free(t, two)
			if name == "Permits" || name == "Limiter" {
				require.PanicsWithValue(t, "boom", func() { l.Check(httptest.NewRequest(http.MethodGet, "/", nil), "two", "p") })
				free(t, one)
				free(t, two)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	_, err := httplimit.New(httplimit.Options{
		Global: &httplimit.Policy{Name: "a b"},
		Policies: []httplimit.Policy{
			{Name: "", Limiter: all(core.Unlimited()), Status: 200},
			{Name: "x", Limiter: (*refuser)(nil), Status: 600},
			{Name: "x", Download: all(core.Unlimited())},
		},
		Headers: 7,
	})
	for _, want := range []string{
		`httplimit: Options.Global.Name = "a b", want ASCII letters`,
		"httplimit: Options.Global.Limiter = nil, want",
		`httplimit: Options.Policies[0].Name = ""`,
		"httplimit: Options.Policies[0].Status = 200, want 400 to 599",
		"httplimit: Options.Policies[1].Status = 600",
		"httplimit: Options.Policies[1].Limiter = nil",
		`httplimit: Options.Policies[2].Name = "x", want a name that no other policy has`,
		"httplimit: Options.Headers = Headers(7)",
	} {
		require.ErrorContains(t, err, want)
	}
}

// A wrapper uses one snapshot of the options, from the request's arrival to its end.
func TestOneSnapshotForAWrapper(t *testing.T) {
	j := new(journal)
	l := limits(t, httplimit.Options{
		Headers: httplimit.Draft11,
		Policies: []httplimit.Policy{{Name: "a", Limiter: all(noting{"a", j, false}), Refund: func(*http.Request, int) bool {
			j.write("refund?")
			return false
		}}},
	})
	h := l.Policy("a")(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		assert.NoError(t, l.Update(httplimit.Options{Policies: []httplimit.Policy{{Name: "a", Limiter: refuser(core.Fail(errBroken))}}}))
	}))
	require.Equal(t, 200, get(h, "/").Code)
	require.Equal(t, "grant a 1; refund?; release a", j.read())
	require.Equal(t, 503, get(h, "/").Code)
}

// A request for which Permits returns 0 or less is not limited, not in its bytes either.
func TestPermits(t *testing.T) {
	j := new(journal)
	h := limits(t, httplimit.Options{Global: &httplimit.Policy{
		Limiter: all(noting{"global", j, false}),
		Cost:    func(r *http.Request) int { return len(r.URL.Path) - 2 },
		Upload:  refuser(core.Fail(errBroken)), Download: refuser(core.Fail(errBroken)),
		Refund: func(*http.Request, int) bool { j.write("refund?"); return false },
	}}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, limited := httplimit.LeaseFromContext(r.Context())
		assert.Equal(t, len(r.URL.Path) > 2, limited)
		_, err := io.Copy(w, r.Body)
		assert.Equal(t, limited, err != nil)
	}))
	for path, want := range map[string]string{
		"/": "", "/1": "", "/12": "grant global 1; refund?; release global", "/1234": "grant global 3; refund?; release global",
	} {
		w := play(h, httptest.NewRequest(http.MethodPost, path, strings.NewReader("hello")))
		require.Equal(t, want, j.read())
		require.Equal(t, want == "", w.Body.String() == "hello")
	}
}

// The zero values reject everything.
func TestZeroValues(t *testing.T) {
	var l httplimit.Limits
	w := get(l.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was served") })), "/")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	_, rejection := l.Check(httptest.NewRequest(http.MethodGet, "/", nil))
	require.ErrorIs(t, rejection.Err, core.ErrClosed)
	require.Panics(t, func() { l.Policy("p")(ok) })
	_, err := new(httplimit.Transport).RoundTrip(httptest.NewRequest(http.MethodGet, "/", nil))
	require.ErrorIs(t, err, core.ErrClosed)
	require.NoError(t, l.Update(httplimit.Options{Global: &httplimit.Policy{Limiter: all(core.Unlimited())}}))
	require.Equal(t, http.StatusOK, get(l.Handler(ok), "/").Code)
}

// A handler may settle the lease of its request, or refund it, and the difference comes back once.
func TestSettlingTheLeaseOfARequest(t *testing.T) {
	for _, observer := range []httplimit.Observer{nil, new(journal)} {
		for name, c := range map[string]struct {
			policies []string
			settle   func(core.Lease)
			left     [2]int // of 10 each, of which 5 are taken
		}{
			"settled":         {[]string{"rate"}, func(l core.Lease) { l.Settle(2) }, [2]int{8, 10}},
			"settled to more": {[]string{"rate"}, func(l core.Lease) { l.Settle(7) }, [2]int{3, 10}},
			"refunded":        {[]string{"rate"}, core.Lease.Refund, [2]int{10, 10}},
			"at once":         {[]string{"at-once"}, func(l core.Lease) { l.Settle(2) }, [2]int{10, 10}},
			"both":            {[]string{"rate", "at-once"}, func(l core.Lease) { l.Settle(2) }, [2]int{5, 10}},
			"both refunded":   {[]string{"rate", "at-once"}, core.Lease.Refund, [2]int{10, 10}},
		} {
			t.Run(name, func(t *testing.T) {
				rate, slots := perMinute(t, 10), atOnce(t, 10, 0)
				five := func(*http.Request) int { return 5 }
				l := limits(t, httplimit.Options{Observer: observer, Policies: []httplimit.Policy{
					{Name: "rate", Limiter: all(rate), Cost: five}, {Name: "at-once", Limiter: all(slots), Cost: five},
				}})
				get(l.Policy(c.policies...)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					lease, found := httplimit.LeaseFromContext(r.Context())
					assert.True(t, found)
					c.settle(lease)
				})), "/")
				left := [2]int{rate.Available(), slots.Available()}
				require.Equal(t, c.left, left)
			})
		}
	}
}
