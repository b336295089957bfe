package proxy

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/hostname"
	"github.com/sluice-go/sluice/cmd/sluice/internal/route"
	"github.com/sluice-go/sluice/httplimit"
)

// keys tells clients apart, by the present configuration.
type keys struct {
	most      int                                              // that a limit has limiters for
	byIP      atomic.Pointer[func(*http.Request) netip.Prefix] // a client, which may have a network of IPv6
	byAddress atomic.Pointer[func(*http.Request) netip.Prefix] // its address alone
}

func (k *keys) trust(proxies []netip.Prefix) {
	client := httplimit.ByIP(httplimit.IPOptions{Trusted: proxies})
	address := httplimit.ByIP(httplimit.IPOptions{Trusted: proxies, V6Bits: 128})
	k.byIP.Store(&client)
	k.byAddress.Store(&address)
}

func (k *keys) client(r *http.Request) netip.Prefix { return (*k.byIP.Load())(r) }

// address returns a client's address for the access log.
func (k *keys) address(r *http.Request) string {
	if p := (*k.byAddress.Load())(r); p.IsValid() {
		return p.Addr().String()
	}
	return "-"
}

// values returns what the values of a key's parts are for a request.
func (k *keys) values(key config.Key) func(*http.Request) []config.Value {
	parts := make([]func(*http.Request) config.Value, len(key))
	for i, p := range key {
		parts[i] = k.value(p)
	}
	return func(r *http.Request) []config.Value {
		values := make([]config.Value, len(parts))
		for i, value := range parts {
			values[i] = value(r)
		}
		return values
	}
}

func (k *keys) value(p config.KeyPart) func(*http.Request) config.Value {
	switch p.Kind {
	case config.KeyIP:
		return func(r *http.Request) config.Value { return config.Client(k.client(r)) }
	case config.KeyHeader:
		header := httplimit.ByHeader(p.Header)
		return func(r *http.Request) config.Value { return config.Value{Text: header(r)} }
	case config.KeyCookie:
		return func(r *http.Request) config.Value { return config.Text(first(cookies(r, p.Name))) }
	case config.KeyQuery:
		return func(r *http.Request) config.Value { return config.Text(r.URL.Query().Get(p.Name)) }
	case config.KeyHost:
		return func(r *http.Request) config.Value { return config.Value{Text: hostOf(r)} }
	case config.KeyPath:
		return func(r *http.Request) config.Value { return config.Text(route.Segment(r.URL, p.Segment)) }
	default:
		return func(r *http.Request) config.Value { return config.Value{Text: httplimit.ByPattern(r)} }
	}
}

// hostOf is the key host: the same for all spellings of a host and all ports, "" for what is no host.
func hostOf(r *http.Request) string {
	if host, ok := hostname.Of(r.Host); ok {
		return host
	}
	return ""
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// cookies returns the values of all cookies of a name, also of what net/http does not take for a cookie.
func cookies(r *http.Request, name string) (values []string) {
	for _, line := range r.Header["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			n, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if strings.TrimSpace(n) == name {
				values = append(values, strings.Trim(strings.TrimSpace(value), `"`))
			}
		}
	}
	return values
}

// isAmbiguous reports whether a backend may read another value of a part of a key than its limit: of several fields,
// cookies or parameters of a name another one, or of a query that is none.
func isAmbiguous(r *http.Request, p config.KeyPart) bool {
	switch p.Kind {
	case config.KeyHeader:
		return len(r.Header[p.Header]) > 1
	case config.KeyCookie:
		return len(cookies(r, p.Name)) > 1
	case config.KeyQuery:
		query, err := url.ParseQuery(r.URL.RawQuery)
		return err != nil || len(query[p.Name]) > 1
	}
	return false
}
