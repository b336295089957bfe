package httplimit

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
)

// IPOptions say how [ByIP] finds a client's address.
type IPOptions struct {
	// Trusted are the proxies whose Header is believed, by their addresses: your load
	// balancers', say. None: the peer's own address counts, whatever it sends.
	Trusted []netip.Prefix

	// Header is what the proxies tell of the client in: "X-Forwarded-For" ("" too),
	// "Forwarded" (RFC 7239), or one with a single address, such as "X-Real-IP".
	Header string

	// V4Bits and V6Bits are how many bits of an address make the key, 1 to 32 and 1 to 128.
	// 0: 32 and 64, since a home has at least 64 bits of IPv6 addresses to choose from.
	V4Bits, V6Bits int
}

// ByIP returns a key function: the client's address, as a prefix. IPv4 inside IPv6 is IPv4,
// and zones are dropped. Bits that are out of range make ByIP panic.
//
// The address is the peer's, Request.RemoteAddr, unless the peer is trusted. Then it is the
// right-most address in Header that is not trusted; the left-most, if all are; the peer's,
// if there is no such field. What cannot be made out is the zero Prefix: one partition for
// all of them.
//
// # Which header to trust
//
// Without a proxy in front, none: leave Trusted empty. Behind proxies that append to
// X-Forwarded-For (nginx with $proxy_add_x_forwarded_for, HAProxy's option forwardfor,
// Envoy, AWS ALB, Google Cloud, Traefik, httputil.ProxyRequest.SetXForwarded) trust
// their addresses, all of them, and that field; what stands to the left of what they wrote
// is the client's own invention, and is not looked at. Behind those that put one address
// into a field of their own, overwriting the client's (CF-Connecting-IP of Cloudflare,
// Fly-Client-IP of Fly.io, X-Real-IP of nginx with $remote_addr), name that field; a proxy
// that passes on what the client sent there lets the client choose. Never trust addresses
// from which clients can reach the server past the proxy, such as all of 10.0.0.0/8 in a
// network that is not all yours.
//
// # Keys that clients make
//
// A client with many addresses makes many partitions. partition.Options.MaxPartitions
// bounds them, and Overflow is the limit that is shared by those that find no room.
func ByIP(o IPOptions) func(*http.Request) netip.Prefix {
	v4, v6 := bits("V4Bits", o.V4Bits, 32, 32), bits("V6Bits", o.V6Bits, 64, 128)
	trusted := make([]netip.Prefix, 0, len(o.Trusted))
	for _, p := range o.Trusted {
		trusted = append(trusted, unmap(p))
	}
	name := textproto.CanonicalMIMEHeaderKey(o.Header)
	if name == "" {
		name = "X-Forwarded-For"
	}
	f := finder{trusted, name}
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

// unmap returns the IPv4 prefix that stands inside an IPv6 one.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// finder finds out a client's address. The zero Addr stands for what cannot be made out.
type finder struct {
	trusted []netip.Prefix
	header  string // in its canonical spelling
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
	if !f.trusts(peer) {
		return peer
	}
	lines := r.Header[f.header]
	client, found := peer, false
	switch f.header {
	case "X-Forwarded-For":
		client, found = f.walk(lines, lastComma)
	case "Forwarded":
		client, found = f.walk(lines, lastElement)
	default:
		if len(lines) > 0 {
			if last := strings.Trim(lines[len(lines)-1], " \t"); last != "" {
				client, found = address(last), true
			}
		}
	}
	if !found {
		return peer
	}
	return client
}

// walk goes from the right over the entries of all lines, up to the first address that is
// not trusted. It reports false if there is none at all. cut takes the last entry off a
// line; of an entry that holds no address it is not ok.
func (f finder) walk(lines []string, cut func(string) (rest, entry string, ok bool)) (client netip.Addr, found bool) {
	for _, line := range slices.Backward(lines) {
		for rest := line; rest != ""; {
			var entry string
			var ok bool
			rest, entry, ok = cut(rest)
			if !ok {
				return netip.Addr{}, true
			}
			if entry == "" {
				continue
			}
			client, found = address(entry), true
			if !f.trusts(client) { // the zero Addr is not
				return client, true
			}
		}
	}
	return client, found
}

// lastComma cuts X-Forwarded-For.
func lastComma(line string) (rest, entry string, ok bool) {
	i := strings.LastIndexByte(line, ',')
	return line[:max(i, 0)], strings.Trim(line[i+1:], " \t"), true
}

// address reads an address, with or without a port, brackets or a zone.
func address(s string) netip.Addr {
	if a, ok := quad(s); ok {
		return a
	}
	host := s
	switch {
	case strings.HasPrefix(s, "["):
		end := strings.IndexByte(s, ']')
		if end < 0 || !port(s[end+1:]) {
			return netip.Addr{}
		}
		if host = s[1:end]; !strings.Contains(host, ":") {
			return netip.Addr{} // brackets are for IPv6
		}
	case strings.Count(s, ":") == 1:
		i := strings.IndexByte(s, ':')
		if !port(s[i:]) {
			return netip.Addr{}
		}
		host = s[:i]
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// quad reads what most peers are, an IPv4 address and a port, in one go. What is not ok may
// still be an address.
func quad(s string) (netip.Addr, bool) {
	var octets [4]byte
	i := 0
	for n := range octets {
		begin, value := i, 0
		for ; i < len(s) && digit(s[i]) && i < begin+3; i++ {
			value = 10*value + int(s[i]-'0')
		}
		if i == begin || value > 255 || s[begin] == '0' && i > begin+1 {
			return netip.Addr{}, false
		}
		octets[n] = byte(value)
		separator := byte('.')
		if n == 3 {
			separator = ':'
		}
		if i == len(s) || s[i] != separator {
			return netip.Addr{}, false
		}
		i++
	}
	if !digits(s[i:]) {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4(octets), true
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
