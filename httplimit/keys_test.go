package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/httplimit"
)

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

// none is the zero Prefix, as text.
const none = "invalid Prefix"

func TestByIPOfThePeer(t *testing.T) {
	key := httplimit.ByIP(httplimit.IPOptions{})
	wide := httplimit.ByIP(httplimit.IPOptions{V4Bits: 24, V6Bits: 128})
	for peer, want := range map[string][2]string{
		"192.0.2.7:1234":          {"192.0.2.7/32", "192.0.2.0/24"},
		"192.0.2.7":               {"192.0.2.7/32", "192.0.2.0/24"},
		"[2001:db8::1:2]:80":      {"2001:db8::/64", "2001:db8::1:2/128"},
		"2001:db8::1:2":           {"2001:db8::/64", "2001:db8::1:2/128"},
		"[2001:db8::1:2]":         {"2001:db8::/64", "2001:db8::1:2/128"},
		"[fe80::1%eth0]:80":       {"fe80::/64", "fe80::1/128"},
		"[::ffff:192.0.2.7]:1234": {"192.0.2.7/32", "192.0.2.0/24"},
		"[64:ff9b::192.0.2.7]:80": {"192.0.2.7/32", "192.0.2.0/24"},
		"64:ff9b::c000:208":       {"192.0.2.8/32", "192.0.2.0/24"},
		"64:ff9b::1:c000:208":     {"64:ff9b::/64", "64:ff9b::1:c000:208/128"},
		"64:ff9b:1::192.0.2.7":    {"64:ff9b:1::/64", "64:ff9b:1::c000:207/128"},
		"localhost:80":            {none, none},
		"1.2.3.4:":                {none, none},
		"1.2.3.4:x":               {none, none},
		"[1.2.3.4]:80":            {none, none},
		"[::1":                    {none, none},
		"[::1]80":                 {none, none},
		"[::1]:80:80":             {none, none},
		"0.0.0.0:0":               {"0.0.0.0/32", "0.0.0.0/24"},
		"255.255.255.255:65535":   {"255.255.255.255/32", "255.255.255.0/24"},
		"1.2.3.4:-1":              {none, none},
	} {
		r := &http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": {"8.8.8.8"}}}
		require.Equal(t, want, [2]string{key(r).String(), wide(r).String()}, "%q", peer)
	}
	require.False(t, key(&http.Request{}).IsValid(), "a request that no server made")
}

func TestByIPBitsOutOfRange(t *testing.T) {
	for _, o := range []httplimit.IPOptions{{V4Bits: -1}, {V4Bits: 33}, {V6Bits: -1}, {V6Bits: 129}} {
		require.Panics(t, func() { httplimit.ByIP(o) })
	}
}

