package config

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/yamlconf"
	"github.com/sluice-go/sluice/spec"
)

// option is a key of a mapping and what reads its value.
type option struct {
	key  string
	read reader
}

// reader reads the value of a key.
type reader = func(n yamlconf.Node, key string)

// readOptions reads a mapping in the order of its options, so that one may build on those before it, and keeps the places of
// the values.
func readOptions(n yamlconf.Node, what string, at map[string]yamlconf.Place, options []option) {
	keys := make([]string, len(options))
	for i, o := range options {
		keys[i] = o.key
	}
	values := make(map[string]yamlconf.Node)
	for _, p := range n.Pairs(what) {
		if !slices.Contains(keys, p.Key) {
			p.At.Fault("%s has no %q%s", what, p.Key, cli.DidYouMean(p.Key, keys))
			continue
		}
		values[p.Key] = p.Value
		at[p.Key] = p.Value.Place()
	}
	for _, o := range options {
		if v, ok := values[o.key]; ok {
			o.read(v, o.key)
		}
	}
}

// read reads the keys of the file.
func (c *Config) read(root yamlconf.Node) {
	readOptions(root, "the file", c.at, []option{
		{"listen", text(&c.Listen)},
		{"admin", text(&c.Admin)},
		{"tls", c.readTLS},
		{"to", each(c.readTo)},
		{"trusted", each(c.readTrusted)},
		{"headers", choice(func(word string) { _ = c.Headers.UnmarshalText([]byte(word)) }, "retry-after", "x-ratelimit", "draft-11")},
		{"problems", boolean(&c.Problems)},
		{"host", choice(func(word string) { c.KeepHost = word == "keep" }, "keep", "backend")},
		{"underscores", boolean(&c.Underscores)},
		{"keys", number(&c.Keys, 1, math.MaxInt32)},
		{"max-body", c.readMaxBody},
		{"connections", limits(&c.Connections, ofConnections)},
		{"connections-per-ip", limits(&c.ConnectionsPerIP, ofConnections)},
		{"access-log", c.readAccessLog},
		{"backend-timeout", timeout(&c.BackendTimeout)},
		{"redis", text(&c.Redis)},
		{"redis-budget", c.readRedisTimeout}, // old name of redis-timeout
		{"redis-timeout", c.readRedisTimeout},
		{"global", func(n yamlconf.Node, key string) { c.Global = readPolicy(key, n.Place(), n) }},
		{"policies", func(n yamlconf.Node, key string) {
			for _, p := range n.Pairs(key) {
				c.Policies = append(c.Policies, *readPolicy(p.Key, p.At.Place(), p.Value))
			}
		}},
		{"routes", func(n yamlconf.Node, key string) {
			for _, p := range n.Pairs(key) {
				c.Routes = append(c.Routes, readRoute(p))
			}
		}},
	})
}

func (c *Config) readTLS(n yamlconf.Node, key string) {
	readOptions(n, key, c.at, []option{{"cert", text(&c.Cert)}, {"key", text(&c.Key)}})
	if c.Cert == "" || c.Key == "" {
		n.Fault("tls wants both cert and key")
	}
}

// readAccessLog reads the name of a file, or {file: NAME, format: FORMAT}.
func (c *Config) readAccessLog(n yamlconf.Node, key string) {
	file := text(&c.AccessLog)
	if !n.IsMapping() {
		file(n, key)
		return
	}
	format := choice(func(word string) { c.LogFormat = LogFormat(word) }, string(CombinedLog), string(TimedLog), string(JSONLog))
	readOptions(n, key, c.at, []option{{"file", func(n yamlconf.Node, _ string) { file(n, key) }}, {"format", format}})
	if c.AccessLog == "" {
		n.Fault("access-log wants a file, or - for stdout")
	}
}

func (c *Config) readTo(n yamlconf.Node, key string) {
	var to string
	text(&to)(n, key)
	if to != "" {
		c.To = append(c.To, to)
		c.at["to "+to] = n.Place()
	}
}

func (c *Config) readRedisTimeout(n yamlconf.Node, key string) {
	c.RedisTimeout = -1
	timeout(&c.RedisTimeout)(n, key)
	if c.RedisTimeout == 0 {
		n.Fault("%s is 0, want a duration such as 200ms; omit it for 50ms", key)
	}
}

// readMaxBody reads a size as package spec reads the bytes of a rate.
func (c *Config) readMaxBody(n yamlconf.Node, key string) {
	text, ok := n.Text(key)
	size, err := spec.Parse(text + "/s")
	switch c.MaxBody = int64(size.Permits); {
	case ok && (err != nil || size.Permits < 1):
		n.Fault("max-body is %q, want a size such as 10MiB", text)
	case ok && !size.Bytes:
		n.Fault("max-body is %q, but counts bytes; write the unit, such as %[1]sMB, or B for bytes", text)
	}
}

