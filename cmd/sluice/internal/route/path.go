package route

import (
	"encoding/hex"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Bounds on what it costs to read one path, and on paths of which several readings are looked at.
const (
	maxReadings = 16 // maximum number of readings; a path of an honest client has ten at most
	maxPath     = 4 << 10
)

// Segment returns the n-th segment of a path, from 1 on, as a ServeMux reads it, or "" if there are fewer.
func Segment(u *url.URL, n int) string { return segment(u.EscapedPath(), n) }

func segment(escaped string, n int) string {
	rest := escaped
	for range n {
		_, after, ok := strings.Cut(rest, "/")
		if !ok {
			return ""
		}
		rest = after
	}
	s, _, _ := strings.Cut(rest, "/")
	return Unescape(s)
}

// A backend, with the servers that stand before it, takes some of these steps, some of them twice, in an order of its
// own.
var steps = []func(string) string{
	Unescape,
	func(path string) string { return parameters.ReplaceAllLiteralString(path, "") },
	func(path string) string { return strings.ReplaceAll(path, `\`, "/") },
	cutQuery,
}

var (
	escape     = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	parameters = regexp.MustCompile(`;[^/]*`)
	dots       = regexp.MustCompile(`/\.\.?(/|$)`)
)

// readings returns the escaped paths that a backend may take an escaped path for, without dot segments. It reports false
// for a path that no honest client sends: with control characters, above the root, too long, or with too many readings.
func readings(escaped string) (paths []string, ok bool) {
	if !strings.ContainsAny(escaped, `%;\`) && !strings.Contains(escaped, "//") {
		return nil, true
	}
	if len(escaped) > maxPath {
		return nil, false
	}
	spellings := []string{escaped}
	for i := 0; i < len(spellings); i++ { // it grows until no step makes a new one
		for _, step := range steps {
			if next := step(spellings[i]); !slices.Contains(spellings, next) {
				spellings = append(spellings, next)
			}
		}
		if len(spellings) > maxReadings || strings.ContainsFunc(spellings[i], isControl) {
			return nil, false
		}
	}
	for _, spelling := range spellings {
		for _, merge := range []bool{false, true} {
			path, below := resolve(spelling, merge)
			if !below {
				return nil, false
			}
			if !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths, true
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }

// Unescape replaces escapes such as %2F once, and leaves malformed ones as they are.
func Unescape(path string) string {
	if !strings.Contains(path, "%") {
		return path
	}
	return escape.ReplaceAllStringFunc(path, func(e string) string {
		b, _ := hex.DecodeString(e[1:])
		return string(b)
	})
}

// cutQuery ends a decoded path where a server that parses it again finds a query or a fragment.
func cutQuery(path string) string {
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		return path[:i]
	}
	return path
}

// hasDots reports whether a path has dot segments, escaped ones aside.
func hasDots(path string) bool { return strings.Contains(path, "/.") && dots.MatchString(path) }

// resolve removes dot segments. With merge several slashes are one, else there is an empty segment between two. It
// reports false if the path leads above the root.
func resolve(path string, merge bool) (string, bool) {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	last := len(segments) - 1
	var kept []string
	for i, s := range segments {
		switch {
		case s == "..":
			if len(kept) == 0 {
				return "", false
			}
			kept = kept[:len(kept)-1]
		case s == ".", merge && s == "":
		default:
			kept = append(kept, s)
			continue
		}
		if i == last { // it leaves a slash
			kept = append(kept, "")
		}
	}
	return "/" + strings.Join(kept, "/"), true
}