func TestByIPBehindProxies(t *testing.T) {
	for _, c := range []struct {
		name   string
		header string
		peer   string
		lines  []string
		want   string
	}{
		{"not trusted", "", "203.0.113.9:1", []string{"8.8.8.8"}, "203.0.113.9/32"},
		{"no field", "", "10.0.0.1:1", nil, "10.0.0.1/32"},
		{"empty", "", "10.0.0.1:1", []string{"", " , ,"}, "10.0.0.1/32"},
		{"spoofed", "", "10.0.0.1:1", []string{"1.1.1.1, 8.8.8.8"}, "8.8.8.8/32"},
		{"lines", "", "10.0.0.1:1", []string{"1.1.1.1", "8.8.8.8", "10.0.0.2"}, "8.8.8.8/32"},
		{"all trusted", "", "10.0.0.1:1", []string{"10.0.0.3", "10.0.0.4,10.0.0.2"}, "10.0.0.3/32"},
		{"empty ones", "", "10.0.0.1:1", []string{"1.1.1.1,8.8.8.8 ,, ,10.0.0.2,", ""}, "8.8.8.8/32"},
		{"ports", "", "10.0.0.1:1", []string{"8.8.8.8:99, 10.0.0.2:80"}, "8.8.8.8/32"},
		{"brackets", "", "10.0.0.1:1", []string{"[2001:db8::1]:99"}, "2001:db8::/64"},
		{"brackets without a port", "", "10.0.0.1:1", []string{"[2001:db8::1]"}, "2001:db8::/64"},
		{"bare IPv6", "", "10.0.0.1:1", []string{"2001:db8::1%eth0"}, "2001:db8::/64"},
		{"mapped peer", "", "[::ffff:10.0.0.1]:1", []string{"::ffff:8.8.8.8"}, "8.8.8.8/32"},
		{"translated", "", "10.0.0.1:1", []string{"64:ff9b::8.8.8.8"}, "8.8.8.8/32"},
		{"translated, not trusted for that", "", "[64:ff9b::10.0.0.1]:1", []string{"8.8.8.8"}, "10.0.0.1/32"},
		{"mapped range", "", "192.168.0.1:1", []string{"8.8.8.8"}, "8.8.8.8/32"},
		{"zone of a proxy", "", "[fd00::1%eth0]:1", []string{"8.8.8.8"}, "8.8.8.8/32"},
		{"garbage", "", "10.0.0.1:1", []string{"1.1.1.1, what"}, none},
		{"garbage behind a proxy", "", "10.0.0.1:1", []string{"1.1.1.1, what, 10.0.0.2"}, none},
		{"garbage that is not looked at", "", "10.0.0.1:1", []string{"what", "what, 8.8.8.8"}, "8.8.8.8/32"},
		{"spaces inside", "", "10.0.0.1:1", []string{"1.1.1.1 8.8.8.8"}, none},

		{"a unix socket", "", "@", []string{"8.8.8.8"}, "8.8.8.8/32"},
		{"a unix socket, two proxies", "", "", []string{"8.8.8.8, 10.0.0.2"}, "8.8.8.8/32"},
		{"a unix socket, unknown", "", "", []string{"8.8.8.8, unknown"}, none},
		{"a unix socket, empty", "", "@", []string{""}, none},

		{"the last line", "X-Real-IP", "10.0.0.1:1", []string{"1.1.1.1", " 8.8.8.8:7 "}, "8.8.8.8/32"},
		{"a proxy's own", "x-real-ip", "10.0.0.1:1", []string{"10.0.0.9"}, "10.0.0.9/32"},
		{"a list in it", "X-Real-IP", "10.0.0.1:1", []string{"1.1.1.1, 8.8.8.8"}, none},
		{"none in it", "X-Real-IP", "10.0.0.1:1", []string{""}, "10.0.0.1/32"},
		{"no such field", "X-Real-IP", "10.0.0.1:1", nil, "10.0.0.1/32"},

		{"for", "Forwarded", "10.0.0.1:1", []string{"for=8.8.8.8"}, "8.8.8.8/32"},
		{"pairs", "Forwarded", "10.0.0.1:1", []string{`proto=https; By="_x";FOR="8.8.8.8:80" ;host="a,b"`}, "8.8.8.8/32"},
		{"IPv6", "forwarded", "10.0.0.1:1", []string{`for="[2001:db8::1]:_port"`}, "2001:db8::/64"},
		{"IPv6 without quotes", "Forwarded", "10.0.0.1:1", []string{`for=[2001:db8::1]:1`}, "2001:db8::/64"},
		{"elements", "Forwarded", "10.0.0.1:1", []string{`for=1.1.1.1`, `for=1.1.1.1, for=8.8.8.8;proto=http,, for=10.0.0.2,`}, "8.8.8.8/32"},
		{"all trusted elements", "Forwarded", "10.0.0.1:1", []string{`for=10.0.0.7, for=10.0.0.2`}, "10.0.0.7/32"},
		{"no for", "Forwarded", "10.0.0.1:1", []string{`for=8.8.8.8, proto=http`}, none},
		{"two", "Forwarded", "10.0.0.1:1", []string{`for=8.8.8.8;for=9.9.9.9`}, none},
		{"obfuscated", "Forwarded", "10.0.0.1:1", []string{`for=_hidden`}, none},
		{"unknown name", "Forwarded", "10.0.0.1:1", []string{`for=unknown`}, none},
		{"open quote", "Forwarded", "10.0.0.1:1", []string{`for="8.8.8.8`}, none},
		{"quote that swallows", "Forwarded", "10.0.0.1:1", []string{`for="1.1.1.1, for=8.8.8.8, for="[2001:db8::1]"`}, none},
		{"escape that swallows", "Forwarded", "10.0.0.1:1", []string{`for="1.1.1.1\", for=8.8.8.8`}, none},
		{"open quote in a line of its own", "Forwarded", "10.0.0.1:1", []string{`for="1.1.1.1`, `for=8.8.8.8`}, "8.8.8.8/32"},
		{"escape", "Forwarded", "10.0.0.1:1", []string{`for="8.8.8\.8"`}, none},
		{"no value", "Forwarded", "10.0.0.1:1", []string{`for=`}, none},
		{"empty value", "Forwarded", "10.0.0.1:1", []string{`for=""`}, none},
		{"no name", "Forwarded", "10.0.0.1:1", []string{`=8.8.8.8`}, none},
		{"text after quotes", "Forwarded", "10.0.0.1:1", []string{`for="8.8.8.8"x`}, none},
		{"quote inside", "Forwarded", "10.0.0.1:1", []string{`for=8.8"8.8"`}, none},
		{"no equals", "Forwarded", "10.0.0.1:1", []string{`8.8.8.8`}, none},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := httplimit.ByIP(httplimit.IPOptions{
				// A peer on a unix socket has no address: the zero Prefix trusts it, and no entry without one.
				Trusted: append(prefixes("10.0.0.0/8", "::ffff:192.168.0.0/112", "fd00::/8"), netip.Prefix{}),
				Header:  c.header,
			})
			name := c.header
			if name == "" {
				name = "X-Forwarded-For"
			}
			h := make(http.Header)
			for _, line := range c.lines {
				h.Add(name, line)
			}
			require.Equal(t, c.want, key(&http.Request{RemoteAddr: c.peer, Header: h}).String())
			require.Equal(t, "203.0.113.9/32", key(&http.Request{RemoteAddr: "203.0.113.9:1", Header: h}).String())
		})
	}
}

