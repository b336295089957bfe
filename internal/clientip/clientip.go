// Package clientip finds the address of a client, which may be behind trusted proxies.
package clientip

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
)

// Options are httplimit.IPOptions.
type Options struct {
	Trusted        []netip.Prefix
	Header         string
	V4Bits, V6Bits int
}

// Finder finds a client's address. Create it with [New]; it is safe for concurrent use.
type Finder struct {
	Header string // the header in which the proxies name the client, in canonical form

	trusted    []netip.Prefix
	trustsUnix bool // whether peers without an address, such as those on a unix socket, are trusted
	v4, v6     int  // bits of a key
}

// New returns a Finder. It panics if the bits are out of range.
func New(o Options) *Finder {
	f := &Finder{
		Header: textproto.CanonicalMIMEHeaderKey(o.Header),
		v4:     bits("V4Bits", o.V4Bits, 32, 32),
		v6:     bits("V6Bits", o.V6Bits, 64, 128),
	}
	if f.Header == "" {
		f.Header = "X-Forwarded-For"
	}
	for _, p := range o.Trusted {
		f.trusted = append(f.trusted, unmap(p))
	}
	f.trustsUnix = slices.Contains(f.trusted, netip.Prefix{})
	return f
}

func bits(field string, n, byDefault, limit int) int {
	if n == 0 {
		return byDefault
	}
	if n < 0 || n > limit {
		panic(fmt.Sprintf("httplimit: IPOptions.%s = %d, want 1 to %d, or 0 for %d", field, n, limit, byDefault))
	}
	return n
}

// unmap converts an IPv4 prefix inside an IPv6 one to IPv4.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// translated are the addresses that a translator to IPv6 gives to IPv4 clients (RFC 6052).
var translated = netip.MustParsePrefix("64:ff9b::/96")

// Translate returns the IPv4 address of a client that a translator has given an address of 64:ff9b::/96. It returns
// other addresses unchanged.
func Translate(a netip.Addr) netip.Addr {
	if !translated.Contains(a) {
		return a
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// Key returns the client's address as a prefix, or the zero Prefix if it cannot be parsed. Trusted networks are
// compared with the address before Translate.
func (f *Finder) Key(remote string, lines []string) netip.Prefix {
	a := Translate(f.Client(remote, lines))
	n := f.v6
	if a.Is4() {
		n = f.v4
	}
	p, err := a.Prefix(n)
	if err != nil { // the zero Addr
		return netip.Prefix{}
	}
	return p
}

func (f *Finder) trusts(a netip.Addr) bool {
	for _, p := range f.trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// TrustsPeer reports whether remote is the address of a trusted proxy.
func (f *Finder) TrustsPeer(remote string) bool { return f.trusts(address(remote)) }

// Client returns the address of the client of a connection from remote that has sent these lines of the header. It
// returns the zero Addr for an address that cannot be parsed.
func (f *Finder) Client(remote string, lines []string) netip.Addr {
	peer := address(remote)
	if !f.trusts(peer) && (peer.IsValid() || !f.trustsUnix) {
		return peer
	}
	switch f.Header {
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

// syntax is the syntax of a header's entries.
type syntax uint8

const (
	listed    syntax = iota // X-Forwarded-For: addresses
	forwarded               // Forwarded: elements of pairs, whose values may be quoted
)

// maxEntries is more than any chain of proxies has. A client must not make the server parse more addresses.
const maxEntries = 100

// walk returns the rightmost address of all lines that is not trusted, or the zero Addr if that entry is not an
// address. If all are trusted, it returns the leftmost one, or the zero Addr if there are too many. Without any
// entries it returns the peer.
func (f *Finder) walk(peer netip.Addr, lines []string, s syntax) netip.Addr {
	n := 0 // number of entries from the next one on
	for _, line := range lines {
		for more := true; more; n++ {
			_, line, more = cut(line, s)
		}
	}
	client, found := peer, false
	if n > maxEntries {
		client, found = netip.Addr{}, true
	}
	for _, line := range lines {
		for more := true; more; n-- {
			var entry string
			entry, line, more = cut(line, s)
			if n > maxEntries {
				continue
			}
			ok := true
			if s == forwarded {
				entry, ok = forNode(entry)
			}
			if ok && entry == "" {
				continue
			}
			if a := address(entry); !found || !f.trusts(a) { // the zero Addr is not trusted
				client, found = a, true
			}
		}
	}
	return client
}

// cut cuts the first entry off a line, and reports whether there is another. Quotes can be matched only from the
// left, where a client may have written one too many. In that case they do not match at the end either, and the last
// entry is invalid.
func cut(line string, s syntax) (entry, rest string, more bool) {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"' && s == forwarded:
			quoted = !quoted
		case c == ',' && !quoted:
			return strings.Trim(line[:i], " \t"), line[i+1:], true
		}
	}
	return strings.Trim(line, " \t"), "", false
}

// address parses an address, with or without a port, brackets or a zone.
func address(s string) netip.Addr {
	host, colon := s, strings.IndexByte(s, ':')
	switch {
	case strings.HasPrefix(s, "["):
		end := strings.IndexByte(s, ']')
		if end < 0 || !port(s[end+1:]) {
			return netip.Addr{}
		}
		if host = s[1:end]; !strings.Contains(host, ":") {
			return netip.Addr{} // only IPv6 has brackets
		}
	case colon >= 0 && colon == strings.LastIndexByte(s, ':'): // IPv6 has at least two colons
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

// port reports whether s is empty, or a colon followed by a port or by one of RFC 7239's obfuscated ports.
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
