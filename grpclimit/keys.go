package grpclimit

import (
	"net/http"
	"net/netip"
	"strings"

	"google.golang.org/grpc/credentials"

	"github.com/sluice-go/sluice/httplimit"
)

// ByPeer returns a key function: the client's address, as a prefix. It finds it as
// [httplimit.ByIP] does: the peer's address, or behind trusted proxies the one that they tell in
// the metadata of o.Header. A peer that is no IP address, as on a unix socket, is the zero Prefix:
// one partition for all of them. Bits that are out of range make ByPeer panic.
func ByPeer(o httplimit.IPOptions) func(*Call) netip.Prefix {
	key := httplimit.ByIP(o)
	name := o.Header
	if name == "" {
		name = "X-Forwarded-For"
	}
	return func(c *Call) netip.Prefix {
		var r http.Request
		if c.Peer != nil {
			r.RemoteAddr = c.Peer.String()
		}
		if len(o.Trusted) > 0 {
			r.Header = make(http.Header, 1)
			for _, line := range c.Metadata.Get(name) {
				r.Header.Add(name, line)
			}
		}
		return key(&r)
	}
}

// ByMetadata returns a key function: the first value of the call's metadata of that name, in any
// case of letters; "" if there is none. What is longer than 64 bytes is hashed, so that clients
// cannot fill the memory with keys.
func ByMetadata(name string) func(*Call) string {
	name = strings.ToLower(name)
	key := httplimit.ByHeader(name)
	return func(c *Call) string {
		values := c.Metadata[name]
		if len(values) == 0 {
			return ""
		}
		r := http.Request{Header: make(http.Header, 1)}
		r.Header.Set(name, values[0])
		return key(&r)
	}
}

// ByMethod is a key function: the call's full method.
func ByMethod(c *Call) string { return c.FullMethod }

// ByIdentity is a key function: who the client's TLS certificate says that it is. That is its SPIFFE
// ID, else its first DNS name, else its subject; "" without a certificate. The server must verify
// certificates (tls.RequireAndVerifyClientCert, or a check of its own): ByIdentity does not.
func ByIdentity(c *Call) string {
	var info credentials.TLSInfo
	switch auth := c.Auth.(type) {
	case credentials.TLSInfo:
		info = auth
	case *credentials.TLSInfo:
		if auth == nil {
			return ""
		}
		info = *auth
	default:
		return ""
	}
	if info.SPIFFEID != nil {
		return info.SPIFFEID.String()
	}
	if len(info.State.PeerCertificates) == 0 {
		return ""
	}
	leaf := info.State.PeerCertificates[0]
	if len(leaf.DNSNames) > 0 {
		return leaf.DNSNames[0]
	}
	return leaf.Subject.String()
}
