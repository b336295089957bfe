package engine

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/accesslog"
	"github.com/sluice-go/sluice/httplimit"
)

// TestAddressIsTheProxys: clients of a log have the key that the proxy gives to the peers of its connections.
func TestAddressIsTheProxys(t *testing.T) {
	byIP := httplimit.ByIP(httplimit.IPOptions{})
	for _, client := range []string{
		"192.0.2.1", "192.0.2.1:8080", "2001:db8::1", "2001:db8:0:0:1:2:3:4", "[2001:db8::1]:443", "2001:db8::1%eth0", "::ffff:192.0.2.1", "::", "0.0.0.0",
	} {
		p := byIP(&http.Request{RemoteAddr: client})
		want := p.String()
		if p.IsSingleIP() {
			want = p.Addr().String()
		}
		assert.Equal(t, want, string(addressOf(&accesslog.Record{Client: []byte(client)})), client)
	}
	for _, client := range []string{"", "-", "example.com", "192.0.2.256", "192.0.2.1:many", "[2001:db8::1", "alice"} {
		assert.False(t, byIP(&http.Request{RemoteAddr: client}).IsValid(), client)
		assert.Equal(t, client, string(addressOf(&accesslog.Record{Client: []byte(client)})))
	}
}

// TestRequestAllocates: a request whose cost is unknown, as most are, has its steps allocated and nothing else.
func TestRequestAllocates(t *testing.T) {
	p, err := Single(limitOf(t, "1/s"), "client")
	require.NoError(t, err)
	r := accesslog.Record{Client: []byte("192.0.2.1")}
	p.Request(&r) // the first of its client
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { p.Request(&r) }), 1.0)
}
