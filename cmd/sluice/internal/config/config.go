// Package config reads limits.yaml: which limits stand before a server, and for which of its paths. What is wrong with
// a file is told all at once, each fault with its line and column.
package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/sluice-go/sluice/httplimit"
)

// Config is what a file says.
type Config struct {
	Listen   string // host:port; "": not said
	Cert     string // files of TLS; "": none
	Key      string
	To       []string       // addresses of the backends, as they are written
	Trusted  []netip.Prefix // proxies whose headers are believed
	Headers  httplimit.Headers
	Problems bool
	Admin    string   // host:port; "": none
	Redis    string   // URL; "": limits are this process' own
	Global   *Policy  // nil: none
	Policies []Policy // in the order of the file
	Routes   []Route  // in the order of the file

	RedisBudget    time.Duration // how long a decision by Redis may take; 0: 50 ms
	BackendTimeout time.Duration // how long a backend may send nothing; 0: for ever

	file string
	at   map[string]Position
}

// Route says which policies stand before the paths of a pattern of net/http's ServeMux.
type Route struct {
	Pattern  string
	At       Position
	Policies []string // in this order, behind the global one
	Exempt   bool     // none, not even the global one
}

// Read reads a file.
func Read(name string) (*Config, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, text)
}

// Parse reads the text of the file of that name. The error joins a *[Fault] for each thing that is wrong. With it comes
// what could be read all the same, nil if there is nothing.
func Parse(name string, text []byte) (*Config, error) {
	r := &reader{file: name}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))                     // some editors put it in front
	f, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey()) // keys that stand there twice are found below
	if err != nil {
		return nil, syntaxFault(name, err)
	}
	if len(f.Docs) == 0 || f.Docs[0].Body == nil || isNull(f.Docs[0].Body) {
		return nil, &Fault{name, Position{1, 1}, "the file is empty"}
	}
	if len(f.Docs) > 1 {
		r.fault(at(f.Docs[1].Start), "a second document, want one")
	}
	c := &Config{BackendTimeout: time.Minute, file: name, at: make(map[string]Position)}
	c.read(r, f.Docs[0].Body)
	c.check(r)
	return c, Join(r.faults...)
}

// Join joins errors as errors.Join does, faults in the order of their places, and what has no place behind them.
func Join(errs ...error) error {
	var all []error
	for _, err := range errs {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			all = append(all, joined.Unwrap()...)
		} else if err != nil {
			all = append(all, err)
		}
	}
	slices.SortStableFunc(all, compareFaults)
	return errors.Join(all...)
}

func isNull(n ast.Node) bool {
	_, ok := n.(*ast.NullNode)
	return ok
}

func compareFaults(a, b error) int {
	x, y := placeOf(a), placeOf(b)
	return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Column, y.Column))
}

func placeOf(err error) Position {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.At
	}
	return Position{math.MaxInt, 0}
}

// syntaxFault says where the parser gave up.
func syntaxFault(name string, err error) error {
	if e, ok := errors.AsType[yaml.Error](err); ok {
		return &Fault{name, at(e.GetToken()), e.GetMessage()}
	}
	return &Fault{name, Position{1, 1}, err.Error()}
}

func (c *Config) read(r *reader, n ast.Node) {
	var keys ast.Node
	text := func(to *string, what string) func(ast.Node) {
		return func(n ast.Node) {
			*to, _ = r.text(n, what)
			c.at[what] = position(n)
		}
	}
	r.fields(n, "the file", map[string]func(ast.Node){
		"listen":          text(&c.Listen, "listen"),
		"admin":           text(&c.Admin, "admin"),
		"redis":           text(&c.Redis, "redis"),
		"redis-budget":    c.duration(r, &c.RedisBudget, "redis-budget"),
		"backend-timeout": c.duration(r, &c.BackendTimeout, "backend-timeout"),
		"tls": func(n ast.Node) {
			keys = n
			r.fields(n, "tls", map[string]func(ast.Node){"cert": text(&c.Cert, "cert"), "key": text(&c.Key, "key")})
		},
		"to": func(n ast.Node) {
			c.at["to"] = position(n)
			for _, item := range r.items(n) {
				if to, ok := r.text(item, "to"); ok {
					c.To = append(c.To, to)
					c.at["to "+to] = position(item)
				}
			}
		},
		"trusted":  func(n ast.Node) { c.readTrusted(r, n) },
		"problems": func(n ast.Node) { c.Problems = r.bool(n, "problems") },
		"headers": func(n ast.Node) {
			if text, ok := r.text(n, "headers"); ok {
				if err := c.Headers.UnmarshalText([]byte(text)); err != nil {
					r.fault(position(n), "headers is %q, want retry-after, x-ratelimit or draft-11", text)
				}
			}
		},
		"global": func(n ast.Node) {
			p := readPolicy(r, "global", position(n), n)
			c.Global = &p
		},
		"policies": func(n ast.Node) {
			for _, p := range r.pairs(n, "policies") {
				c.Policies = append(c.Policies, readPolicy(r, p.key, p.at, p.value))
			}
		},
		"routes": func(n ast.Node) {
			for _, p := range r.pairs(n, "routes") {
				c.Routes = append(c.Routes, readRoute(r, p))
			}
		},
	})
	if keys != nil && (c.Cert == "" || c.Key == "") {
		r.fault(position(keys), "tls wants both cert and key")
	}
}

