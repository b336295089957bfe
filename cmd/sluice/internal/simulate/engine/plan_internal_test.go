package engine

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/accesslog"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAddressIsTheProxys: clients of a log have the key that the proxy gives to the peers of its connections.
func TestAddressIsTheProxys(t *testing.T) {
	byIP := httplimit.ByIP(httplimit.IPOptions{})
	for _, client := range []string{
		"192.0.2.1", "192.0.2.1:8080", "2001:db8::1", "2001:db8:0:0:1:2:3:4", "[2001:db8::1]:443", "2001:db8::1%eth0", "::ffff:192.0.2.1", "64:ff9b::192.0.2.1", "::", "0.0.0.0",
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

// TestRejectedRequestsCostNothing: what the earlier limits of a request have granted is returned if a later one rejects it.
func TestRejectedRequestsCostNothing(t *testing.T) {
	both, err := Of(spec.Limits{limitOf(t, "fixed 2/1h")}, "")
	require.NoError(t, err)
	other, err := NewRule(limitOf(t, "fixed 1/1h"))
	require.NoError(t, err)
	both.Route = func(r *accesslog.Record) []*Rule {
		if string(r.Path) == "/other" {
			return []*Rule{both.Rules[0], other}
		}
		return both.Rules
	}
	var made []decision
	pl := playerOf(1, &made)
	for at, path := range []string{"/other", "/other", "/", "/"} {
		q := both.Request(&accesslog.Record{At: int64(at), Path: []byte(path)})
		pl.Play(&q)
	}
	pl.Finish()
	granted := make([]bool, len(made))
	for i, d := range made {
		granted[i] = d.granted
	}
	assert.Equal(t, []bool{true, false, true, false}, granted)
}

// TestShadowedRequestsCostNothing: nor does a policy in shadow that would have rejected a request.
func TestShadowedRequestsCostNothing(t *testing.T) {
	p, err := Of(spec.Limits{limitOf(t, "fixed 2/1h")}, "")
	require.NoError(t, err)
	other, err := NewRule(limitOf(t, "fixed 1/1h"))
	require.NoError(t, err)
	other.First = false
	p.Rules = append(p.Rules, other)
	p.Rules[0].Shadow, p.Rules[1].Shadow = true, true
	stats := Stats{PerKey: true}
	pl := NewPlayer(&stats, Scaled(1))
	for range 3 {
		q := p.Request(&accesslog.Record{})
		pl.Play(&q)
	}
	pl.Finish()
	assert.Equal(t, 3, stats.Granted)
	assert.Equal(t, []int{0, 2}, []int{stats.Keys[0].Rejected, stats.Keys[1].Rejected})
}

func TestScaled(t *testing.T) {
	for _, test := range []struct{ limit, half, twice string }{
		{"100/s", "50/s", "200/s"},
		{"5/s", "5/2s", "10/s"},
		{"1/s", "1/2s", "2/s"},
		{"5/s burst 3 queue 7", "5/2s burst 1 queue 7", "10/s burst 6 queue 7"},
		{"sliding 5/1m", "sliding 2/1m", "sliding 10/1m"},
		{"fixed 1/1h", "fixed 1/1h", "fixed 2/1h"},
		{"concurrency 5 queue 2", "concurrency 2 queue 2", "concurrency 10 queue 2"},
		{"unlimited", "unlimited", "unlimited"},
	} {
		l := limitOf(t, test.limit)
		assert.Equal(t, limitOf(t, test.half), Scaled(0.5)(l), test.limit)
		assert.Equal(t, limitOf(t, test.twice), Scaled(2)(l), test.limit)
		assert.Equal(t, l, Scaled(1)(l), test.limit)
	}
}
