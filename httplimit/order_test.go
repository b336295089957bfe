package httplimit_test

import (
	"bytes"
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

// three has a global policy and the policies a, b and no, which refuses.
func three(t *testing.T, j *journal) *httplimit.Limits {
	t.Helper()
	return limits(t, httplimit.Options{
		Global: &httplimit.Policy{Limiter: all(refundable{told{"global", j, false}})},
		Policies: []httplimit.Policy{
			{Name: "a", Limiter: all(refundable{told{"a", j, false}})},
			{Name: "b", Limiter: all(told{"b", j, false})},
			{Name: "no", Limiter: all(told{"no", j, true})},
		},
		Skip: func(r *http.Request) bool { j.write("skip?"); return r.URL.Path == "/skip" },
	})
}

func TestOrder(t *testing.T) {
	j := new(journal)
	l := three(t, j)
	h := http.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { j.write("handle") }))
	boom := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux := http.NewServeMux()
	mux.Handle("/exempt", l.Exempt(l.Policy("no")(h)))
	mux.Handle("/a", l.Policy("a")(h))
	const global = "skip?; grant global 1; "
	for _, c := range []struct {
		name string
		h    http.Handler
		path string
		want string
	}{
		{"global", l.Handler(h), "/", global + "handle; release global"},
		{"twice", l.Handler(l.Handler(h)), "/", global + "handle; release global"},
		{"named", l.Policy("b", "a")(h), "/", global + "grant b 1; grant a 1; handle; release a; release b; release global"},
		{"named inside", l.Handler(l.Policy("a")(h)), "/", global + "grant a 1; handle; release a; release global"},
		{"outermost first", l.Policy("b")(l.Policy("a", "b")(h)), "/", global + "grant b 1; grant a 1; handle; release a; release b; release global"},
		{"a name twice", l.Policy("a", "a")(l.Policy("a")(h)), "/", global + "grant a 1; handle; release a; release global"},
		{"refused", l.Policy("a", "b", "no")(h), "/", global + "grant a 1; grant b 1; refuse no; release b; refund a; release a; refund global; release global"},
		{"refused inside", l.Policy("a")(l.Policy("no")(h)), "/", global + "grant a 1; refuse no; refund a; release a; refund global; release global"},
		{"skipped", l.Handler(l.Policy("no")(h)), "/skip", "skip?; handle"},
		{"exempt", l.Exempt(l.Handler(l.Policy("no")(h))), "/", "handle"},
		{"exempt inside", l.Handler(l.Policy("no")(l.Exempt(h))), "/", "handle"},
		{"exempt in a mux", l.Handler(mux), "/exempt", "handle"},
		{"exempt in a mux, a policy between", l.Handler(l.Policy("no")(mux)), "/exempt", "handle"},
		{"not exempt in a mux", l.Handler(mux), "/a", global + "grant a 1; handle; release a; release global"},
		{"exempt behind another handler", l.Handler(l.Policy("a")(http.StripPrefix("/x", l.Exempt(l.Policy("no")(h))))), "/x", global + "grant a 1; refund a; release a; refund global; release global; handle"},
		{"panic", l.Policy("a")(boom), "/", global + "grant a 1; release a; release global; panic"},
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

func TestExemptOfOtherLimits(t *testing.T) {
	j := new(journal)
	l, other := three(t, j), three(t, j)
	h := l.Handler(other.Exempt(ok))
	require.Equal(t, http.StatusOK, get(h, "/").Code)
	require.Equal(t, "skip?; grant global 1; release global", j.read())
}

// What was refused holds nothing while it is being told so.
func TestRefundedBeforeTheAnswer(t *testing.T) {
	one := atOnce(t, 1, 0)
	l := limits(t, httplimit.Options{
		Global:     &httplimit.Policy{Limiter: all(one)},
		Policies:   []httplimit.Policy{{Name: "no", Limiter: broken{lies: true}}},
		OnRejected: func(http.ResponseWriter, *http.Request, *httplimit.Rejection) { free(t, one) },
	})
	require.Equal(t, 429, get(l.Policy("no")(ok), "/").Code)
}

func TestTwoLimits(t *testing.T) {
	outer, inner := atOnce(t, 1, 0), atOnce(t, 1, 0)
	h := limits(t, httplimit.Options{Global: &httplimit.Policy{Limiter: all(outer)}}).Handler(
		limits(t, httplimit.Options{Global: &httplimit.Policy{Limiter: all(inner)}}).Handler(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				assert.Zero(t, outer.Available())
				assert.Zero(t, inner.Available())
				lease, ok := httplimit.LeaseFrom(r.Context())
				assert.True(t, ok)
				lease.Release()
				free(t, outer)
				free(t, inner)
			})))
	get(h, "/")
	free(t, outer)
	free(t, inner)
}