// However long the field is that a client sends, the key takes one look at it, and no more than a
// hundred entries count.
func TestByIPOfALongField(t *testing.T) {
	const size = 1 << 20
	for _, header := range []string{"X-Forwarded-For", "Forwarded"} {
		key := httplimit.ByIP(httplimit.IPOptions{Trusted: prefixes("10.0.0.0/8"), Header: header})
		of := func(field string) string {
			return key(&http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{header: {field}}}).String()
		}
		node := map[string]string{"Forwarded": "for="}[header]
		hop, client := node+"10.0.0.2,", node+"8.8.8.8,"
		for name, c := range map[string][2]string{
			"commas":                 {strings.Repeat(",", size), none},
			"quoted commas":          {`x="` + strings.Repeat(",", size) + `",` + client, "8.8.8.8/32"},
			"proxies":                {strings.Repeat(hop, size/len(hop)), none},
			"a client behind many":   {strings.Repeat(hop, size/len(hop)) + client, "8.8.8.8/32"},
			"as many as count":       {client + strings.Repeat(hop, 98), "8.8.8.8/32"},
			"one more":               {client + strings.Repeat(hop, 99), none},
			"as many proxies":        {strings.TrimSuffix(strings.Repeat(hop, 100), ","), "10.0.0.2/32"},
			"lines count together":   {strings.Repeat(hop, 100) + hop, none},
			"beyond what is counted": {`"` + strings.Repeat(client, 1000) + strings.Repeat(hop, 1000), none},
		} {
			if header == "X-Forwarded-For" && strings.Contains(name, "quote") {
				continue
			}
			require.Equal(t, c[1], of(c[0]), "%s %s", header, name)
		}
	}
}

