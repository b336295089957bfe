// Package config reads limits.yaml: which limits stand before a server, and for which of its paths. All faults of a file
// are reported at once, each with its line and column.
package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/route"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/spec"
)

// Config is the content of a file.
type Config struct {
	Listen   string // host:port; "": missing
	Cert     string // files of TLS; "": none
	Key      string
	To       []string       // addresses of the backends, as they are written
	Trusted  []netip.Prefix // proxies whose headers are believed
	Headers  httplimit.Headers
	Problems bool
	Admin    string   // host:port; "": none
	Redis    string   // URL; "": the limits are this process' own
	Global   *Policy  // nil: none
	Policies []Policy // in the order of the file
	Routes   []Route  // in the order of the file

	RedisBudget    time.Duration // how long a decision by Redis may take; 0: 50 ms
	BackendTimeout time.Duration // how long a backend may be silent; 0: for ever

	Keys             int         // limiters that a limit with a key has at a time, at most
	Connections      *spec.Limit // of all clients together; nil: unlimited
	ConnectionsPerIP *spec.Limit
	MaxBody          int64  // bytes of a request's body; 0: unlimited
	KeepHost         bool   // the backend gets the Host that the client sent; false: its own
	Underscores      bool   // header fields whose names have underscores pass
	AccessLog        string // a file; "-": standard output; "": none
	LogFormat        LogFormat

	file string
	at   map[string]Position
}

// LogFormat is how the lines of the access log are written.
type LogFormat string

// The formats.
const (
	CombinedLog LogFormat = "combined" // of Apache and nginx
	TimedLog    LogFormat = "timed"    // the same with more behind it
	JSONLog     LogFormat = "json"
)

// Route says which policies apply to the paths of a pattern of net/http's ServeMux.
type Route struct {
	Pattern  string
	At       Position
	Policies []string // in this order, after the global one
	Exempt   bool     // none, not even the global one
}

// The defaults.
const (
	defaultKeys           = 100_000
	defaultBackendTimeout = time.Minute
)

// Read reads a file.
func Read(name string) (*Config, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, text)
}

// Parse reads the text of the file of that name. The error joins a *[Fault] for each thing that is wrong. With it comes
// what could be read nevertheless, or nil.
func Parse(name string, text []byte) (*Config, error) {
	r := &reader{file: name}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors put it in front
	root, second, err := parse(text)
	if err != nil {
		return nil, syntaxFault(name, text, err)
	}
	if root == nil || isNull(root) {
		return nil, newFault(name, Position{1, 1}, "the file is empty")
	}
	if second != nil {
		r.fault(position(second), "a second document, want one")
	}
	c := &Config{LogFormat: CombinedLog, Keys: defaultKeys, BackendTimeout: defaultBackendTimeout, file: name, at: make(map[string]Position)}
	c.read(r, root)
	c.check(r)
	return c, Join(r.faults...)
}

// Join joins errors as errors.Join does: faults in the order of their places, then errors without a place.
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

// Fault returns a fault of the file.
func (c *Config) Fault(at Position, format string, args ...any) error {
	return newFault(c.file, at, fmt.Sprintf(format, args...))
}

// Where returns the place of a key of the file, such as listen, or the beginning of a file without that key.
func (c *Config) Where(key string) Position {
	if at, ok := c.at[key]; ok {
		return at
	}
	return Position{1, 1}
}

// NewMux returns what finds the route of a request, with a value for each route. A file without routes has one for all
// requests.
func NewMux[T any](c *Config, value func(Route) T) *route.Mux[T] {
	routes := c.Routes
	if len(routes) == 0 {
		routes = []Route{{Pattern: "/"}}
	}
	policies := make(map[string]*Policy)
	for i := range c.Policies {
		policies[c.Policies[i].Name] = &c.Policies[i]
	}
	all := make([]route.Route[T], len(routes))
	for i, r := range routes {
		all[i] = route.Route[T]{Pattern: r.Pattern, Value: value(r)}
		if r.Exempt {
			continue
		}
		all[i].Segments = segments(nil, c.Global)
		for _, name := range r.Policies {
			all[i].Segments = segments(all[i].Segments, policies[name])
		}
	}
	m, _ := route.New(all) // Parse has found what is wrong
	return m
}

// segments appends the segments of the path that the key and the flow of a policy have.
func segments(to []int, p *Policy) []int {
	if p == nil {
		return to
	}
	for _, part := range slices.Concat(p.Key, p.Flow) {
		if part.Kind == KeyPath {
			to = append(to, part.Segment)
		}
	}
	return to
}