func (c *Config) readTrusted(n yamlconf.Node, key string) {
	text, ok := n.Text(key)
	if !ok {
		return
	}
	p, err := ParseNetwork(text)
	if err != nil {
		n.Fault("trusted: %v", err)
		return
	}
	c.Trusted = append(c.Trusted, p)
}

// ParseNetwork reads a network, or an address as the network of it alone. An IPv4 address that is written as IPv6
// (::ffff:10.0.0.1) is an IPv4 address, because clients are seen as such.
func ParseNetwork(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return p, fmt.Errorf("%q is not an address or a network such as 10.0.0.0/8", text)
		}
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
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

// each reads the values of a list, or the only value of one that is not a list.
func each(read reader) reader {
	return func(n yamlconf.Node, key string) {
		for _, item := range n.Items() {
			read(item, key)
		}
	}
}

// text reads a text. Space around it, such as the line feed at the end of a block of lines, is not a part of it.
func text(to *string) reader {
	return func(n yamlconf.Node, key string) {
		v, _ := n.Text(key)
		*to = strings.TrimSpace(v)
	}
}

// choice reads one of several words.
func choice(set func(word string), words ...string) reader {
	return func(n yamlconf.Node, key string) {
		switch v, ok := n.Text(key); {
		case slices.Contains(words, v):
			set(v)
		case ok:
			last := len(words) - 1
			n.Fault("%s is %q, want %s or %s", key, v, strings.Join(words[:last], ", "), words[last])
		}
	}
}

// number reads a whole number. It leaves the value as it is after an error.
func number(to *int, least, most int) reader {
	return func(n yamlconf.Node, key string) {
		text, ok := n.Text(key)
		v, err := strconv.Atoi(text)
		switch {
		case err == nil && v >= least && v <= most:
			*to = v
		case ok:
			n.Fault("%s is %q, want a number from %d to %d", key, text, least, most)
		}
	}
}

func boolean(to *bool) reader {
	return func(n yamlconf.Node, key string) {
		text, ok := n.Text(key)
		v, err := strconv.ParseBool(text)
		if *to = v; ok && err != nil {
			n.Fault("%s is %q, want true or false", key, text)
		}
	}
}

// timeout reads a duration. It leaves the value as it is after an error.
func timeout(to *time.Duration) reader {
	return func(n yamlconf.Node, key string) {
		text, ok := n.Text(key)
		v, err := cli.ParseDuration(text)
		switch {
		case ok && err != nil:
			n.Fault("%s: %v", key, err)
		case ok:
			*to = v
		}
	}
}

// limits reads one or several limits, or a list of such texts. check says what is wrong with a limit, or returns "".
func limits(to *[]Limit, check func(l spec.Limit) string) reader {
	return func(n yamlconf.Node, key string) {
		items := n.Items()
		if len(items) == 0 {
			n.Fault("%s has no limit, want one such as 1000/s, or unlimited", key)
		}
		for _, item := range items {
			text, ok := item.Text("a limit")
			if !ok {
				continue
			}
			read, err := spec.ParseLimits(text)
			switch {
			case err != nil && isCount(text, check):
				item.Fault("%s: %q has no time; write concurrency %[2]s for as many at a time, or a rate such as %[2]s/s", key, text)
			case err != nil:
				item.Fault("%s", strings.TrimPrefix(err.Error(), "spec: "))
			}
			for _, l := range read {
				if wrong := check(l); wrong != "" {
					item.Fault("%s: %q %s", key, l, wrong)
					continue
				}
				*to = append(*to, Limit{l, item.Place()})
			}
		}
	}
}

// isCount reports whether a text is only a number, and may have been meant as a concurrency limit.
func isCount(text string, check func(l spec.Limit) string) bool {
	l, err := spec.Parse("concurrency " + text)
	return err == nil && check(l) == "" && strings.Trim(text, "0123456789") == ""
}

// ofRequests says what is wrong with a limit on requests.
func ofRequests(l spec.Limit) string {
	if l.Bytes {
		return "is an amount of bytes, but the limit counts requests; write a number such as 10/s, without B, or use download or upload for bytes"
	}
	return ""
}

// ofBytes says what is wrong with a limit on the bytes of bodies.
func ofBytes(l spec.Limit) string {
	switch {
	case l.Kind == spec.Blocked:
		return "would end no transfer; want a limit such as 1MiB/s"
	case !l.Bytes && l.Kind != spec.Unlimited && l.Kind != spec.Paused:
		return fmt.Sprintf("counts bytes; write the unit, such as %dkB/s, or B for bytes", l.Permits)
	}
	return ""
}

// ofConnections says what is wrong with a limit on connections.
func ofConnections(l spec.Limit) string {
	switch {
	case l.Queue > 0:
		return "has a queue, but connections do not wait; remove the queue"
	case l.Bytes:
		return "is an amount of bytes, but the limit counts connections; write a number such as 10/s, without B"
	}
	return ""
}
