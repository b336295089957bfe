package clientip_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/clientip"
)

// The syntaxes of the fields are tested by httplimit.ByIP.
func TestClient(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::ffff:192.0.2.0/120")}
	f := clientip.New(clientip.Options{Trusted: trusted})
	require.Equal(t, "X-Forwarded-For", f.Header)
	require.Equal(t, "X-Real-Ip", clientip.New(clientip.Options{Header: "x-real-ip"}).Header)
	client := func(remote string, lines ...string) string { return f.Client(remote, lines).String() }
	require.Equal(t, "198.51.100.1", client("198.51.100.1:80", "203.0.113.9"), "a peer that is not trusted")
	require.Equal(t, "203.0.113.9", client("10.1.2.3:80", "1.1.1.1", "203.0.113.9, 192.0.2.7"))
	require.Equal(t, "10.1.2.3", client("10.1.2.3:80"))
	require.Equal(t, "invalid IP", client("10.1.2.3:80", "unknown"))
	require.Equal(t, "invalid IP", client("@", "203.0.113.9"))
	require.Equal(t, "203.0.113.9", clientip.New(clientip.Options{Trusted: []netip.Prefix{{}}}).Client("@", []string{"203.0.113.9"}).String())
}

func TestKey(t *testing.T) {
	f := clientip.New(clientip.Options{V4Bits: 24})
	require.Equal(t, "192.0.2.0/24", f.Key("192.0.2.7:80", nil).String())
	require.Equal(t, "2001:db8::/64", f.Key("[2001:db8::7]:80", nil).String())
	require.Equal(t, netip.Prefix{}, f.Key("", nil))
	require.PanicsWithValue(t, "httplimit: IPOptions.V6Bits = 129, want 1 to 128, or 0 for 64", func() {
		clientip.New(clientip.Options{V6Bits: 129})
	})
}
