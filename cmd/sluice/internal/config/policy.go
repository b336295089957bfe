package config

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/sluice-go/sluice/spec"
)

// Policy is a limit with what belongs to it.
type Policy struct {
	Name     string
	At       Position
	Key      KeyKind
	Header   string       // of KeyHeader
	Limits   []spec.Limit // all of them, in this order; none: bytes alone are limited
	Places   []Position   // of Limits
	Upload   *spec.Limit  // bytes; nil: none
	Download *spec.Limit
	MaxWait  time.Duration
	Status   int  // 0: 429
	Failures bool // only failures count: what is not answered with 4xx is refunded
	FailOpen bool
}

// KeyKind says which requests share a limit.
type KeyKind uint8

// The kinds.
const (
	KeyNone    KeyKind = iota // one for all
	KeyIP                     // ip
	KeyHeader                 // header:NAME
	KeyHost                   // host
	KeyPattern                // pattern
)

func readPolicy(r *reader, name string, at Position, n ast.Node) Policy {
	p := Policy{Name: name, At: at}
	what := "policy " + strconv.Quote(name)
	if name == "global" {
		what = name
	}
	var one, several ast.Node
	limits := 0 // good ones and bad ones
	r.fields(n, what, map[string]func(ast.Node){
		"key": func(n ast.Node) { p.readKey(r, n) },
		"limit": func(n ast.Node) {
			one = n
			limits++
			if l, ok := readLimit(r, n); ok {
				p.Limits, p.Places = []spec.Limit{l}, []Position{position(n)}
			}
		},
		"limits": func(n ast.Node) {
			several = n
			for _, item := range r.items(n) {
				limits++
				if l, ok := readLimit(r, item); ok {
					p.Limits, p.Places = append(p.Limits, l), append(p.Places, position(item))
				}
			}
		},
		"upload":   func(n ast.Node) { p.Upload = readBytes(r, n) },
		"download": func(n ast.Node) { p.Download = readBytes(r, n) },
		"status": func(n ast.Node) {
			text, ok := r.text(n, "status")
			v, err := strconv.Atoi(text)
			if p.Status = v; ok && (err != nil || v < 400 || v > 599) {
				r.fault(position(n), "status is %q, want 400 to 599", text)
			}
		},
		"max-wait": func(n ast.Node) { p.MaxWait = r.duration(n, "max-wait") },
		"count": func(n ast.Node) {
			text, ok := r.text(n, "count")
			if p.Failures = text == "failures"; ok && !p.Failures && text != "all" {
				r.fault(position(n), "count is %q, want all or failures", text)
			}
		},
		"fail-open": func(n ast.Node) { p.FailOpen = r.bool(n, "fail-open") },
	})
	switch {
	case one != nil && several != nil:
		r.fault(at, "%s has limit and limits, want one of them", what)
	case limits == 0 && p.Upload == nil && p.Download == nil:
		r.fault(at, "%s limits nothing, want limit, limits, upload or download", what)
	}
	if !nameable(name) {
		r.fault(at, "%s: a name has ASCII letters, digits, '-', '_' and '.'", what)
	}
	return p
}

func nameable(name string) bool {
	return name != "" && strings.Trim(name, letters+"-_.") == ""
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func (p *Policy) readKey(r *reader, n ast.Node) {
	text, ok := r.text(n, "key")
	if !ok {
		return
	}
	header, isHeader := strings.CutPrefix(text, "header:")
	switch {
	case isHeader && isToken(header):
		p.Key, p.Header = KeyHeader, http.CanonicalHeaderKey(header)
	case text == "ip":
		p.Key = KeyIP
	case text == "host":
		p.Key = KeyHost
	case text == "pattern":
		p.Key = KeyPattern
	default:
		r.fault(position(n), "key is %q, want ip, header:NAME, host or pattern", text)
	}
}

// isToken reports whether a header may be called so.
func isToken(name string) bool {
	return name != "" && strings.Trim(name, letters+"!#$%&'*+-.^_`|~") == ""
}

func readLimit(r *reader, n ast.Node) (spec.Limit, bool) {
	text, ok := r.text(n, "a limit")
	if !ok {
		return spec.Limit{}, false
	}
	l, err := spec.Parse(text)
	if err != nil {
		r.fault(position(n), "%s", strings.TrimPrefix(err.Error(), "spec: "))
	}
	return l, err == nil
}

func readBytes(r *reader, n ast.Node) *spec.Limit {
	l, ok := readLimit(r, n)
	if !ok {
		return nil
	}
	l.Bytes = l.Kind != spec.Unlimited // with or without a B: they come evenly
	return &l
}
