// Package route finds the route of a request the way its backend will read the request.
//
// An [http.ServeMux] matches the path as it is escaped: /api%2Fx is one segment, which is not below /api/. Most backends
// decode the path first, some drop parameters (/api;v=1/x), some take a backslash for a slash. A client could choose
// the spelling that the proxy takes for one route and the backend for another, and so pass the limits of the second.
// Some servers, such as gunicorn, also take the method post for POST. [Mux.Match] therefore rejects a request whose
// readings lead to different routes, or, where a limit depends on a segment of the path, have different segments there.
package route

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/hostname"
)

// Mux maps requests to values of type T by patterns of [http.ServeMux]. The zero value has no routes. Match is safe for
// concurrent use once all routes are there.
type Mux[T any] struct{ mux http.ServeMux }

// Match is the result of [Mux.Match].
type Match[T any] struct {
	Value   T
	Pattern string       // of the route, its host in lower case; "" if there is no route
	Answer  http.Handler // without a route: what answers the request with a redirect, 400, 404 or 405; else nil
}

// destination is what the ServeMux holds. It never serves a request.
type destination[T any] struct {
	http.Handler
	value    T
	segments []int
}

// Handle adds a route. It returns an error if the pattern is malformed, matches no request or conflicts with an earlier
// one. Letter case and a trailing dot of its host make no difference. The segments, from 1 on, are those of which a
// request must have one reading, see [Segment].
func (m *Mux[T]) Handle(pattern string, value T, segments ...int) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = patternError(pattern, fmt.Sprint(v))
		}
	}()
	canonical, err := Pattern(pattern)
	if err != nil {
		return err
	}
	m.mux.Handle(canonical, &destination[T]{value: value, segments: segments})
	return nil
}

// Pattern returns a pattern as [Match] has it, with its host as [Host] returns it. It returns an error for some patterns
// that a ServeMux takes although no request can match them.
func Pattern(pattern string) (string, error) {
	slash := strings.IndexByte(pattern, '/')
	if slash < 0 {
		return pattern, nil
	}
	begin := strings.LastIndexAny(pattern[:slash], " \t") + 1
	method, name, escaped := strings.TrimSpace(pattern[:begin]), pattern[begin:slash], pattern[slash:]
	host, ok := hostname.Of(name)
	switch clean := path.Clean(escaped); {
	case method == http.MethodConnect:
		return "", fmt.Errorf("%q matches nothing: CONNECT is not served", pattern)
	case method != strings.ToUpper(method):
		return "", fmt.Errorf("%q matches nothing: methods are written in upper case", pattern)
	case strings.Contains(name, "{"):
		return pattern, nil // of which the ServeMux says what is wrong
	case !ok:
		return "", fmt.Errorf("%q matches nothing: no request has the host %q", pattern, name)
	case clean != escaped && clean+"/" != escaped:
		return "", fmt.Errorf("%q matches nothing: requests for it are redirected to %q", pattern, clean)
	}
	return pattern[:begin] + host + escaped, nil
}

// patternError returns an error for the text of a ServeMux's panic.
func patternError(pattern, text string) error {
	if _, after, ok := strings.Cut(text, "\n"); ok {
		return fmt.Errorf("%q conflicts with another: %s", pattern, strings.ReplaceAll(after, "\n", " "))
	}
	if text = strings.TrimPrefix(text, "parsing "); pattern == "" || !strings.Contains(text, pattern) {
		return fmt.Errorf("%q: %s", pattern, text)
	}
	return errors.New(text)
}

// Match returns the route of a request. There is none if no pattern matches, if the path is not clean (the answer is the
// ServeMux's redirect), or if the request can be read in different ways that lead to different routes, or differ in a
// segment that was passed to [Mux.Handle] (the answer is 400). Only Method, Host, URL and the
// headers that replace a method are looked at.
func (m *Mux[T]) Match(r *http.Request) Match[T] {
	host, ok := hostname.Of(r.Host)
	switch {
	case r.Method == http.MethodConnect: // no server for the paths of a backend
		return Match[T]{Answer: status(http.StatusMethodNotAllowed)}
	case !ok, r.URL.Opaque != "":
		return Match[T]{Answer: status(http.StatusBadRequest)}
	}
	h, pattern := m.find(r.Method, host, r.URL)
	d, ok := h.(*destination[T])
	if !ok {
		return Match[T]{Answer: h}
	}
	served := r.URL.EscapedPath()
	others, ok := readings(served)
	methods := methods(r)
	if len(methods) > 1 {
		others = append(others, served)
	}
	for _, escaped := range others {
		for _, method := range methods {
			_, other := m.find(method, host, &url.URL{Path: Unescape(escaped), RawPath: escaped})
			ok = ok && other == pattern && d.sameSegments(served, escaped)
		}
	}
	if !ok {
		return Match[T]{Answer: status(http.StatusBadRequest)}
	}
	return Match[T]{Value: d.value, Pattern: pattern}
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
func (d *destination[T]) sameSegments(served, other string) bool {
	for _, n := range d.segments {
		if segment(served, n) != segment(other, n) {
			return false
		}
	}
	return true
}

func (m *Mux[T]) find(method, host string, u *url.URL) (http.Handler, string) {
	return m.mux.Handler(&http.Request{Method: method, Host: host, URL: u})
}

// status answers a request with a status and its text.
type status int

func (s status) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, http.StatusText(int(s)), int(s))
}
