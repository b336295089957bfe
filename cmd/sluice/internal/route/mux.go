// Package route finds the route of a request the way its backend will read the request.
//
// An [http.ServeMux] matches the path as it is escaped: /api%2Fx is one segment, which is not below /api/. Most backends
// decode the path first, some drop parameters (/api;v=1/x), some take a backslash for a slash, and many take // for /. A
// client could choose the spelling that the proxy takes for one route and the backend for another, and so pass the limits of
// the second. Some servers, such as gunicorn, also take the method post for POST. [Mux.Match] therefore rejects a request
// whose readings lead to different routes, or, where a limit depends on a segment of the path, have different segments there.
package route

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// Route is the requests that a pattern of [http.ServeMux] matches.
type Route struct {
	Pattern  string // letter case and a trailing dot of its host make no difference
	Segments []int  // segments, from 1 on, of which a request must have one reading; see [Segment]
}

// Mux finds the route of a request. It is safe for concurrent use.
type Mux struct {
	hosts    map[string]*node // "" is for all other hosts, and for paths that those do not have
	patterns map[string]bool  // patterns as Pattern returns them
}

// Match is the result of [Mux.Match].
type Match struct {
	Route   int          // index of the route
	Pattern string       // pattern of the route, its host in lower case; "" if there is no route
	Answer  http.Handler // without a route: responds with a redirect, 400, 404 or 405; else nil
}

// destination is what a ServeMux holds. It never serves a request.
type destination struct {
	http.Handler

	route    int
	segments []int
}

// New returns a Mux. The errors are those of the routes, in their order, with nil for a good one: a pattern may be malformed,
// match no request, or conflict with an earlier one.
func New(routes []Route) (*Mux, []error) {
	m := &Mux{hosts: make(map[string]*node), patterns: make(map[string]bool)}
	errs := make([]error, len(routes))
	hosts := make(map[string][]entry)
	for i, r := range routes {
		canonical, err := Pattern(r.Pattern)
		if errs[i] = err; err != nil {
			continue
		}
		m.patterns[canonical] = true
		e := entry{pattern: canonical, handler: &destination{route: i, segments: r.Segments}, index: i}
		var host string
		host, e.segments = split(canonical)
		hosts[host] = append(hosts[host], e)
	}
	for host, entries := range hosts {
		m.hosts[host] = build(entries, 0, func(e entry, err error) {
			if errs[e.index] == nil {
				errs[e.index] = err
			}
		})
	}
	return m, errs
}

// Has reports whether a route has the pattern, written as [Pattern] returns it.
func (m *Mux) Has(pattern string) bool { return m.patterns[pattern] }

// Pattern returns a pattern as [Match] has it, with its host as cli.HostOf returns it. It returns an error for a malformed
// pattern, and for some that a ServeMux accepts although no request can match them.
func Pattern(pattern string) (string, error) {
	slash := strings.IndexByte(pattern, '/')
	if slash < 0 {
		return pattern, register(new(http.ServeMux), pattern, http.NotFoundHandler())
	}
	start := strings.LastIndexAny(pattern[:slash], " \t") + 1
	method, name, escaped := strings.TrimSpace(pattern[:start]), pattern[start:slash], pattern[slash:]
	host, ok := cli.HostOf(name)
	clean := path.Clean(escaped)
	switch {
	case method == http.MethodConnect:
		return "", fmt.Errorf("%q matches nothing: CONNECT is not served", pattern)
	case method != strings.ToUpper(method):
		return "", fmt.Errorf("%q matches nothing: methods are written in upper case", pattern)
	case strings.Contains(name, "{"):
		return pattern, register(new(http.ServeMux), pattern, http.NotFoundHandler())
	case !ok:
		return "", fmt.Errorf("%q matches nothing: no request has the host %q", pattern, name)
	case clean != escaped && clean+"/" != escaped:
		return "", fmt.Errorf("%q matches nothing: write its path as %q", pattern, clean)
	}
	canonical := pattern[:start] + host + escaped
	only := new(http.ServeMux)
	if err := register(only, canonical, new(destination)); err != nil {
		return "", err
	}
	if method == "" {
		method = http.MethodGet
	}
	m := &Mux{hosts: map[string]*node{host: {mux: only}}}
	sample := sampleOf(escaped)
	found := m.Match(&http.Request{Method: method, Host: host, URL: &url.URL{Path: Unescape(sample), RawPath: sample}})
	if found.Answer != nil {
		return "", fmt.Errorf("%q matches nothing: requests for it get 400, because backends read such a path in several ways", pattern)
	}
	return canonical, nil
}

