package httplimit

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// ByHeader returns a key function: the value of a header field, "" for a request without
// it, and the first value of several. Clients choose it freely, so a limit by it holds only
// those who have to send the right one, as with API keys that were checked before.
func ByHeader(name string) func(*http.Request) string {
	name = textproto.CanonicalMIMEHeaderKey(name)
	if name == "Host" { // net/http keeps it elsewhere
		return func(r *http.Request) string { return r.Host }
	}
	return func(r *http.Request) string {
		if values := r.Header[name]; len(values) > 0 {
			return values[0]
		}
		return ""
	}
}

// ByPattern returns the pattern of the [http.ServeMux] that the request goes to; "" if it
// has not come to one, unless [Limits.Handler] stands directly around the mux.
func ByPattern(r *http.Request) string { return r.Pattern }

// ByHost returns the host that a client's request goes to, in lower case, with the port
// unless it is the scheme's own: 80 for http, 443 for https.
func ByHost(r *http.Request) string {
	u := r.URL
	if u == nil || u.Host == "" {
		u = &url.URL{Host: r.Host}
		if r.URL != nil {
			u.Scheme = r.URL.Scheme
		}
	}
	host, port := strings.ToLower(u.Host), u.Port()
	if bare := strings.TrimSuffix(host, ":"+port); port == "" || port == ownPort(u.Scheme) {
		return strings.TrimSuffix(bare, ":")
	}
	return host
}

func ownPort(scheme string) string {
	switch strings.ToLower(scheme) {
	case "http", "ws":
		return "80"
	case "https", "wss":
		return "443"
	}
	return ""
}
