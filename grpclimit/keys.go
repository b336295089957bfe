package grpclimit

import (
	"net/netip"
	"strings"

	"google.golang.org/grpc/credentials"

	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/clientip"
	"github.com/sluice-go/sluice/internal/limit/policy"
)

// ByPeer returns a key function that returns the client's address, as a prefix. As in [httplimit.ByIP],
// that is the peer's address, or the one that trusted proxies send in the metadata named o.Header. All
// peers without an IP address, such as those on a unix socket, share one partition, whose key is the
// zero Prefix. ByPeer panics if the bits are out of range.
func ByPeer(o httplimit.IPOptions) func(*Call) netip.Prefix {
	f := clientip.New(clientip.Options(o))
	name := strings.ToLower(f.Header)
	return func(c *Call) netip.Prefix {
		remote := ""
		if c.Peer != nil {
			remote = c.Peer.String()
		}
		return f.Key(remote, c.Metadata[name])
	}
}

// ByMetadata returns a key function that returns the first value of the call's metadata with this name,
// or "" if there is none. The case of the name does not matter. A value of more than 64 bytes is
// replaced by its SHA-256, as "sha256:" and 64 hexadecimal digits, so that keys take little memory.
//
// Clients can choose the value, so such a limit is effective only after a check that the value is
// valid, for example of API keys.
func ByMetadata(name string) func(*Call) string {
	name = strings.ToLower(name)
	return func(c *Call) string { return policy.Key(c.Metadata[name]...) }
}

// ByMethod is a key function that returns the call's full method.
func ByMethod(c *Call) string { return c.FullMethod }

// ByIdentity is a key function that returns the identity in the client's TLS certificate: its SPIFFE ID,
// otherwise its first DNS name, otherwise its subject. Without a certificate it is "". ByIdentity does
// not verify certificates: the server must do so, for example with tls.RequireAndVerifyClientCert.
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