// duration returns what reads a time.
func (c *Config) duration(r *reader, to *time.Duration, what string) func(ast.Node) {
	return func(n ast.Node) {
		c.at[what] = position(n)
		*to = r.duration(n, what)
	}
}

func (c *Config) readTrusted(r *reader, n ast.Node) {
	for _, item := range r.items(n) {
		text, ok := r.text(item, "trusted")
		if !ok {
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			var a netip.Addr
			if a, err = netip.ParseAddr(text); err == nil {
				p = netip.PrefixFrom(a, a.BitLen())
			}
		}
		if err != nil {
			r.fault(position(item), "trusted has %q, want an address or a network such as 10.0.0.0/8", text)
			continue
		}
		c.Trusted = append(c.Trusted, p.Masked())
	}
}

// Fault returns a fault of the file.
func (c *Config) Fault(at Position, format string, args ...any) error {
	return &Fault{c.file, at, fmt.Sprintf(format, args...)}
}

// Where returns the place of a key of the file, such as listen; its beginning, if it does not have that key.
func (c *Config) Where(key string) Position {
	if at, ok := c.at[key]; ok {
		return at
	}
	return Position{1, 1}
}

// check finds what single values cannot show.
func (c *Config) check(r *reader) {
	for _, a := range []struct{ what, value string }{{"listen", c.Listen}, {"admin", c.Admin}} {
		if a.value != "" {
			if _, port, err := net.SplitHostPort(a.value); err != nil || !isPort(port) {
				r.fault(c.at[a.what], "%s is %q, want an address such as :8080 or 127.0.0.1:8080", a.what, a.value)
			}
		}
	}
	if c.Redis != "" {
		u, err := url.Parse(c.Redis)
		if err != nil || !slices.Contains([]string{"redis", "rediss", "unix"}, u.Scheme) {
			r.fault(c.at["redis"], "redis is %q, want a URL such as redis://127.0.0.1:6379/0", c.Redis)
		}
	}
	names := make(map[string]bool)
	if c.Global != nil {
		names[c.Global.Name] = true
	}
	for _, p := range c.Policies {
		if c.Global != nil && p.Name == c.Global.Name {
			r.fault(p.At, "the policy that is called %q stands outside of policies", p.Name)
		}
		if p.Name == "none" {
			r.fault(p.At, `a policy cannot be called "none": routes mean that there is none`)
		}
		names[p.Name] = true
	}
	mux := http.NewServeMux()
	for _, route := range c.Routes {
		for _, name := range route.Policies {
			if !names[name] || c.Global != nil && name == c.Global.Name {
				r.fault(route.At, "route %q: no policy is named %q", route.Pattern, name)
			}
		}
		if err := register(mux, route.Pattern); err != nil {
			r.fault(route.At, "route %v", err)
		}
	}
}

// isPort reports whether a port is a number that can be one, or a name that is known here. None is any.
func isPort(port string) bool {
	if port == "" {
		return true
	}
	_, err := net.LookupPort("tcp", port) //nolint:noctx // it looks into a file
	return err == nil
}

// register finds out whether a ServeMux takes a pattern beside the others.
func register(mux *http.ServeMux, pattern string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			text := fmt.Sprint(v)
			if _, after, ok := strings.Cut(text, "\n"); ok {
				text = fmt.Sprintf("%q conflicts with another: %s", pattern, strings.ReplaceAll(after, "\n", " "))
			} else if text = strings.TrimPrefix(text, "parsing "); !strings.Contains(text, pattern) {
				text = fmt.Sprintf("%q: %s", pattern, text)
			}
			err = errors.New(text)
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return nil
}

// Backends returns the URLs of to; what is wrong with them is told with their places.
func (c *Config) Backends() ([]*url.URL, error) {
	r := &reader{file: c.file}
	var urls []*url.URL
	for _, to := range c.To {
		u, err := url.Parse(to)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !isPort(u.Port()) || u.RawQuery != "" || u.Fragment != "" {
			r.fault(c.at["to "+to], "to is %q, want a URL such as http://127.0.0.1:9000", to)
			continue
		}
		urls = append(urls, u)
	}
	c.needed(r)
	return urls, errors.Join(r.faults...)
}

// Addresses returns the addresses of to, for raw connections.
func (c *Config) Addresses() ([]string, error) {
	r := &reader{file: c.file}
	var addresses []string
	for _, to := range c.To {
		a := strings.TrimPrefix(to, "tcp://")
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" || !isPort(port) {
			r.fault(c.at["to "+to], "to is %q, want an address such as 127.0.0.1:9000", to)
			continue
		}
		addresses = append(addresses, a)
	}
	c.needed(r)
	return addresses, errors.Join(r.faults...)
}

// needed finds what a proxy cannot do without.
func (c *Config) needed(r *reader) {
	if len(c.To) == 0 {
		r.fault(Position{1, 1}, "to is missing: where do requests go?")
	}
	if c.Listen == "" {
		r.fault(Position{1, 1}, "listen is missing: where do requests come from?")
	}
}

func readRoute(r *reader, p pair) Route {
	route := Route{Pattern: p.key, At: p.at}
	for _, item := range r.items(p.value) {
		name, ok := r.text(item, "a route")
		switch {
		case !ok:
		case name == "none":
			route.Exempt = true
		case slices.Contains(route.Policies, name):
			r.fault(position(item), "route %q names %q twice", p.key, name)
		default:
			route.Policies = append(route.Policies, name)
		}
	}
	if route.Exempt && len(route.Policies) > 0 {
		r.fault(p.at, "route %q is none, and names policies", p.key)
	}
	return route
}
