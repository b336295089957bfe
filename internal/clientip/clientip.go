// Package clientip finds the address of a client, which may be behind proxies that are trusted to name
// it.
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

// Finder finds a client's address. Use [New] to create one; it is safe for concurrent use.
type Finder struct {
	Header string // the field in which the proxies name the client, in canonical form

	trusted  []netip.Prefix
	nameless bool // peers without an address are trusted
	v4, v6   int  // bits of a key
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
	f.nameless = slices.Contains(f.trusted, netip.Prefix{})
	return f
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

// Key returns the client's address as a prefix; the zero Prefix if it cannot be read.
func (f *Finder) Key(remote string, lines []string) netip.Prefix {
	a := f.Client(remote, lines)
	n := f.v6
	if a.Is4() {
		n = f.v4
	}
	p, err := a.Prefix(n)
	if err != nil { // the zero Addr's
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

// TrustsPeer reports whether a connection from remote is one of a proxy that is trusted.
func (f *Finder) TrustsPeer(remote string) bool { return f.trusts(address(remote)) }

// Client returns the address of the client of a connection from remote, which has sent the lines of
// the field. An address that cannot be read is the zero Addr.
func (f *Finder) Client(remote string, lines []string) netip.Addr {
	peer := address(remote)
	if !f.trusts(peer) && (peer.IsValid() || !f.nameless) {
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

// syntax is how the entries of a field are written.
type syntax uint8

const (
	listed    syntax = iota // X-Forwarded-For: addresses
	forwarded               // Forwarded: elements of pairs, of which some are quoted
)

// No chain of proxies is as long. A client must not make the server read more addresses.
const maxEntries = 100

// walk returns the right-most address of all lines that is not trusted, or the zero Addr in its place. If all
// are trusted it returns the left-most one, or the zero Addr if there are too many; without any, the peer.
func (f *Finder) walk(peer netip.Addr, lines []string, s syntax) netip.Addr {
	n := 0 // entries, from the one that is next
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

// cut cuts the first entry off a line, and reports whether there is another. Quotes can be matched only from
// the left. What a client wrote there may have a quote too many, but then the quotes do not match in the end, and
// the last entry shows it.
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
