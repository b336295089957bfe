package route_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/cmd/sluice/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func muxOf(tb testing.TB, patterns ...string) *route.Mux {
	tb.Helper()
	m, errs := route.New(routesOf(patterns...))
	require.NoError(tb, errors.Join(errs...))
	return m
}

func routesOf(patterns ...string) []route.Route {
	routes := make([]route.Route, len(patterns))
	for i, p := range patterns {
		routes[i].Pattern = p
	}
	return routes
}

// request is what a server makes of a request line and a Host.
func request(method, target, host string) (*http.Request, error) {
	u, err := url.ParseRequestURI(target)
	return &http.Request{Method: method, Host: host, URL: u}, err
}

// leads returns the pattern of the route, or the status of the response.
func leads(tb testing.TB, m *route.Mux, r *http.Request) string {
	tb.Helper()
	found := m.Match(r)
	if found.Answer == nil {
		return found.Pattern
	}
	require.Empty(tb, found.Pattern)
	w := httptest.NewRecorder()
	found.Answer.ServeHTTP(w, r)
	return strconv.Itoa(w.Code)
}

// step is a request and where it leads.
type step struct{ method, target, host, want string }

func follow(t *testing.T, m *route.Mux, steps ...step) {
	t.Helper()
	for _, s := range steps {
		r, err := request(s.method, s.target, s.host)
		require.NoError(t, err)
		assert.Equal(t, s.want, leads(t, m, r), "%v", s)
	}
}

// TestMethodsInLowerCase: a backend that takes post for POST gets no request that the limits of POST have not seen.
func TestMethodsInLowerCase(t *testing.T) {
	follow(t, muxOf(t, "/", "POST /login", "GET /only", "/any"), []step{
		{"POST", "/login", "h", "POST /login"},
		{"post", "/login", "h", "400"},
		{"PoST", "/x%2f..%2flogin", "h", "400"},
		{"post", "/any", "h", "/any"}, // for all methods
		{"get", "/only", "h", "400"},
		{"head", "/only", "h", "400"}, // which the route of GET serves
		{"put", "/only", "h", "/"},
		{"PURGE", "/login", "h", "/"},
	}...)
	_, err := route.Pattern("get /x")
	require.EqualError(t, err, `"get /x" matches nothing: methods are written in upper case`)
}

// TestReplacedMethods: a header by which frameworks replace the method of a POST must not lead to another route.
func TestReplacedMethods(t *testing.T) {
	m := muxOf(t, "/", "DELETE /items/{id}", "/api/")
	for _, test := range []struct{ method, target, header, value, want string }{
		{"POST", "/items/1", "X-HTTP-Method-Override", "DELETE", "400"},
		{"POST", "/items/1", "X-HTTP-Method", "delete", "400"},
		{"POST", "/items/1", "X-Method-Override", "Delete", "400"},
		{"POST", "/items/1", "X-HTTP-Method-Override", "PUT", "/"},
		{"POST", "/api/1", "X-HTTP-Method-Override", "DELETE", "/api/"},
		{"GET", "/items/1", "X-HTTP-Method-Override", "DELETE", "/"},
		{"DELETE", "/items/1", "X-HTTP-Method-Override", "DELETE", "DELETE /items/{id}"},
	} {
		r, err := request(test.method, test.target, "h")
		require.NoError(t, err)
		r.Header = http.Header{http.CanonicalHeaderKey(test.header): {test.value}}
		assert.Equal(t, test.want, leads(t, m, r), "%v", test)
	}
}

