package httplimit

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/sluice-go/sluice/internal/policy"
)

// ByHeader returns a key function that returns the value of a header field: "" for a request
// without it, and the first value of several. A value of more than 64 bytes is replaced by its
// SHA-256, as "sha256:" and 64 hexadecimal digits, so that keys take little memory.
//
// Clients choose the value freely. A limit by it binds only clients that have to send the right
// value, as with API keys that were checked before.
func ByHeader(name string) func(*http.Request) string {
	name = textproto.CanonicalMIMEHeaderKey(name)
	if name == "Host" { // net/http keeps it elsewhere
		return func(r *http.Request) string { return policy.Key(r.Host) }
	}
	return func(r *http.Request) string {
		if values := r.Header[name]; len(values) > 0 {
			return policy.Key(values[0])
		}
		return ""
	}
}

// ByPattern is a key function that returns the pattern of the [http.ServeMux] that the request has
// come through. In a handler around the mux there is none yet, and the key is "".
func ByPattern(r *http.Request) string { return r.Pattern }

// ByHost is a key function that returns the host that a client's request goes to, in lower case,
// with the port unless it is the scheme's own: 80 for http, 443 for https.
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
