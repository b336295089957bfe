package httplimit

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
)

// IPOptions are for [ByIP].
type IPOptions struct {
	// Trusted are the addresses of the proxies whose Header is believed, such as your load
	// balancers. The zero Prefix trusts peers without an address, such as those on a unix socket.
	// None: the client is the peer, whatever it sends.
	Trusted []netip.Prefix

	// Header is the field in which the proxies name the client: "X-Forwarded-For" (also if it is
	// ""), "Forwarded" (RFC 7239), or a field with a single address, such as "X-Real-IP".
	Header string

	// V4Bits and V6Bits are how many bits of an address make the key, 1 to 32 and 1 to 128. 0: 32
	// and 64, since every home has at least 64 bits of IPv6 addresses to choose from.
	V4Bits, V6Bits int
}

// ByIP returns a key function that returns the client's address, as a prefix. IPv4 inside IPv6 is
// IPv4, and zones are dropped. If the bits are out of range, ByIP panics.
//
// The address is the peer's, Request.RemoteAddr, unless the peer is trusted. Then it is the
// right-most address in Header that is not trusted; if all are trusted, the left-most; if there is
// no such field, the peer's. If the result is not an address, or if Header has a hundred entries or
// more to the right of it, the key is the zero Prefix: one partition for all such requests.
//
// # Which header to trust
//
// Without a proxy in front, none: leave Trusted empty. Behind proxies that append to
// X-Forwarded-For (nginx with $proxy_add_x_forwarded_for, HAProxy's option forwardfor,
// Envoy, AWS ALB, Google Cloud, Traefik, httputil.ProxyRequest.SetXForwarded) trust
// their addresses, all of them, and that field; what is to the left of what they wrote
// is the client's own invention, and is not looked at. Behind proxies that put one address
// into a field of their own, overwriting the client's (CF-Connecting-IP of Cloudflare,
// Fly-Client-IP of Fly.io, X-Real-IP of nginx with $remote_addr), name that field; a proxy
// that passes on what the client sent there lets the client choose. Never trust addresses
// from which clients can reach the server past the proxy, such as all of 10.0.0.0/8 in a
// network that is not all yours.
//
// # Keys that clients make
//
// A client with many addresses makes many partitions. partition.Options.MaxPartitions
// bounds them, and clients that find no room share the limit of Overflow.
func ByIP(o IPOptions) func(*http.Request) netip.Prefix {
	v4, v6 := bits("V4Bits", o.V4Bits, 32, 32), bits("V6Bits", o.V6Bits, 64, 128)
	trusted := make([]netip.Prefix, 0, len(o.Trusted))
	for _, p := range o.Trusted {
		trusted = append(trusted, unmap(p))
	}
	nameless := slices.Contains(trusted, netip.Prefix{})
	name := textproto.CanonicalMIMEHeaderKey(o.Header)
	if name == "" {
		name = "X-Forwarded-For"
	}
	f := finder{trusted, nameless, name}
	return func(r *http.Request) netip.Prefix {
		addr := f.client(r)
		n := v6
		if addr.Is4() {
			n = v4
		}
		p, err := addr.Prefix(n)
		if err != nil { // the zero Addr's
			return netip.Prefix{}
		}
		return p
	}
}

func bits(field string, n, usual, most int) int {
	if n == 0 {
		return usual
	}
	if n < 0 || n > most {
		panic(fmt.Sprintf("httplimit: IPOptions.%s = %d, want 1 to %d, or 0 for %d", field, n, most, usual))
	}
	return n
}

// unmap returns the IPv4 prefix inside an IPv6 one.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// finder finds a client's address. The zero Addr is that of an unknown client.
type finder struct {
	trusted  []netip.Prefix
	nameless bool   // peers without an address are trusted
	header   string // in canonical form
}

func (f finder) trusts(a netip.Addr) bool {
	for _, p := range f.trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

func (f finder) client(r *http.Request) netip.Addr {
	peer := address(r.RemoteAddr)
	if !f.trusts(peer) && (peer.IsValid() || !f.nameless) {
		return peer
	}
	lines := r.Header[f.header]
	switch f.header {
	case "X-Forwarded-For":
		return f.walk(peer, lines, listed)
	case "Forwarded":
		return f.walk(peer, lines, forwarded)
	}
	if len(lines) > 0 {
		if last := strings.Trim(lines[len(lines)-1], " \t"); last != "" {
			return address(last)
		}
	}
	return peer
}

// syntax is how the entries of a field are written.
type syntax uint8

const (
	listed    syntax = iota // X-Forwarded-For: addresses
	forwarded               // Forwarded: elements of pairs, of which some are quoted
)

// walk goes from the right over the entries of all lines, to the first address that is not
// trusted. Without any it returns the peer.
func (f finder) walk(peer netip.Addr, lines []string, s syntax) netip.Addr {
	client, n := peer, 0
	for _, line := range slices.Backward(lines) {
		for e := newEntries(line, s); e.left; {
			n++
			if n > maxEntries {
				return netip.Addr{}
			}
			entry, ok := e.cut(), true
			if s == forwarded {
				entry, ok = forNode(entry)
			}
			if !ok {
				return netip.Addr{}
			}
			if entry == "" {
				continue
			}
			client = address(entry)
			if !f.trusts(client) { // the zero Addr is not
				return client
			}
		}
	}
	return client
}

// No chain of proxies is as long. A client must not make the server look at more.
const maxEntries = 100

// entries are those of a line, of which the last maxEntries can be cut off. They are found in one
// pass from the left, as quotes can be matched only from there. What a client wrote there may have a
// quote too many, but then the quotes do not match in the end, and the last entry shows it.
type entries struct {
	rest   string
	commas [maxEntries]int // of rest; the i-th is at i%maxEntries
	n      int             // how many commas rest has
	left   bool            // rest is one entry or more
}

func newEntries(line string, s syntax) entries {
	e := entries{rest: line, left: true}
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"' && s == forwarded:
			quoted = !quoted
		case c == ',' && !quoted:
			e.commas[e.n%maxEntries] = i
			e.n++
		}
	}
	return e
}

// cut cuts the last entry off.
func (e *entries) cut() string {
	entry := e.rest
	if e.n == 0 {
		e.left = false
	} else {
		e.n--
		comma := e.commas[e.n%maxEntries]
		entry, e.rest = e.rest[comma+1:], e.rest[:comma]
	}
	return strings.Trim(entry, " \t")
}

// address reads an address, with or without a port, brackets or a zone.
func address(s string) netip.Addr {
	host, colon := s, strings.IndexByte(s, ':')
	switch {
	case strings.HasPrefix(s, "["):
		end := strings.IndexByte(s, ']')
		if end < 0 || !port(s[end+1:]) {
			return netip.Addr{}
		}
		if host = s[1:end]; !strings.Contains(host, ":") {
			return netip.Addr{} // brackets are for IPv6
		}
	case colon >= 0 && colon == strings.LastIndexByte(s, ':'): // IPv6 has two colons at least
		if !port(s[colon:]) {
			return netip.Addr{}
		}
		host = s[:colon]
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// port reports whether s is empty, or a colon and a port, or one of RFC 7239's names for it.
func port(s string) bool {
	if s == "" {
		return true
	}
	if len(s) < 2 || s[0] != ':' {
		return false
	}
	for i := 1; i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && s[1] != '_' {
			return false
		}
	}
	return true
}
