package config

import (
	"math"
	"net/netip"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-go/sluice/spec"
)

// read reads the keys of the file.
func (c *Config) read(r *reader, n *yaml.Node) {
	var tls *yaml.Node
	fields := map[string]func(*yaml.Node){
		"listen":          c.text(r, &c.Listen, "listen"),
		"admin":           c.text(r, &c.Admin, "admin"),
		"redis":           c.text(r, &c.Redis, "redis"),
		"access-log":      func(n *yaml.Node) { c.readAccessLog(r, n) },
		"redis-budget":    func(n *yaml.Node) { c.readRedisBudget(r, n) },
		"backend-timeout": func(n *yaml.Node) { c.BackendTimeout = r.duration(n, "backend-timeout") },
		"tls": func(n *yaml.Node) {
			tls = n
			r.fields(n, "tls", map[string]func(*yaml.Node){"cert": c.text(r, &c.Cert, "cert"), "key": c.text(r, &c.Key, "key")})
		},
		"to":                 func(n *yaml.Node) { c.readTo(r, n) },
		"trusted":            func(n *yaml.Node) { c.readTrusted(r, n) },
		"problems":           func(n *yaml.Node) { c.Problems = r.bool(n, "problems") },
		"underscores":        func(n *yaml.Node) { c.Underscores = r.bool(n, "underscores") },
		"headers":            func(n *yaml.Node) { c.readHeaders(r, n) },
		"host":               func(n *yaml.Node) { c.readHost(r, n) },
		"keys":               func(n *yaml.Node) { c.readKeys(r, n) },
		"max-body":           func(n *yaml.Node) { c.readMaxBody(r, n) },
		"connections":        func(n *yaml.Node) { c.Connections = readConnections(r, n) },
		"connections-per-ip": func(n *yaml.Node) { c.ConnectionsPerIP = readConnections(r, n) },
		"global": func(n *yaml.Node) {
			p := readPolicy(r, "global", position(n), n)
			c.Global = &p
		},
		"policies": func(n *yaml.Node) {
			for _, p := range r.pairs(n, "policies") {
				c.Policies = append(c.Policies, readPolicy(r, p.key, p.at, p.value))
			}
		},
		"routes": func(n *yaml.Node) {
			for _, p := range r.pairs(n, "routes") {
				c.Routes = append(c.Routes, readRoute(r, p))
			}
		},
	}
	for key, read := range fields {
		fields[key] = func(n *yaml.Node) {
			c.at[key] = position(n)
			read(n)
		}
	}
	r.fields(n, "the file", fields)
	if tls != nil && (c.Cert == "" || c.Key == "") {
		r.fault(position(tls), "tls wants both cert and key")
	}
}

// text returns a function that reads a text.
func (c *Config) text(r *reader, to *string, what string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*to, _ = r.text(n, what)
		c.at[what] = position(n)
	}
}

// readAccessLog reads the name of a file, or {file: NAME, format: FORMAT}.
func (c *Config) readAccessLog(r *reader, n *yaml.Node) {
	if !isMapping(n) {
		c.text(r, &c.AccessLog, "access-log")(n)
		return
	}
	var format string
	r.fields(n, "access-log", map[string]func(*yaml.Node){"file": c.text(r, &c.AccessLog, "access-log"), "format": c.text(r, &format, "format")})
	switch c.LogFormat = LogFormat(format); {
	case c.AccessLog == "":
		r.fault(position(n), "access-log wants a file, or - for standard output")
	case format == "":
		c.LogFormat = CombinedLog
	case c.LogFormat != CombinedLog && c.LogFormat != TimedLog && c.LogFormat != JSONLog:
		r.fault(c.at["format"], "format is %q, want combined, timed or json", format)
	}
}

func (c *Config) readTo(r *reader, n *yaml.Node) {
	for _, item := range r.items(n) {
		if to, ok := r.text(item, "to"); ok {
			c.To = append(c.To, to)
			c.at["to "+to] = position(item)
		}
	}
}

func (c *Config) readHeaders(r *reader, n *yaml.Node) {
	text, ok := r.text(n, "headers")
	if ok && c.Headers.UnmarshalText([]byte(text)) != nil {
		r.fault(position(n), "headers is %q, want retry-after, x-ratelimit or draft-11", text)
	}
}

func (c *Config) readHost(r *reader, n *yaml.Node) {
	text, ok := r.text(n, "host")
	if c.KeepHost = text == "keep"; ok && !c.KeepHost && text != "backend" {
		r.fault(position(n), "host is %q, want keep or backend", text)
	}
}

func (c *Config) readKeys(r *reader, n *yaml.Node) {
	text, ok := r.text(n, "keys")
	v, err := strconv.Atoi(text)
	if c.Keys = v; ok && (err != nil || v < 1 || v > math.MaxInt32) {
		r.fault(position(n), "keys is %q, want a number from 1", text)
	}
}

func (c *Config) readRedisBudget(r *reader, n *yaml.Node) {
	before := len(r.faults)
	if c.RedisBudget = r.duration(n, "redis-budget"); c.RedisBudget == 0 && len(r.faults) == before {
		r.fault(position(n), "redis-budget is 0, want a time, or none of it for 50ms")
	}
}

// readMaxBody reads a size as package spec reads the bytes of a rate.
func (c *Config) readMaxBody(r *reader, n *yaml.Node) {
	text, ok := r.text(n, "max-body")
	size, err := spec.Parse(text + "/s")
	if c.MaxBody = int64(size.Permits); ok && (err != nil || size.Permits < 1) {
		r.fault(position(n), "max-body is %q, want a size such as 10MiB", text)
	}
}

func readConnections(r *reader, n *yaml.Node) *spec.Limit {
	l, ok := readLimit(r, n)
	if !ok {
		return nil
	}
	if l.Queue > 0 {
		r.fault(position(n), "%q has a queue, in which no connection waits", l)
	}
	return &l
}

func (c *Config) readTrusted(r *reader, n *yaml.Node) {
	for _, item := range r.items(n) {
		text, ok := r.text(item, "trusted")
		if !ok {
			continue
		}
		p, err := parseNetwork(text)
		if err != nil {
			r.fault(position(item), "trusted has %q, want an address or a network such as 10.0.0.0/8", text)
			continue
		}
		c.Trusted = append(c.Trusted, p)
	}
}

// parseNetwork reads a network, or an address as the network of it alone. One of IPv4 that is written as IPv6
// (::ffff:10.0.0.1) is one of IPv4, as which clients are seen.
func parseNetwork(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		a, err := netip.ParseAddr(text)
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), err
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
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
		r.fault(p.at, "route %q: \"none\" cannot be combined with policies", p.key)
	}
	return route
}