func TestUnknownNamePanics(t *testing.T) {
	l := three(t, new(journal))
	require.Panics(t, func() { l.Policy("a", "x")(ok) })
	require.Panics(t, func() { l.Check(httptest.NewRequest(http.MethodGet, "/", nil), "x") })
	require.Panics(t, func() { l.Policy("global")(ok) }, "the global policy has no name for handlers")
}

func TestPermits(t *testing.T) {
	j := new(journal)
	l := limits(t, httplimit.Options{Global: &httplimit.Policy{
		Limiter: all(told{"global", j, false}),
		Permits: func(r *http.Request) int { return len(r.URL.Path) - 2 },
	}})
	for path, want := range map[string]string{
		"/": "", "/1": "", "/12": "grant global 1; release global", "/1234": "grant global 3; release global",
	} {
		get(l.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, ok := httplimit.LeaseFrom(r.Context())
			assert.Equal(t, want != "", ok)
		})), path)
		require.Equal(t, want, j.read())
	}
}

// A request that a policy does not limit is not limited in its bytes either.
func TestPermitsOfZeroLeaveTheBytesAlone(t *testing.T) {
	for _, permits := range []int{0, -1} {
		l := limits(t, httplimit.Options{Global: &httplimit.Policy{
			Permits: func(*http.Request) int { return permits },
			Upload:  broken{err: errBroken}, Download: broken{err: errBroken},
			Refund: func(*http.Request, int) bool { panic("there is nothing to refund") },
		}})
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("hello"))
		w := play(l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(w, r.Body)
			assert.NoError(t, err)
		})), r)
		require.Equal(t, "hello", w.Body.String())
	}
}

// No policy applies to what is exempt: its bytes are not throttled either, even if nothing
// could tell beforehand where the request goes.
func TestExemptBytes(t *testing.T) {
	l := limits(t, httplimit.Options{
		Global:   &httplimit.Policy{Upload: broken{err: errBroken}, Download: broken{err: errBroken}},
		Policies: []httplimit.Policy{{Name: "p", Upload: broken{err: errBroken}, Download: broken{err: errBroken}}},
	})
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var all []byte
		all, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.NoError(t, r.Body.Close())
		for _, write := range []func() error{
			func() error { _, err := w.Write(all); return err },
			func() error { _, err := io.WriteString(w, "hello"); return err },
			func() error { _, err := w.(io.ReaderFrom).ReadFrom(bytes.NewReader(all)); return err },
		} {
			assert.NoError(t, write())
		}
	})
	h := l.Handler(http.StripPrefix("/x", l.Policy("p")(http.StripPrefix("/y", l.Exempt(echo)))))
	server := httptest.NewServer(h)
	defer server.Close()
	response, err := server.Client().Post(server.URL+"/x/y/", "text/plain", strings.NewReader("hello"))
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, "hellohellohello", string(body))
}

