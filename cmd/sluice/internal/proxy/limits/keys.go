package limits

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/route"
	"github.com/sluice-go/sluice/httplimit"
)

// Keys tells clients apart, by the present configuration.
type Keys struct {
	max     int // keys for which a limit has limiters
	clients atomic.Pointer[clients]
}

// clients finds the clients of requests, which may come through trusted proxies.
type clients struct {
	trusted         []netip.Prefix
	network, single func(*http.Request) netip.Prefix // of the client, and of its address alone
}

// NewKeys returns the keys of clients, and the number of them for which a limit has limiters at a time, at most.
func NewKeys(most int, trusted []netip.Prefix) *Keys {
	k := &Keys{max: most}
	k.Trust(trusted)
	return k
}

// Trust changes which proxies are believed.
func (k *Keys) Trust(trusted []netip.Prefix) {
	k.clients.Store(&clients{
		trusted: trusted,
		network: httplimit.ByIP(httplimit.IPOptions{Trusted: trusted}),
		single:  httplimit.ByIP(httplimit.IPOptions{Trusted: trusted, V6Bits: 128}),
	})
}

// Trusts reports whether a request comes from a proxy that is believed.
func (k *Keys) Trusts(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	address := peer.Addr().Unmap().WithZone("")
	return err == nil && slices.ContainsFunc(k.clients.Load().trusted, func(p netip.Prefix) bool { return p.Contains(address) })
}

// client returns a client, which may have a network of IPv6.
func (k *Keys) client(r *http.Request) netip.Prefix { return k.clients.Load().network(r) }

// Address returns a client's address for people.
func (k *Keys) Address(r *http.Request) string {
	if p := k.clients.Load().single(r); p.IsValid() {
		return p.Addr().String()
	}
	return "-"
}

// reading is a key of a request.
type reading struct {
	key       *config.KeyPart // the first part, which tells the key from others
	values    []string        // values of its parts
	joined    string
	ambiguous bool // a backend may read other values
}

// Readings are the keys that were read from a request. A request that carries them reads each key once.
type Readings []reading

type readingsKey struct{}

// Carry returns a context whose request has its keys read once.
func Carry(ctx context.Context, r *Readings) context.Context {
	return context.WithValue(ctx, readingsKey{}, r)
}

// Prepare reads the keys of a policy from a request that carries its Readings: its key and its flow. It reports whether a backend may
// read another value of them. The goroutine that serves the request calls it, and nobody reads the keys before.
func (k *Keys) Prepare(r *http.Request, p *Policy) (ambiguous bool) {
	carried, _ := r.Context().Value(readingsKey{}).(*Readings)
	for _, key := range []config.Key{p.Key, p.Flow} {
		if len(key) == 0 {
			continue
		}
		one := k.read(r, key)
		ambiguous = ambiguous || one.ambiguous
		if carried != nil {
			*carried = append(*carried, one)
		}
	}
	return ambiguous
}

// read returns a key of a request.
func (k *Keys) read(r *http.Request, key config.Key) reading {
	if carried, ok := r.Context().Value(readingsKey{}).(*Readings); ok {
		for _, one := range *carried {
			if one.key == &key[0] {
				return one
			}
		}
	}
	one := reading{key: &key[0], values: make([]string, len(key))}
	for i, p := range key {
		var ok bool
		one.values[i], ok = k.value(r, p)
		one.ambiguous = one.ambiguous || !ok
	}
	one.joined = config.JoinKey(one.values)
	return one
}

// value reads the value of a part of a key from a request. It reports false if a backend may read another value there.
func (k *Keys) value(r *http.Request, p config.KeyPart) (v string, ok bool) {
	switch p.Kind {
	case config.KeyIP:
		return config.Client(k.client(r)), true
	case config.KeyHost:
		host, ok := cli.HostOf(r.Host)
		if !ok {
			host = ""
		}
		return host, true
	case config.KeyPath:
		return config.Text(route.Segment(r.URL, p.Segment)), true
	case config.KeyPattern:
		return r.Pattern, true
	default:
		return clientValue(r, p)
	}
}

// clientValue reads the value of a part that the client has control of.
func clientValue(r *http.Request, p config.KeyPart) (string, bool) {
	var text string
	var ok bool
	switch p.Kind {
	case config.KeyHeader:
		text, ok = header(r.Header, p.Name)
	case config.KeyCookie:
		text, ok = cookie(r.Header["Cookie"], p)
	default:
		text, ok = parameter(r.URL.RawQuery, p)
	}
	v, err := p.Read(text)
	return v, ok && err == nil
}

// header returns the value of a header. It reports false if there are several, or one that programs behind CGI take for it.
func header(h http.Header, name string) (string, bool) {
	for other := range h {
		if len(other) == len(name) && other != name && strings.EqualFold(hyphenated(other), hyphenated(name)) {
			return "", false
		}
	}
	switch values := h[name]; len(values) {
	case 0:
		return "", true
	case 1:
		return values[0], true
	default:
		return values[0], false
	}
}

func hyphenated(name string) string { return strings.ReplaceAll(name, "_", "-") }

// cookie returns the value of a cookie, also of one that net/http does not accept. It reports false if there are several of
// that name, or one behind a comma, where some servers find a cookie and some do not.
func cookie(lines []string, p config.KeyPart) (value string, ok bool) {
	n, ok := 0, true
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			first, behind, _ := strings.Cut(pair, ",")
			name, v, _ := strings.Cut(pair, "=")
			for name := range strings.SplitSeq(behind, ",") {
				ok = ok && !isCookie(name, p.IsNamedFold)
			}
			if isCookie(first, p.IsNamedFold) {
				n++
			}
			if isCookie(name, p.IsNamed) {
				value = v
			}
		}
	}
	return value, ok && n <= 1
}

func isCookie(pair string, named func(string) bool) bool {
	name, _, _ := strings.Cut(pair, "=")
	return named(route.Unescape(strings.TrimSpace(name)))
}

// parameter returns the value of a query parameter. It reports false if there are several of that name, or if the query is
// malformed.
func parameter(raw string, p config.KeyPart) (value string, ok bool) {
	query, err := url.ParseQuery(raw)
	n := 0
	for name, values := range query {
		if p.IsNamedFold(name) {
			n += len(values)
		}
		if p.IsNamed(name) {
			value = values[0]
		}
	}
	return value, err == nil && n <= 1
}
