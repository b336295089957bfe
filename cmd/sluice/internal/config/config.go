// Package config reads limits.yaml: which limits stand before a server, and for which of its paths. All errors of a file
// are reported together, each with its line and column.
package config

import (
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/route"
	"github.com/sluice-go/sluice/cmd/sluice/internal/yamlconf"
	"github.com/sluice-go/sluice/httplimit"
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
	Admin    string     // host:port; "": none
	Redis    string     // URL; "": the limits are this process's own
	Global   *Policy    // nil means none
	Policies []Policy   // policies in the order of the file
	Routes   []Route    // routes in the order of the file; one for all requests if it has none
	Mux      *route.Mux // finds a request's route in Routes

	RedisTimeout   time.Duration // how long a decision by Redis may take; 0: 50 ms
	BackendTimeout time.Duration // how long a backend may be silent; 0: no limit

	Keys             int     // limiters that a limit with a key has at a time, at most
	Connections      []Limit // limits on the connections of all clients together; none means unlimited
	ConnectionsPerIP []Limit
	MaxBody          int64  // bytes of a request's body; 0: unlimited
	KeepHost         bool   // the backend gets the Host that the client sent; false: its own
	Underscores      bool   // headers whose names have underscores pass
	AccessLog        string // a file; "-": stdout; "": none
	LogFormat        LogFormat

	file string
	at   map[string]yamlconf.Place
}

// LogFormat is how the lines of the access log are written.
type LogFormat string

// The formats.
const (
	CombinedLog LogFormat = "combined" // combined log of Apache and nginx
	TimedLog    LogFormat = "timed"    // the same with more behind it
	JSONLog     LogFormat = "json"
)

// Route says which policies apply to the paths of a pattern of net/http's ServeMux.
type Route struct {
	Pattern  string
	At       yamlconf.Place
	Policies []string // policies in this order, after the global one
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

// Parse reads the text of the file of that name. The error joins a [*yamlconf.Fault] for each error in the file. If the
// file is YAML, the Config is returned as far as it could be read.
func Parse(name string, text []byte) (c *Config, err error) {
	err = yamlconf.Read(name, text, func(root yamlconf.Node) {
		if root.IsNull() {
			root.Fault("the file is empty")
			return
		}
		c = &Config{LogFormat: CombinedLog, Keys: defaultKeys, BackendTimeout: defaultBackendTimeout, file: name, at: make(map[string]yamlconf.Place)}
		c.read(root)
		if len(c.Routes) == 0 {
			c.Routes = []Route{{Pattern: "/"}}
		}
		c.check(root.FaultAt)
	})
	return c, yamlconf.Join(err)
}

// AllPolicies returns the global policy, if there is one, and all others.
func (c *Config) AllPolicies() []Policy {
	if c.Global == nil {
		return c.Policies
	}
	return append([]Policy{*c.Global}, c.Policies...)
}

// Fault returns a fault of the file.
func (c *Config) Fault(at yamlconf.Place, format string, args ...any) error {
	return yamlconf.NewFault(c.file, at, format, args...)
}

// Where returns the place of a key of the file, such as listen, or the start of a file without that key.
func (c *Config) Where(key string) yamlconf.Place {
	if at, ok := c.at[key]; ok {
		return at
	}
	return yamlconf.Place{Line: 1, Column: 1}
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