func TestKeysUseThePatternOfTheMux(t *testing.T) {
	var seen []string
	l := limits(t, httplimit.Options{Global: &httplimit.Policy{
		Limiter: all(core.Unlimited()),
		Permits: func(r *http.Request) int { seen = append(seen, httplimit.ByPattern(r)); return 1 },
	}})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /item/{id}", func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.PathValue("id")) })
	for path, h := range map[string]http.Handler{"/item/7": l.Handler(mux), "/x/item/7": l.Handler(http.StripPrefix("/x", l.Handler(mux)))} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		play(h, r)
		require.Empty(t, r.Pattern)
	}
	require.ElementsMatch(t, []string{"GET /item/{id}", "7", "", "7"}, seen)
}

func TestLeaseFrom(t *testing.T) {
	_, found := httplimit.LeaseFrom(t.Context())
	require.False(t, found)

	one, two := atOnce(t, 10, 0), perMinute(t, 10)
	j := new(journal)
	l := limits(t, httplimit.Options{
		Global: &httplimit.Policy{Limiter: all(one), Permits: func(*http.Request) int { return 3 }},
		Policies: []httplimit.Policy{{Name: "w", Limiter: all(two), Refund: func(*http.Request, int) bool {
			j.write("refund?")
			return true
		}}},
	})
	var late core.Lease
	get(l.Policy("w")(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		assert.Equal(t, 7, one.Available())
		assert.Equal(t, 9, two.Available())
		lease, ok := httplimit.LeaseFrom(r.Context())
		assert.True(t, ok)
		assert.True(t, lease.Acquired())
		assert.Equal(t, 3, lease.Permits())
		limit, _ := core.PermitLimit.From(lease)
		assert.Equal(t, 10, limit)
		remaining, _ := core.Remaining.From(lease)
		assert.Equal(t, 7, remaining, "the first policy's value wins")
		lease.Release()
		free(t, one)
		assert.Equal(t, 9, two.Available())
		again, _ := httplimit.LeaseFrom(r.Context())
		again.Release()
		late = again
		assert.Empty(t, j.read())
	})), "/")
	require.Equal(t, "refund?", j.read(), "asked after an early release, too")
	free(t, one)
	free(t, two)
	late.Release()
	free(t, one)
}

func TestAnObserverThatPanicsCostsNoLease(t *testing.T) {
	for _, line := range []string{"active a +1", "acquired a", "active a -1", "released a", "acquired global", "released global"} {
		t.Run(line, func(t *testing.T) {
			j := &journal{panic: line}
			one, two := atOnce(t, 1, 0), atOnce(t, 1, 0)
			l := limits(t, httplimit.Options{
				Global:   &httplimit.Policy{Limiter: all(one)},
				Policies: []httplimit.Policy{{Name: "a", Limiter: all(two)}},
				Observer: j,
			})
			require.Panics(t, func() { get(l.Policy("a")(ok), "/") })
			free(t, one)
			free(t, two)
		})
	}
}