// TestSpellings: a path or host that a backend may read differently passes only if that makes no difference.
func TestSpellings(t *testing.T) {
	follow(t, muxOf(t, "/", "/api/", "POST /login", "/static/", "GET /items/{id}", "GET /files/{name...}", "Example.com./", "GET /it em/", "/healthz"), []step{
		{"GET", "/api/x", "h", "/api/"},
		{"GET", "/else", "h", "/"},
		{"GET", "/api/a%2Fb", "h", "/api/"}, // below /api/ either way
		{"GET", "/api/x;v=1", "h", "/api/"},
		{"GET", "/api/100%25", "h", "/api/"},
		{"GET", "/api/%C3%A9%20a", "h", "/api/"},
		{"GET", "/%61pi/x", "h", "/api/"}, // a ServeMux decodes within a segment
		{"GET", "/it%20em/a%20b", "h", "GET /it em/"},
		{"GET", "/files/a%2Fb", "h", "GET /files/{name...}"},
		{"GET", "/items/a%20b", "h", "GET /items/{id}"},
		{"GET", "/x?y=/../api/%2e%2e;z", "h", "/"},

		{"GET", "/api%2Fx", "h", "400"},
		{"GET", "/%2fapi/x", "h", "400"},
		{"GET", "/x/%2e%2e/api/x", "h", "400"},
		{"GET", "/x%2f..%2fapi/x", "h", "400"},
		{"GET", "/x%252f..%252fapi/x", "h", "400"},
		{"GET", "/;a/api/x.txt", "h", "400"},
		{"GET", "/api;v=1/x.txt", "h", "400"},
		{"GET", "/api%3Bv=1/x.txt", "h", "400"},
		{"GET", "/x/..;/api/x", "h", "400"},
		{"GET", "/x/%2e%2e%3b/api/x", "h", "400"},
		{"GET", `/x\..\api\x`, "h", "400"},
		{"GET", "/x/%5c../api/x", "h", "400"},
		{"GET", "/api%5Cx", "h", "400"},
		{"POST", "/static/%2e%2e/login", "h", "400"},
		{"POST", "/login%3fx", "h", "400"},
		{"POST", "/login%23", "h", "400"},
		{"POST", "/login;jsessionid=1", "h", "400"},
		{"GET", "/static/%2e%2e/%2e%2e/x", "h", "400"}, // above the root
		{"GET", "/api/a%00b", "h", "400"},
		{"GET", "/api/a%0d%0ab", "h", "400"},
		{"GET", "/items/a%2Fb", "h", "400"}, // to a backend that decodes it is no item
		{"GET", "/healthz;x", "h", "400"},
		{"GET", "/api/%" + strings.Repeat("25", 99) + "61", "h", "400"},
		{"GET", "/api/" + strings.Repeat("a;/", 1400), "h", "400"},
		{"GET", "/api/%2523%5c%3b%5c%25;", "h", "400"}, // too many readings
		{"GET", "/api/" + strings.Repeat("a/", 8000), "h", "/api/"},
		{"GET", "//api/x", "h", "400"}, // many backends merge slashes
		{"GET", "/x//y", "h", "/"},
		{"GET", "/fetch/https://example.com/a%20b", "h", "/"},
		{"GET", "//img/my%20photo.jpg", "h", "/"},
		{"GET", "/api//x", "h", "/api/"},
		{"GET", "/api/x//", "h", "/api/"},
		{"GET", "/items//x", "h", "400"}, // is it an item?
		{"POST", "//login", "h", "400"},
		{"GET", "///", "h", "/"},
		{"GET", "/x/../api/x", "h", "307"},
		{"GET", "/x//../api/x", "h", "307"},
		{"GET", "/../x", "h", "400"},
		{"CONNECT", "/api/x", "h", "405"},

		{"GET", "/api/x", "example.com", "example.com/"},
		{"GET", "/api/x", "EXAMPLE.com", "example.com/"},
		{"GET", "/api/x", "example.com.", "example.com/"},
		{"GET", "/api/x", "Example.Com.:8080", "example.com/"},
		{"GET", "/api/x", "example.com..", "400"},
		{"GET", "/api/x", ".example.com", "400"},
		{"GET", "/api/x", "ex%61mple.com", "400"},
		{"GET", "/api/x", "example.com:a", "400"},
		{"GET", "/api/x", strings.Repeat("a", 254), "400"},
		{"GET", "/api/x", "[::1]:80", "/api/"},
		{"GET", "/api/x", "[::1", "400"},
		{"GET", "/api/x", "[::1%25a]", "400"},
		{"GET", "/api/x", "", "/api/"}, // HTTP/1.0
	}...)
}

// TestSegments: a request has one reading of the segments that matter, and those that do not may be spelled in any way.
func TestSegments(t *testing.T) {
	m, errs := route.New([]route.Route{{Pattern: "/", Segments: []int{1, 3}}, {Pattern: "/free/"}})
	require.NoError(t, errors.Join(errs...))
	for _, test := range []struct {
		target       string
		first, third string
		status       int
	}{
		{"/", "", "", 0},
		{"/acme", "acme", "", 0},
		{"/acme/", "acme", "", 0},
		{"/acme/x/y/z", "acme", "y", 0},
		{"/%61cme/x/%79", "acme", "y", 0},
		{"/caf%C3%A9/a%20b/100%25", "café", "100%", 0},
		{"/acme/a;b/y", "acme", "y", 0},
		{"/Acme/x", "Acme", "", 0},
		{"/free/a%2Fb;c", "free", "", 0},
		{"/acme?/other/x/y", "acme", "", 0},

		{"/acme;v=1/x", "", "", 400},
		{"/acme%3Bv=1/x", "", "", 400},
		{"/acme%2Fother", "", "", 400},
		{"/acme/a%2Fb/y", "", "", 400}, // the third may be b
		{`/acme\x`, "", "", 400},
		{"/other/..;/acme", "", "", 400},
		{"/%2Facme", "", "", 400},
		{"/%2561cme", "", "", 400},
		{"/acme%3Fx", "", "", 400},
		{"/acme/x/y;z", "", "", 400},
	} {
		r, err := request(http.MethodGet, test.target, "h")
		require.NoError(t, err)
		got := leads(t, m, r)
		assert.Equal(t, test.status == 400, got == "400", test.target)
		if test.status == 0 {
			assert.Equal(t, test.first, route.Segment(r.URL, 1), test.target)
			assert.Equal(t, test.third, route.Segment(r.URL, 3), test.target)
		}
	}
}

