package httplimit

import (
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/sluice-go/sluice/internal/clientip"
	"github.com/sluice-go/sluice/internal/limit/policy"
)

// IPOptions are for [ByIP].
type IPOptions struct {
	// Trusted are the addresses of the proxies whose Header is trusted, such as your load balancers.
	// The zero Prefix trusts peers without an address, such as those on a unix socket. If Trusted
	// is empty, the client is the peer, and Header is ignored.
	Trusted []netip.Prefix

	// Header is the header in which the proxies name the client: "X-Forwarded-For", which is the
	// default, "Forwarded" (RFC 7239), or a header with a single address, such as "X-Real-IP".
	Header string

	// V4Bits and V6Bits are the number of bits of an address that form the key, 1 to 32 and 1 to
	// 128. 0 means 32 and 64, because every home can choose from a /64 of IPv6 addresses or more.
	V4Bits, V6Bits int
}

// ByIP returns a key function that returns the client's address, as a prefix. IPv4 inside IPv6 is
// IPv4, also in 64:ff9b::/96, in which NAT64 and SIIT put IPv4 clients. Zones are dropped. If the bits
// are out of range, ByIP panics.
//
// The address is the peer's, Request.RemoteAddr, unless the peer is trusted. In that case it is the
// rightmost address in Header that is not trusted. If all addresses are trusted, it is the leftmost;
// if there is no such header, it is the peer's. If the result is not an address, or if Header has a
// hundred entries or more to the right of it, the key is the zero Prefix, so all such requests share
// one partition.
//
// # Which header to trust
//
// If no proxy is in front of the server, trust none: leave Trusted empty.
//
// If your proxies append to X-Forwarded-For (nginx with $proxy_add_x_forwarded_for, HAProxy's option
// forwardfor, Envoy, AWS ALB, Google Cloud, Traefik, httputil.ProxyRequest.SetXForwarded), list the
// addresses of all of them in Trusted. Entries to the left of theirs may be forged by the client and
// are ignored.
//
// If your proxies set a header of their own to a single address (Cloudflare's CF-Connecting-IP,
// Fly.io's Fly-Client-IP, X-Real-IP of nginx with $remote_addr), set Header to it. The proxy must
// overwrite the header: if it passes on the client's, the client can choose its address.
//
// Do not trust addresses from which clients can bypass the proxy, such as all of 10.0.0.0/8 in a
// network that you share with others.
//
// # Clients with many addresses
//
// A client with many addresses creates many partitions. partition.Options.MaxPartitions bounds their
// number; requests of clients beyond it are rejected, unless partition.Options.Group gives such clients a limiter that
// they share.
func ByIP(o IPOptions) func(*http.Request) netip.Prefix {
	f := clientip.New(clientip.Options(o))
	return func(r *http.Request) netip.Prefix { return f.Key(r.RemoteAddr, r.Header[f.Header]) }
}

// ByHeader returns a key function that returns the value of a header: "" for a request without it,
// and the first one of several values. A value of more than 64 bytes is replaced by its SHA-256, as
// "sha256:" and 64 hexadecimal digits, so that keys take little memory.
//
// Clients can choose the value, so such a limit is effective only after a check that the value is
// valid, for example of API keys.
func ByHeader(name string) func(*http.Request) string {
	name = textproto.CanonicalMIMEHeaderKey(name)
	if name == "Host" { // net/http keeps it elsewhere
		return func(r *http.Request) string { return policy.Key(r.Host) }
	}
	return func(r *http.Request) string { return policy.Key(r.Header[name]...) }
}

// ByPattern is a key function that returns the pattern that the request has matched in an
// [http.ServeMux]. In a handler around the mux, the key is "", because nothing has matched yet.
func ByPattern(r *http.Request) string { return r.Pattern }

// ByHost is a key function that returns the host that a client's request goes to, in lower case,
// with the port unless it is the scheme's default: 80 for http, 443 for https.
func ByHost(r *http.Request) string {
	u := r.URL
	if u == nil || u.Host == "" {
		u = &url.URL{Host: r.Host}
		if r.URL != nil {
			u.Scheme = r.URL.Scheme
		}
	}
	host, port := strings.ToLower(u.Host), u.Port()
	if bare := strings.TrimSuffix(host, ":"+port); port == "" || port == defaultPort(u.Scheme) {
		return strings.TrimSuffix(bare, ":")
	}
	return host
}

func defaultPort(scheme string) string {
	switch strings.ToLower(scheme) {
	case "http", "ws":
		return "80"
	case "https", "wss":
		return "443"
	}
	return ""
}