// sampleOf returns the escaped path of a request that the path of a pattern matches.
func sampleOf(pattern string) string {
	segments := strings.Split(pattern, "/")
	for i, s := range segments {
		switch {
		case s == "{$}":
			segments[i] = ""
		case strings.HasPrefix(s, "{"):
			segments[i] = "x"
		default:
			segments[i] = url.PathEscape(Unescape(s))
		}
	}
	return strings.Join(segments, "/")
}

// register adds a handler to a ServeMux. It returns the text of the ServeMux's panic as an error.
func register(mux *http.ServeMux, pattern string, h http.Handler) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = patternError(pattern, fmt.Sprint(v))
		}
	}()
	mux.Handle(pattern, h)
	return nil
}

func patternError(pattern, text string) error {
	if _, after, ok := strings.Cut(text, "\n"); ok {
		return fmt.Errorf("%q conflicts with another: %s", pattern, strings.ReplaceAll(after, "\n", " "))
	}
	if text = strings.TrimPrefix(text, "parsing "); pattern == "" || !strings.Contains(text, pattern) {
		text = strconv.Quote(pattern) + ": " + text
	}
	return fmt.Errorf("%s; want a pattern such as / or \"POST /login\"", text)
}

// Match returns the route of a request. There is none if no pattern matches, if the path has dot segments (the response is a
// redirect), or if the request can be read in different ways that lead to different routes, or differ in a segment of the
// route (the response is 400). Only Method, Host, URL and the headers that replace a method are looked at.
func (m *Mux) Match(r *http.Request) Match {
	host, ok := cli.HostOf(r.Host)
	served := r.URL.EscapedPath()
	switch {
	case r.Method == http.MethodConnect: // no server for the paths of a backend
		return Match{Answer: status(http.StatusMethodNotAllowed)}
	case !ok, r.URL.Opaque != "":
		return Match{Answer: status(http.StatusBadRequest)}
	case hasDots(served):
		return Match{Answer: withoutDots(served)}
	}
	others, ok := readings(served)
	h, pattern := m.find(r.Method, host, served)
	d, isRoute := h.(*destination)
	if !isRoute && strings.Contains(served, "//") { // its response is about a path that no client knows
		merged, _ := resolve(served, true)
		h, _ = m.find(r.Method, host, merged)
		if _, ok := h.(*destination); ok {
			h = status(http.StatusBadRequest)
		}
	}
	if !isRoute {
		return Match{Answer: h}
	}
	methods := methods(r)
	if len(methods) > 1 {
		others = append(others, served)
	}
	for _, escaped := range others {
		for _, method := range methods {
			_, other := m.find(method, host, escaped)
			ok = ok && other == pattern && d.sameSegments(served, escaped)
		}
	}
	if !ok {
		return Match{Answer: status(http.StatusBadRequest)}
	}
	return Match{Route: d.route, Pattern: pattern}
}

// methods returns the methods that a backend may read: in upper case, and for a POST that of a header by which many frameworks
// replace it.
func methods(r *http.Request) []string {
	method := strings.ToUpper(r.Method)
	all := []string{method}
	if method != r.Method {
		all = append(all, r.Method)
	}
	if method == http.MethodPost {
		for _, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
			for _, v := range r.Header[name] {
				all = append(all, strings.ToUpper(v))
			}
		}
	}
	return all
}

// sameSegments reports whether two escaped paths have the same segments where that matters.
func (d *destination) sameSegments(served, other string) bool {
	for _, n := range d.segments {
		if segment(served, n) != segment(other, n) {
			return false
		}
	}
	return true
}

// find returns the destination of a path and its pattern, or what responds if there is none. A ServeMux would merge slashes, so
// an empty segment is replaced by one that no client can send.
func (m *Mux) find(method, host, escaped string) (http.Handler, string) {
	escaped = strings.ReplaceAll(strings.ReplaceAll(escaped, "//", "/%00/"), "//", "/%00/")
	segments := strings.Split(escaped[min(1, len(escaped)):], "/")
	r := &http.Request{Method: method, Host: host, URL: &url.URL{Path: Unescape(escaped), RawPath: escaped}}
	h := http.NotFoundHandler()
	for _, name := range []string{host, ""} {
		n, ok := m.hosts[name]
		if !ok {
			continue
		}
		var pattern string
		h, pattern = n.of(segments).Handler(r)
		if pattern != "" { // a destination, or a redirect to one
			return h, pattern
		}
	}
	return h, ""
}

// status responds with a status and its text.
type status int

func (s status) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, http.StatusText(int(s)), int(s))
}

// withoutDots redirects a request to its escaped path without dot segments.
func withoutDots(escaped string) http.Handler {
	to, below := resolve(escaped, true)
	if !below {
		return status(http.StatusBadRequest)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			to += "?" + r.URL.RawQuery
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
}