// TestOpaque: a target such as http:api/x has no path for the ServeMux, but would be sent as it is.
func TestOpaque(t *testing.T) {
	m := muxOf(t, "/", "/api/")
	assert.Equal(t, "400", leads(t, m, &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "http", Opaque: "/api/x", Path: "/"}}))
}

// TestOneRoute: where all requests have one route, no spelling is refused but what no honest client sends.
func TestOneRoute(t *testing.T) {
	m := muxOf(t, "/")
	for _, target := range []string{"/a%2Fb", "/a;b", `/a\b`, "/a%252Fb", "/a%3Fb", "/*"} {
		follow(t, m, step{"GET", target, "h", "/"})
	}
}

func TestBadPatterns(t *testing.T) {
	for pattern, want := range map[string]string{
		"nosuch":   `"nosuch"`,
		"/c/{d}":   "conflicts",
		"GET  /{a": "GET",
		"":         `"": http: invalid pattern`,

		// A ServeMux takes these.
		"*.example.com/": `"*.example.com/" matches nothing: no request has the host "*.example.com"`,
		"GET https://x/": `write its path as`,
		"CONNECT /":      "CONNECT is not served",
		"/../e":          `matches nothing: write its path as "/e"`,
		"//f/":           `matches nothing: write its path as "/f`,
		"/search?q=1":    "matches nothing",
		"/a#b":           "matches nothing",
		"/a%2Fb":         "matches nothing",
		"/a;b/":          "matches nothing",
		"/a\\b":          "matches nothing",
		"/x/{y}/a%3Fb":   "matches nothing",
		"/ctl/\x01":      "matches nothing",
		"h/a%00":         "matches nothing",
	} {
		_, errs := route.New(routesOf("/{a}/b", pattern, "/ok"))
		require.NoError(t, errs[0])
		require.NoError(t, errs[2])
		require.Error(t, errs[1], pattern)
		assert.Contains(t, errs[1].Error(), want)
	}
}

// clean returns path without dot segments and double slashes. A slash at the end stays, since a backend for which it makes
// no difference is beyond what the proxy can know.
func clean(p string) string {
	cleaned := path.Clean(p)
	if last := path.Base("x" + p); cleaned != "/" && (strings.HasSuffix(p, "/") || last == "." || last == "..") {
		cleaned += "/"
	}
	return cleaned
}