func TestUserCodeThatPanicsCostsNoLease(t *testing.T) {
	boom := func() { panic("boom") }
	for name, p := range map[string]httplimit.Policy{
		"Permits": {Limiter: all(core.Unlimited()), Permits: func(*http.Request) int { boom(); return 1 }},
		"Limiter": {Limiter: broken{panics: "boom"}},
		"OnRejected": {Limiter: broken{lies: true}, OnRejected: func(http.ResponseWriter, *http.Request, *httplimit.Rejection) {
			boom()
		}},
		"Refund": {Limiter: all(core.Unlimited()), Refund: func(*http.Request, int) bool { boom(); return true }},
	} {
		t.Run(name, func(t *testing.T) {
			one, two := atOnce(t, 1, 0), atOnce(t, 1, 0)
			p.Name = "p"
			l := limits(t, httplimit.Options{
				Global:   &httplimit.Policy{Limiter: all(one)},
				Policies: []httplimit.Policy{{Name: "two", Limiter: all(two)}, p},
			})
			require.PanicsWithValue(t, "boom", func() { get(l.Policy("two", "p")(ok), "/") })
			free(t, one)
			free(t, two)
			if name != "OnRejected" && name != "Refund" {
				require.PanicsWithValue(t, "boom", func() { l.Check(httptest.NewRequest(http.MethodGet, "/", nil), "two", "p") })
				free(t, one)
				free(t, two)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	_, err := httplimit.New(httplimit.Options{
		Global: &httplimit.Policy{Name: "a b", MaxWait: -1},
		Policies: []httplimit.Policy{
			{Name: "", Limiter: all(core.Unlimited()), Status: 200},
			{Name: "x", Limiter: (*nilLimiter)(nil)},
			{Name: "x", Download: all(core.Unlimited())},
		},
		Headers: 7,
	})
	for _, want := range []string{
		`httplimit: Options.Global.Name = "a b", want ASCII letters`,
		"httplimit: Options.Global.Limiter = nil, want",
		"httplimit: Options.Global.MaxWait = -1ns, want at least 0",
		`httplimit: Options.Policies[0].Name = ""`,
		"httplimit: Options.Policies[0].Status = 200, want 400 to 599",
		"httplimit: Options.Policies[1].Limiter = nil",
		`httplimit: Options.Policies[2].Name = "x", want a name that no other policy has`,
		"httplimit: Options.Headers = Headers(7)",
	} {
		require.ErrorContains(t, err, want)
	}
	_, err = httplimit.New(httplimit.Options{})
	require.NoError(t, err)
}

type nilLimiter struct{ broken }

func TestUpdate(t *testing.T) {
	l := limits(t, httplimit.Options{Policies: []httplimit.Policy{
		{Name: "p", Limiter: all(perMinute(t, 1))},
		{Name: "q", Limiter: all(perMinute(t, 1))},
	}})
	h := l.Policy("p")(ok)
	require.Equal(t, 200, get(h, "/").Code)
	require.Equal(t, 429, get(h, "/").Code)

	err := l.Update(httplimit.Options{Policies: []httplimit.Policy{{Name: "q", Limiter: all(perMinute(t, 1))}, {Name: "q"}}})
	require.ErrorContains(t, err, `Options.Policies has no "p"`)
	require.ErrorContains(t, err, `Options.Policies[1].Name`)
	require.Equal(t, 429, get(h, "/").Code)

	require.NoError(t, l.Update(httplimit.Options{Policies: []httplimit.Policy{{Name: "p", Status: 503, Limiter: all(perMinute(t, 1))}}}))
	require.Equal(t, 200, get(h, "/").Code)
	require.Equal(t, 503, get(h, "/").Code)
}

func TestOneSnapshotForARequest(t *testing.T) {
	j := new(journal)
	l := three(t, j)
	h := l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.NoError(t, l.Update(httplimit.Options{Policies: []httplimit.Policy{{Name: "a", Limiter: broken{err: errBroken}}}}))
		l.Policy("a")(ok).ServeHTTP(w, r)
	}))
	require.Equal(t, 200, get(h, "/").Code)
	require.Equal(t, "skip?; grant global 1; grant a 1; release a; release global", j.read())
	require.Equal(t, 503, get(l.Policy("a")(ok), "/").Code)
}

// A handler that was built for a policy of later options serves a request of older ones too.
func TestANameThatTheSnapshotDoesNotHave(t *testing.T) {
	j := new(journal)
	l := three(t, j)
	h := l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.NoError(t, l.Update(httplimit.Options{Policies: []httplimit.Policy{{Name: "new", Limiter: all(told{"new", j, false})}}}))
		l.Policy("new")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			assert.NoError(t, l.Update(httplimit.Options{Policies: []httplimit.Policy{{Name: "new", Limiter: all(told{"newer", j, false})}}}))
			l.Policy("new")(ok).ServeHTTP(w, r)
		})).ServeHTTP(w, r)
		_, no := l.Check(r, "new")
		assert.Nil(t, no)
	}))
	require.Equal(t, 200, get(h, "/").Code)
	require.Equal(t, "skip?; grant global 1; grant new 1; release new; release global", j.read())
}