// A text that package netip parses is that address, with any port, and nothing else is one.
func FuzzByIPOfThePeer(f *testing.F) {
	for _, host := range []string{
		"1.2.3.4", "01.2.3.4", "1.2.3.256", "1.2.3.00", "1.2.3.0004", "1.2.3", "1.2.3.4.5", "1..2.3", ".1.2.3", "::1", "::ffff:1.2.3.4", "fe80::1%a", "", "1.2.3.4.", "é",
	} {
		f.Add(host, uint16(80))
	}
	key := httplimit.ByIP(httplimit.IPOptions{V6Bits: 128})
	f.Fuzz(func(t *testing.T, host string, port uint16) {
		if strings.ContainsAny(host, "[]") || strings.Count(host, ":") == 1 {
			return // an address with a port, or in brackets
		}
		var want netip.Prefix
		if addr, err := netip.ParseAddr(host); err == nil {
			addr = addr.Unmap().WithZone("")
			want = netip.PrefixFrom(addr, addr.BitLen())
		}
		require.Equal(t, want, key(&http.Request{RemoteAddr: host}))
		if !strings.Contains(host, ":") {
			require.Equal(t, want, key(&http.Request{RemoteAddr: host + ":" + strconv.Itoa(int(port))}))
		}
	})
}

// Whatever a client sends to a proxy that appends to it, it never gets another's key.
func FuzzByIP(f *testing.F) {
	f.Add("1.1.1.1", "for=1.1.1.1")
	f.Add("1.1.1.1,", `for="1.1.1.1, x="`)
	f.Add("[::1", `for="\`)
	trusted := prefixes("10.0.0.0/8")
	xff := httplimit.ByIP(httplimit.IPOptions{Trusted: trusted})
	forwarded := httplimit.ByIP(httplimit.IPOptions{Trusted: trusted, Header: "Forwarded"})
	own := prefixes("8.8.8.8/32")[0]
	f.Fuzz(func(t *testing.T, x, fwd string) {
		for _, proxies := range []string{"", ", 10.0.0.2"} {
			r := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{
				"X-Forwarded-For": {x + ", 8.8.8.8" + proxies},
				"Forwarded":       {fwd + ", for=8.8.8.8" + strings.ReplaceAll(proxies, ", ", `, for="`) + strings.Repeat(`"`, min(len(proxies), 1))},
			}}
			require.Equal(t, own, xff(r))
			if got := forwarded(r); got.IsValid() {
				require.Equal(t, own, got)
			}
		}
	})
}

func TestByHeader(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "http://example.com/", nil)
	r.Header["X-Api-Key"] = []string{"a", "b"}
	require.Equal(t, "a", httplimit.ByHeader("x-api-key")(r))
	require.Empty(t, httplimit.ByHeader("X-Other")(r))
	require.Equal(t, "example.com", httplimit.ByHeader("host")(r))
	require.Empty(t, httplimit.ByHeader("x")(&http.Request{}))

	// Long values are shortened, so that a client cannot fill the memory with keys.
	r.Host = strings.Repeat("h", 1<<20)
	require.Len(t, httplimit.ByHeader("Host")(r), len("sha256:")+64)
}

func TestByHost(t *testing.T) {
	for url, want := range map[string]string{
		"http://Example.COM/x":      "example.com",
		"http://example.com:80/":    "example.com",
		"https://example.com:443/":  "example.com",
		"https://example.com:80/":   "example.com:80",
		"http://example.com:8080/":  "example.com:8080",
		"http://example.com:/":      "example.com",
		"http://[2001:DB8::1]/":     "[2001:db8::1]",
		"http://[2001:db8::1]:80/":  "[2001:db8::1]",
		"http://[2001:db8::1]:81/":  "[2001:db8::1]:81",
		"wss://example.com:443/":    "example.com",
		"gopher://example.com:443/": "example.com:443",
	} {
		r, err := http.NewRequest(http.MethodGet, url, nil)
		require.NoError(t, err)
		require.Equal(t, want, httplimit.ByHost(r), url)
	}
	require.Equal(t, "example.com", httplimit.ByHost(httptest.NewRequest(http.MethodGet, "/", nil)))
	require.Empty(t, httplimit.ByHost(&http.Request{}))
}
