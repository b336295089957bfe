package limits

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
	"github.com/sluice-go/sluice/internal/clientip"
)

// Keys tells clients apart, by the present configuration.
type Keys struct {
	most   int // that a limit has limiters for
	finder atomic.Pointer[clientip.Finder]
}

// NewKeys returns the keys of clients, and the number of them for which a limit has limiters at a time, at most.
func NewKeys(most int, trusted []netip.Prefix) *Keys {
	k := &Keys{most: most}
	k.Trust(trusted)
	return k
}

// Trust changes which proxies are believed.
func (k *Keys) Trust(trusted []netip.Prefix) {
	k.finder.Store(clientip.New(clientip.Options{Trusted: trusted}))
}

// Trusts reports whether a request comes from a proxy that is believed.
func (k *Keys) Trusts(r *http.Request) bool { return k.finder.Load().TrustsPeer(r.RemoteAddr) }

// client returns a client, which may have a network of IPv6.
func (k *Keys) client(r *http.Request) netip.Prefix {
	f := k.finder.Load()
	return f.Key(r.RemoteAddr, r.Header[f.Header])
}

// Address returns a client's address for people.
func (k *Keys) Address(r *http.Request) string {
	f := k.finder.Load()
	if a := f.Client(r.RemoteAddr, r.Header[f.Header]); a.IsValid() {
		return a.String()
	}
	return "-"
}

// values returns what the values of a key's parts are for a request.
func (k *Keys) values(key config.Key) func(*http.Request) []config.Value {
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

func (k *Keys) value(p config.KeyPart) func(*http.Request) config.Value {
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

// IsAmbiguous reports whether a backend may read another value of a part of a key than its limit: of several fields,
// cookies or parameters of a name another one, or of a query that is none.
func IsAmbiguous(r *http.Request, p config.KeyPart) bool {
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
