package config

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/route"
	"github.com/sluice-go/sluice/cmd/sluice/internal/yamlconf"
)

// Key says which requests share a limit: those of which all parts are the same. Without parts all requests do.
type Key []KeyPart

// KeyPart is a part of a key.
type KeyPart struct {
	Kind    KeyKind
	Name    string // name of a header, a cookie or a parameter; for KeyPath the segment as a text
	Segment int    // segment for KeyPath, from 1 on
}

// KeyKind says what a part of a key is, in the word of the file. A name follows some of them, as in header:NAME.
type KeyKind string

// The kinds.
const (
	KeyIP      KeyKind = "ip"
	KeyHost    KeyKind = "host"
	KeyPattern KeyKind = "pattern"
	KeyHeader  KeyKind = "header"
	KeyCookie  KeyKind = "cookie"
	KeyQuery   KeyKind = "query"
	KeyPath    KeyKind = "path"
)

// Client returns the value of KeyIP for a client's network, which has all bits of an IPv4 address and 64 of an IPv6 address. That of
// no network is "".
func Client(p netip.Prefix) string {
	switch {
	case !p.IsValid():
		return ""
	case p.IsSingleIP():
		return p.Addr().String()
	}
	return p.String()
}

// Text returns the value of any other kind. A long one is replaced by its hash: clients choose it.
func Text(value string) string { return cli.Short(value) }

// JoinKey returns one text for the values of a key's parts. Different values have different texts.
func JoinKey(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	escaped := make([]string, len(values))
	for i, v := range values {
		escaped[i] = url.PathEscape(v) // it escapes slashes
	}
	return strings.Join(escaped, "/")
}

// IsClientControlled reports whether clients choose the values of the part freely; they may be secrets.
func (p KeyPart) IsClientControlled() bool {
	return p.Kind == KeyHeader || p.Kind == KeyCookie || p.Kind == KeyQuery
}

// String returns the key as the file has it; "" without parts.
func (k Key) String() string {
	parts := make([]string, len(k))
	for i, p := range k {
		parts[i] = p.String()
	}
	return strings.Join(parts, ", ")
}

// String returns the part as the file has it.
func (p KeyPart) String() string {
	if p.Name == "" {
		return string(p.Kind)
	}
	return string(p.Kind) + ":" + p.Name
}

// Values returns the values of the parts of a key, as an operator writes them.
func (k Key) Values(texts []string) ([]string, error) {
	switch {
	case len(k) == 0:
		return nil, errors.New("the policy has no key")
	case len(texts) != len(k):
		return nil, fmt.Errorf("want a value for each part of the key: %s", k)
	}
	values := make([]string, len(k))
	for i, p := range k {
		var err error
		if values[i], err = p.value(texts[i]); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// value returns the value that an operator has written.
func (p KeyPart) value(text string) (string, error) {
	switch p.Kind {
	case KeyIP:
		n, err := parseClients(text)
		if err != nil || !isClient(n) {
			return "", fmt.Errorf("%q is not the address of a client", text)
		}
		return Client(n), nil
	case KeyHost:
		host, ok := cli.HostOf(text)
		if !ok {
			return "", fmt.Errorf("%q is not a host", text)
		}
		return host, nil
	case KeyPattern:
		return route.Pattern(text)
	case KeyPath:
		if strings.Contains(text, "/") {
			return "", fmt.Errorf("%q is not one segment of a path", text)
		}
	}
	return p.Read(text)
}

const clientBits6 = 64 // bits of an IPv6 address that identify a client

// translated is the network in which NAT64 and SIIT put IPv4 clients. The key ip of such a client is its IPv4 address.
var translated = netip.MustParsePrefix("64:ff9b::/96")

// parseClients is like ParseNetwork, but for clients: a part of an IPv6 network that is one client's stands for that
// client, and a part of translated for its IPv4 addresses.
func parseClients(text string) (netip.Prefix, error) {
	n, err := ParseNetwork(text)
	if translated.Contains(n.Addr()) && n.Bits() >= translated.Bits() {
		b := n.Addr().As16()
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(b[12:])), n.Bits()-translated.Bits()), err
	}
	if n.Addr().Is6() && n.Bits() > clientBits6 {
		n = netip.PrefixFrom(n.Addr(), clientBits6).Masked()
	}
	return n, err
}

// isClient reports whether a network of parseClients is one client's.
func isClient(n netip.Prefix) bool {
	return n.IsSingleIP() || n.Addr().Is6() && n.Bits() == clientBits6
}

// read reads the parts of a field, which is key or flow.
func (k *Key) read(n yamlconf.Node, field string) {
	items := n.Items()
	if len(items) == 0 {
		n.Fault("%s is empty, want %s", field, wantKey)
	}
	for _, item := range items {
		part, ok := readKeyPart(field, item)
		switch {
		case !ok:
		case slices.Contains(*k, part):
			item.Fault("%s has %s twice", field, part)
		default:
			*k = append(*k, part)
		}
	}
}

const (
	wantKey     = "ip, header:NAME, cookie:NAME, query:NAME, host, pattern or path:N, or a list of them"
	maxSegments = 100
)

func readKeyPart(field string, n yamlconf.Node) (part KeyPart, ok bool) {
	text, ok := n.Text(field)
	if !ok {
		return part, false
	}
	kind, name, named := strings.Cut(text, ":")
	part = KeyPart{Kind: KeyKind(kind), Name: name}
	want := wantKey
	switch ok = false; part.Kind {
	case KeyIP, KeyHost, KeyPattern:
		ok = !named
	case KeyHeader:
		part.Name = http.CanonicalHeaderKey(name)
		if instead := map[string]string{"Host": "host", "Cookie": "cookie:NAME"}[part.Name]; instead != "" {
			n.Fault("%s is %q, whose value can be spelled in many ways; use %s: %s", field, text, field, instead)
			return part, false
		}
		ok = isToken(name)
	case KeyCookie:
		ok = isToken(name)
	case KeyQuery:
		ok = name != ""
	case KeyPath:
		var err error
		part.Segment, err = strconv.Atoi(name)
		part.Name = strconv.Itoa(part.Segment)
		ok, want = err == nil && part.Segment >= 1 && part.Segment <= maxSegments, "the number of a segment, such as path:1"
	}
	if !ok {
		n.Fault("%s is %q, want %s", field, text, want)
	}
	return part, ok
}

// isToken reports whether a header or a cookie may be called so.
func isToken(name string) bool {
	return name != "" && strings.Trim(name, letters+"!#$%&'*+-.^_`|~") == ""
}
