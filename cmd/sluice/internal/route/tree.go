package route

import (
	"net/http"
	"slices"
	"strings"
)

// entry is a route on its way into a tree.
type entry struct {
	pattern  string
	segments []string // segments of its path, decoded; "" for a wildcard and for the end
	handler  http.Handler
	index    int
}

// split returns the host of a pattern, and the segments of its path.
func split(pattern string) (host string, segments []string) {
	slash := strings.IndexByte(pattern, '/')
	host = pattern[strings.LastIndexAny(pattern[:slash], " \t")+1 : slash]
	segments = strings.Split(pattern[slash+1:], "/")
	for i, s := range segments {
		if segments[i] = Unescape(s); strings.HasPrefix(s, "{") {
			segments[i] = ""
		}
	}
	return host, segments
}

// node is a set of routes, divided by their segments: a ServeMux takes quadratic time to be made. All routes that can match a
// request are in one ServeMux, so each is found, and each conflict too.
type node struct {
	mux      *http.ServeMux   // nil if there are children
	depth    int              // depth of the segment that tells the children apart
	children map[string]*node // children by that segment; "" is for all others
}

const maxUndivided = 32 // routes of a ServeMux

// build returns the node of routes whose segments before depth are the same.
func build(entries []entry, depth int, fail func(entry, error)) *node {
	groups := make(map[string][]entry)
	for _, e := range entries {
		name := ""
		if depth < len(e.segments) {
			name = e.segments[depth]
		}
		groups[name] = append(groups[name], e)
	}
	common := len(groups[""]) // routes that match any segment, or none, are in all groups
	if len(entries) <= maxUndivided || common == len(entries) || common*len(groups) > 16*len(entries) {
		n := &node{mux: new(http.ServeMux)}
		for _, e := range entries {
			if err := register(n.mux, e.pattern, e.handler); err != nil {
				fail(e, err)
			}
		}
		return n
	}
	n := &node{depth: depth, children: make(map[string]*node)}
	for name := range groups {
		all := groups[name]
		if name != "" {
			all = slices.Concat(groups[""], all)
			slices.SortFunc(all, func(a, b entry) int { return a.index - b.index })
		}
		n.children[name] = build(all, depth+1, fail)
	}
	if common == 0 {
		n.children[""] = &node{mux: new(http.ServeMux)}
	}
	return n
}

// of returns the ServeMux for a request with these escaped segments.
func (n *node) of(segments []string) *http.ServeMux {
	for n.mux == nil {
		name := ""
		if n.depth < len(segments) {
			name = Unescape(segments[n.depth])
		}
		next, ok := n.children[name]
		if !ok {
			next = n.children[""]
		}
		n = next
	}
	return n.mux
}