// backends are ways in which servers read an escaped path; "" is no path to them.
var backends = map[string]func(escaped string) string{
	"nginx": func(p string) string {
		p, _ = url.PathUnescape(p)
		return clean(p)
	},
	"Tomcat": func(p string) string {
		var segments []string
		for s := range strings.SplitSeq(p, "/") {
			s, _, _ = strings.Cut(s, ";")
			segments = append(segments, s)
		}
		p, _ = url.PathUnescape(strings.Join(segments, "/"))
		return clean(strings.ReplaceAll(p, `\`, "/"))
	},
	"WHATWG URL": func(p string) string {
		kept := []string{""}
		for s := range strings.SplitSeq(p[1:], "/") {
			switch strings.ReplaceAll(strings.ToLower(s), "%2e", ".") {
			case ".":
			case "..":
				kept = kept[:max(len(kept)-1, 1)]
			default:
				kept = append(kept, strings.ReplaceAll(s, "%2F", "%252F")) // which it does not decode
			}
		}
		p, _ = url.PathUnescape(strings.Join(kept, "/"))
		return p
	},
	"decodes twice": func(p string) string {
		p, _ = url.PathUnescape(p)
		p, _ = url.PathUnescape(p)
		return clean(p)
	},
	"parses again": func(p string) string {
		p, _ = url.PathUnescape(p)
		u, err := url.Parse("http://h" + p)
		if err != nil {
			return ""
		}
		return clean("/" + u.Path)
	},
}

// FuzzMatch: a path that passes leads every backend to the same route, and to the same segments where they matter.
func FuzzMatch(f *testing.F) {
	for _, seed := range []string{
		"/api%2Fx", "/x/%2e%2e/api/x", "/%2fapi/x", "/x%2f..%2fapi/x", "/;a/api/x", "/api;v=1/x", `/x\..\api`, "/x/..%2f%2fapi/x",
		"/a/%2f../api", "/api/%2e%2e", "/login%3f", "/%252e%252e/api/x", "/api%5c..%5cx", "/..;/api/", "/%2e;/api/", "/api%20x",
		"/a/b", "/a%2fb/c", "/%61/b%20c", "/a%3fb", `/a\b`, "/a%253bb",
	} {
		f.Add(seed)
	}
	patterns := []string{"/", "/api/", "/login", "/api/id/x", "/static/a"}
	m := muxOf(f, patterns...)
	segments, _ := route.New([]route.Route{{Pattern: "/", Segments: []int{1, 2}}})
	var plain http.ServeMux
	for _, p := range patterns {
		plain.Handle(p, http.NotFoundHandler())
	}
	f.Fuzz(func(t *testing.T, target string) {
		r, err := request(http.MethodGet, target, "h")
		if err != nil || r.URL.Host != "" || !strings.HasPrefix(target, "/") {
			return
		}
		found, divided := m.Match(r), segments.Match(r)
		for name, reads := range backends {
			read := reads(r.URL.EscapedPath())
			if !strings.HasPrefix(read, "/") {
				continue
			}
			if found.Answer == nil {
				_, pattern := plain.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: read}})
				require.Equal(t, found.Pattern, pattern, "%s reads %q of %q", name, read, target)
			}
			if divided.Answer == nil {
				parts := append(strings.Split(read, "/"), "", "")
				require.Equal(t, route.Segment(r.URL, 1), parts[1], "%s reads %q of %q", name, read, target)
				require.Equal(t, route.Segment(r.URL, 2), parts[2], "%s reads %q of %q", name, read, target)
			}
		}
	})
}

// TestManyRoutes: a large file is read in linear time, and its routes are those of one ServeMux.
func TestManyRoutes(t *testing.T) {
	const n = 2000
	var patterns []string
	for i := range n {
		patterns = append(patterns, fmt.Sprintf("/p%d/", i), fmt.Sprintf("/api/v1/q%d/", i), fmt.Sprintf("GET h%d.example/", i),
			fmt.Sprintf("t.example/{tenant}/r%d", i), fmt.Sprintf("POST /api/v1/s%d/{id}", i))
	}
	patterns = append(patterns, "/", "/api/", "/api/v1/zz/{name}", "/t%20t/")
	follow(t, muxOf(t, patterns...), []step{
		{"GET", "/p7/x", "h", "/p7/"},
		{"GET", "/p7", "h", "307"},
		{"GET", "/p%37/x", "h", "/p7/"},
		{"GET", "/api/v1/q1999/x/y", "h", "/api/v1/q1999/"},
		{"GET", "/api/v1/q9999/x", "h", "/api/"},
		{"GET", "/api/v1/zz/x", "h", "/api/v1/zz/{name}"},
		{"GET", "/api/v2", "h", "/api/"},
		{"GET", "/p7/x", "h7.example", "GET h7.example/"},
		{"POST", "/p7/x", "h7.example", "/p7/"},
		{"GET", "/acme/r5", "t.example", "t.example/{tenant}/r5"},
		{"GET", "/acme/r5/", "t.example", "/"},
		{"POST", "/api/v1/s3/4", "h", "POST /api/v1/s3/{id}"},
		{"PUT", "/api/v1/s3/4", "h", "/api/"},
		{"GET", "/t%20t/x", "h", "/t%20t/"},
		{"GET", "/", "h", "/"},
	}...)
	patterns = patterns[:0]
	for i := range n {
		patterns = append(patterns, fmt.Sprintf("/c/%d/{x}", i))
	}
	_, errs := route.New(routesOf(append(patterns, "/c/{y}/d")...))
	require.ErrorContains(t, errs[n], "conflicts")
	require.NoError(t, errors.Join(errs[:n]...))
}

// TestNoSpellingIsSpoiled: a redirect keeps the escapes of the path, and leads to no other host.
func TestNoSpellingIsSpoiled(t *testing.T) {
	m := muxOf(t, "/")
	for target, want := range map[string]string{
		"/a/../b%20c?d=%2F": "/b%20c?d=%2F",
		"//evil.example/..": "/",
		"/./a%2Fb":          "/a%2Fb",
	} {
		r, err := request("GET", target, "h")
		require.NoError(t, err)
		w := httptest.NewRecorder()
		m.Match(r).Answer.ServeHTTP(w, r)
		assert.Equal(t, http.StatusTemporaryRedirect, w.Code)
		assert.Equal(t, want, w.Header().Get("Location"), target)
	}
}
