package httplimit

import (
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/sluice-go/sluice/internal/clientip"
	"github.com/sluice-go/sluice/internal/policy"
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
	f := clientip.New(clientip.Options(o))
	return func(r *http.Request) netip.Prefix { return f.Key(r.RemoteAddr, r.Header[f.Header]) }
}

// ByHeader returns a key function that returns the value of a header field: "" for a request
// without it, and the first value of several. A value of more than 64 bytes is replaced by its
// SHA-256, as "sha256:" and 64 hexadecimal digits, so that keys take little memory.
//
// Clients choose the value freely. A limit by it binds only clients that have to send the right
// value, as with API keys that were checked before.
func ByHeader(name string) func(*http.Request) string {
	name = textproto.CanonicalMIMEHeaderKey(name)
	if name == "Host" { // net/http keeps it elsewhere
		return func(r *http.Request) string { return policy.Key(r.Host) }
	}
	return func(r *http.Request) string {
		if values := r.Header[name]; len(values) > 0 {
			return policy.Key(values[0])
		}
		return ""
	}
}

// ByPattern is a key function that returns the pattern of the [http.ServeMux] that the request has
// come through. In a handler around the mux there is none yet, and the key is "".
func ByPattern(r *http.Request) string { return r.Pattern }

// ByHost is a key function that returns the host that a client's request goes to, in lower case,
// with the port unless it is the scheme's own: 80 for http, 443 for https.
func ByHost(r *http.Request) string {
	u := r.URL
	if u == nil || u.Host == "" {
		u = &url.URL{Host: r.Host}
		if r.URL != nil {
			u.Scheme = r.URL.Scheme
		}
	}
	host, port := strings.ToLower(u.Host), u.Port()
	if bare := strings.TrimSuffix(host, ":"+port); port == "" || port == ownPort(u.Scheme) {
		return strings.TrimSuffix(bare, ":")
	}
	return host
}

func ownPort(scheme string) string {
	switch strings.ToLower(scheme) {
	case "http", "ws":
		return "80"
	case "https", "wss":
		return "443"
	}
	return ""
}
