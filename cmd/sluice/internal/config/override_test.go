package config_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
)

// policyOf returns the policy a of a file.
func policyOf(t *testing.T, text string) *config.Policy {
	t.Helper()
	c, err := config.Parse("f", []byte("policies:\n  a: "+text+"\nroutes: {'Shop.Example/x': a}\n"))
	require.NoError(t, err)
	return &c.Policies[0]
}

// found returns the limits of the override for a key as a request has it; "" if there is none.
func found(t *testing.T, p *config.Policy, texts ...string) string {
	t.Helper()
	values, err := p.Key.Values(texts)
	require.NoError(t, err)
	i, ok := p.Overrides.Find(values)
	if !ok {
		return ""
	}
	var limits []string
	for _, l := range p.Overrides.All[i].Limits {
		limits = append(limits, l.String())
	}
	return strings.Join(limits, ", ")
}

func TestOverrides(t *testing.T) {
	p := policyOf(t, `{key: "header:X-Api-Key", limit: 1/s, overrides: {acme: 2/s, health: unlimited, 7: [3/s, concurrency 4], "": 5/s, "a/b%": 6/s}}`)
	for key, want := range map[string]string{
		"acme": "2/s", "health": "unlimited", "7": "3/s, concurrency 4", "": "5/s", "a/b%": "6/s", "Acme": "", "a": "",
	} {
		assert.Equal(t, want, found(t, p, key), key)
	}
	long := strings.Repeat("k", 100)
	p = policyOf(t, `{key: "header:X-Api-Key", limit: 1/s, overrides: {`+long+`: 2/s}}`)
	assert.Equal(t, "2/s", found(t, p, long))
	p = policyOf(t, `{key: host, limit: 1/s, overrides: {Shop.Example: 2/s}}`)
	assert.Equal(t, "2/s", found(t, p, "SHOP.example.:8080"))
	p = policyOf(t, `{key: pattern, limit: 1/s, overrides: {Shop.Example/x: 2/s}}`)
	assert.Equal(t, "2/s", found(t, p, "shop.example/x"))
}

// TestOverriddenNetworks: an address counts before a network, and a narrow network before a wide one, in whatever order
// they are written. An address of IPv6 stands for its client's /64.
func TestOverriddenNetworks(t *testing.T) {
	p := policyOf(t, `
    key: ip
    limit: 1/s
    overrides:
      0.0.0.0/0: 9/s
      10.0.0.0/8: 2/s
      10.1.0.0/16: 3/s
      10.1.2.3: 4/s
      2001:db8::/32: 5/s
      2001:db8:1::7: 6/s
      '::ffff:192.0.2.0/120': 7/s
      '64:ff9b::198.51.100.0/120': 8/s`)
	for address, want := range map[string]string{
		"10.9.9.9": "2/s", "10.1.9.9": "3/s", "10.1.2.3": "4/s", "11.1.1.1": "9/s", "192.0.2.77": "7/s", "198.51.100.7": "8/s", "::ffff:10.1.2.3": "4/s",
		"2001:db8:2::1": "5/s", "2001:db8:1::1": "6/s", "2001:db9::": "",
	} {
		assert.Equal(t, want, found(t, p, address), address)
	}
	i, ok := p.Overrides.Find([]string{config.Client(netip.Prefix{})})
	assert.False(t, ok, "a client without an address is in no network, not in %d", i)
}

// TestOverriddenParts: an override is about the first part of a key, and no two keys are taken for each other.
func TestOverriddenParts(t *testing.T) {
	p := policyOf(t, `{key: ["header:X-Api-Key", path:1], limit: 1/s, overrides: {acme: 2/s, "a/b": 4/s}}`)
	for _, test := range []struct{ key, path, want string }{
		{"acme", "search", "2/s"},
		{"acme", "", "2/s"},
		{"a/b", "c", "4/s"},
		{"a", "b", ""},
		{"", "acme", ""},
	} {
		assert.Equal(t, test.want, found(t, p, test.key, test.path), "%v", test)
	}
	p = policyOf(t, `{key: [ip, "header:X"], limit: 1/s, overrides: {10.0.0.0/8: 2/s}}`)
	assert.Equal(t, "2/s", found(t, p, "10.9.9.9", "a"))
}

// TestKeysAsTheyAreWritten: a person's spelling leads to the key that requests have, or is an error.
func TestKeysAsTheyAreWritten(t *testing.T) {
	for _, test := range []struct{ key, texts, want string }{
		{"ip", "192.0.2.1", "192.0.2.1"},
		{"ip", "192.0.2.1/32", "192.0.2.1"},
		{"ip", "::ffff:192.0.2.1", "192.0.2.1"},
		{"ip", "2001:db8::1:2", "2001:db8::/64"},
		{"ip", "2001:db8::/64", "2001:db8::/64"},
		{"ip", "fe80::1%eth0", "fe80::/64"},
		{"ip", "64:ff9b::192.0.2.7", "192.0.2.7"},
		{"ip", "64:ff9b::192.0.2.0/120", ""},
		{"ip", "192.0.2.0/24", ""},
		{"ip", "2001:db8::/48", ""},
		{"ip", "2001:db8::/128", "2001:db8::/64"},
		{"ip", "client", ""},
		{"ip", "", ""},
		{"header:A", "a/b", "a/b"},
		{"header:A", "", ""},
		{"host", "H.Example:80", "h.example"},
		{"path:1", "a b", "a b"},
		{"[ip, 'header:A']", "192.0.2.1 a/b", "192.0.2.1/a%2Fb"},
		{"['header:A', path:1]", "a", ""},
	} {
		p := policyOf(t, "{limit: 1/s, key: "+test.key+"}")
		texts := strings.Split(test.texts, " ")
		if test.key == "path:1" {
			texts = []string{test.texts}
		}
		values, err := p.Key.Values(texts)
		if test.want == "" && test.key != "header:A" {
			require.Error(t, err, "%v", test)
			continue
		}
		require.NoError(t, err, "%v", test)
		assert.Equal(t, test.want, config.JoinKey(values), "%v", test)
	}
	_, err := config.Key{}.Values([]string{"a"})
	require.EqualError(t, err, "the policy has no key")
}

// FuzzJoinKey: no two keys of several parts have one text.
func FuzzJoinKey(f *testing.F) {
	f.Add("a/b", "c", "a", "b/c")
	f.Add("a%2Fb", "c", "a/b", "c")
	f.Add("", "/", "/", "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		one, other := []string{a, b}, []string{c, d}
		require.Equal(t, a == c && b == d, config.JoinKey(one) == config.JoinKey(other))
	})
}
