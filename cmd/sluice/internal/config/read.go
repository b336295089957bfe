package config

import (
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/duration"
	"github.com/sluice-go/sluice/rlslimit/yamlconf"
	"github.com/sluice-go/sluice/spec"
)

// read reads the keys of the file.
func (c *Config) read(root yamlconf.Node) {
	for _, p := range root.Pairs("the file") {
		n := p.Value
		c.at[p.Key] = n.Place()
		switch p.Key {
		case "listen":
			c.Listen = text(n, "listen")
		case "admin":
			c.Admin = text(n, "admin")
		case "redis":
			c.Redis = text(n, "redis")
		case "redis-budget":
			c.readRedisBudget(n)
		case "backend-timeout":
			c.BackendTimeout, _ = readDuration(n, "backend-timeout")
		case "access-log":
			c.readAccessLog(n)
		case "tls":
			c.readTLS(n)
		case "to":
			c.readTo(n)
		case "trusted":
			c.readTrusted(n)
		case "problems":
			c.Problems = boolean(n, "problems")
		case "underscores":
			c.Underscores = boolean(n, "underscores")
		case "headers":
			_ = c.Headers.UnmarshalText([]byte(choice(n, "headers", "retry-after", "x-ratelimit", "draft-11")))
		case "host":
			c.KeepHost = choice(n, "host", "keep", "backend") == "keep"
		case "keys":
			c.Keys = number(n, "keys", 1, math.MaxInt32)
		case "max-body":
			c.readMaxBody(n)
		case "connections":
			c.Connections = readConnections(n)
		case "connections-per-ip":
			c.ConnectionsPerIP = readConnections(n)
		case "global":
			global := readPolicy("global", n.Place(), n)
			c.Global = &global
		case "policies":
			for _, p := range n.Pairs("policies") {
				c.Policies = append(c.Policies, readPolicy(p.Key, p.At.Place(), p.Value))
			}
		case "routes":
			for _, p := range n.Pairs("routes") {
				c.Routes = append(c.Routes, readRoute(p))
			}
		default:
			p.Unknown("the file")
		}
	}
}

// readAccessLog reads the name of a file, or {file: NAME, format: FORMAT}.
func (c *Config) readAccessLog(n yamlconf.Node) {
	if !n.IsMapping() {
		c.AccessLog = text(n, "access-log")
		return
	}
	for _, p := range n.Pairs("access-log") {
		switch p.Key {
		case "file":
			c.AccessLog = text(p.Value, "access-log")
		case "format":
			c.at["format"] = p.Value.Place()
			c.LogFormat = LogFormat(choice(p.Value, "format", string(CombinedLog), string(TimedLog), string(JSONLog)))
		default:
			p.Unknown("access-log")
		}
	}
	if c.AccessLog == "" {
		n.Fault("access-log wants a file, or - for stdout")
	}
}

func (c *Config) readTLS(n yamlconf.Node) {
	for _, p := range n.Pairs("tls") {
		switch p.Key {
		case "cert":
			c.at["cert"] = p.Value.Place()
			c.Cert = text(p.Value, "cert")
		case "key":
			c.Key = text(p.Value, "key")
		default:
			p.Unknown("tls")
		}
	}
	if c.Cert == "" || c.Key == "" {
		n.Fault("tls wants both cert and key")
	}
}

func (c *Config) readTo(n yamlconf.Node) {
	for _, item := range n.Items() {
		if to := text(item, "to"); to != "" {
			c.To = append(c.To, to)
			c.at["to "+to] = item.Place()
		}
	}
}

func (c *Config) readRedisBudget(n yamlconf.Node) {
	var ok bool
	if c.RedisBudget, ok = readDuration(n, "redis-budget"); ok && c.RedisBudget == 0 {
		n.Fault("redis-budget is 0, want a time, or none of it for 50ms")
	}
}

// readMaxBody reads a size as package spec reads the bytes of a rate.
func (c *Config) readMaxBody(n yamlconf.Node) {
	text, ok := n.Text("max-body")
	size, err := spec.Parse(text + "/s")
	if c.MaxBody = int64(size.Permits); ok && (err != nil || size.Permits < 1) {
		n.Fault("max-body is %q, want a size such as 10MiB", text)
	}
}

func readConnections(n yamlconf.Node) *spec.Limit {
	l, ok := readLimit(n)
	if !ok {
		return nil
	}
	if l.Queue > 0 {
		n.Fault("%q has a queue, in which no connection waits", l)
	}
	return &l
}

func (c *Config) readTrusted(n yamlconf.Node) {
	for _, item := range n.Items() {
		text, ok := item.Text("trusted")
		if !ok {
			continue
		}
		p, err := parseNetwork(text)
		if err != nil {
			item.Fault("trusted has %q, want an address or a network such as 10.0.0.0/8", text)
			continue
		}
		c.Trusted = append(c.Trusted, p)
	}
}

// parseNetwork reads a network, or an address as the network of it alone. An IPv4 address that is written as IPv6
// (::ffff:10.0.0.1) is an IPv4 address, because clients are seen as such.
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

func readRoute(p yamlconf.Pair) Route {
	route := Route{Pattern: p.Key, At: p.At.Place()}
	for _, item := range p.Value.Items() {
		name, ok := item.Text("a route")
		switch {
		case !ok:
		case name == "none":
			route.Exempt = true
		case slices.Contains(route.Policies, name):
			item.Fault("route %q names %q twice", p.Key, name)
		default:
			route.Policies = append(route.Policies, name)
		}
	}
	if route.Exempt && len(route.Policies) > 0 {
		p.At.Fault("route %q: \"none\" cannot be combined with policies", p.Key)
	}
	return route
}

// text reads a text. Space around it, such as the line feed at the end of a block of lines, is not a part of it.
func text(n yamlconf.Node, what string) string {
	v, _ := n.Text(what)
	return strings.TrimSpace(v)
}

// choice reads one of several words.
func choice(n yamlconf.Node, what string, words ...string) string {
	v, ok := n.Text(what)
	if last := len(words) - 1; ok && !slices.Contains(words, v) {
		n.Fault("%s is %q, want %s or %s", what, v, strings.Join(words[:last], ", "), words[last])
	}
	return v
}

// number reads a whole number, and returns least after a fault.
func number(n yamlconf.Node, what string, least, most int) int {
	text, ok := n.Text(what)
	v, err := strconv.Atoi(text)
	switch {
	case err == nil && v >= least && v <= most:
		return v
	case ok && most == math.MaxInt32:
		n.Fault("%s is %q, want a number from %d", what, text, least)
	case ok:
		n.Fault("%s is %q, want a number from %d to %d", what, text, least, most)
	}
	return least
}

func boolean(n yamlconf.Node, what string) bool {
	text, ok := n.Text(what)
	v, err := strconv.ParseBool(text)
	if ok && err != nil {
		n.Fault("%s is %q, want true or false", what, text)
	}
	return v
}

func readDuration(n yamlconf.Node, what string) (time.Duration, bool) {
	text, ok := n.Text(what)
	if !ok {
		return 0, false
	}
	v, err := duration.Parse(text)
	if err != nil {
		n.Fault("%s: %v", what, err)
	}
	return v, err == nil
}

func readLimit(n yamlconf.Node) (spec.Limit, bool) {
	text, ok := n.Text("a limit")
	if !ok {
		return spec.Limit{}, false
	}
	l, err := spec.Parse(text)
	if err != nil {
		n.Fault("%s", strings.TrimPrefix(err.Error(), "spec: "))
	}
	return l, err == nil
}
