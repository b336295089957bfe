package grpclimit_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/sluice-go/sluice/grpclimit"
	"github.com/sluice-go/sluice/httplimit"
)

func TestByPeer(t *testing.T) {
	plain := grpclimit.ByPeer(httplimit.IPOptions{})
	proxied := grpclimit.ByPeer(httplimit.IPOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	peer := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 5}
	md := metadata.Pairs("x-forwarded-for", "1.2.3.4, 10.0.0.2", "x-forwarded-for", "10.0.0.3")
	require.Equal(t, "10.0.0.1/32", plain(&grpclimit.Call{Peer: peer, Metadata: md}).String())
	require.Equal(t, "1.2.3.4/32", proxied(&grpclimit.Call{Peer: peer, Metadata: md}).String())
	v6 := &net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Zone: "eth0"}
	require.Equal(t, "2001:db8::/64", plain(&grpclimit.Call{Peer: v6}).String())
	require.Equal(t, netip.Prefix{}, plain(&grpclimit.Call{}))
	require.Equal(t, netip.Prefix{}, plain(&grpclimit.Call{Peer: &net.UnixAddr{Name: "/run/x"}}))
	require.Panics(t, func() { grpclimit.ByPeer(httplimit.IPOptions{V4Bits: 33}) })
}

func TestByMetadata(t *testing.T) {
	key := grpclimit.ByMetadata("X-Api-Key")
	require.Empty(t, key(&grpclimit.Call{}))
	require.Equal(t, "a", key(&grpclimit.Call{Metadata: metadata.Pairs("x-api-key", "a", "x-api-key", "b")}))
	long := key(&grpclimit.Call{Metadata: metadata.Pairs("x-api-key", strings.Repeat("a", 1000))})
	require.Len(t, long, len("sha256:")+64)
}

func TestByIdentity(t *testing.T) {
	certificate := func(c x509.Certificate) tls.ConnectionState {
		return tls.ConnectionState{PeerCertificates: []*x509.Certificate{&c}}
	}
	spiffe := &url.URL{Scheme: "spiffe", Host: "shop", Path: "/search"}
	subject := pkix.Name{CommonName: "alice"}
	for name, test := range map[string]struct {
		auth credentials.AuthInfo
		want string
	}{
		"none":           {nil, ""},
		"nil":            {(*credentials.TLSInfo)(nil), ""},
		"no certificate": {credentials.TLSInfo{}, ""},
		"SPIFFE":         {credentials.TLSInfo{SPIFFEID: spiffe, State: certificate(x509.Certificate{DNSNames: []string{"a"}})}, "spiffe://shop/search"},
		"DNS name":       {credentials.TLSInfo{State: certificate(x509.Certificate{DNSNames: []string{"a", "b"}, Subject: subject})}, "a"},
		"subject":        {&credentials.TLSInfo{State: certificate(x509.Certificate{Subject: subject})}, "CN=alice"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, grpclimit.ByIdentity(&grpclimit.Call{Auth: test.auth}))
		})
	}
}

func TestHealthAndReflection(t *testing.T) {
	for method, want := range map[string]bool{
		"/grpc.health.v1.Health/Check":                                   true,
		"/grpc.health.v1.Health/Watch":                                   true,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      true,
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": true,
		"/grpc.health.v1.Healthy/Check":                                  false,
		"/shop.v1.Search/Get":                                            false,
		"":                                                               false,
	} {
		require.Equal(t, want, grpclimit.HealthAndReflection(&grpclimit.Call{FullMethod: method}), method)
	}
}

func TestInvalidOptions(t *testing.T) {
	_, err := grpclimit.New(grpclimit.Options{Policies: []grpclimit.Policy{
		{Name: "a b", Limiter: grpclimit.Shared(bucket(t, 1, 1))},
		{Name: "a", Methods: []string{"/s/m", "/s/*", "*", "s/m", "/s", "/*/m", "/s/m/x", ""}},
		{Name: "a", Limiter: grpclimit.Shared(bucket(t, 1, 1)), Code: 17},
	}})
	for _, want := range []string{
		`Options.Policies[0].Name = "a b", want ASCII`,
		`Options.Policies[1].Methods has "s/m", want`, `has "/s", want`, `has "/*/m", want`, `has "/s/m/x", want`, `has "", want`,
		`Options.Policies[1].Limiter = nil`, `Options.Policies[2].Name = "a", want a name that no other policy has`, `Options.Policies[2].Code = 17`,
	} {
		require.ErrorContains(t, err, want)
	}
}
