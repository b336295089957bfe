// Package guard keeps pages in somebody's browser away from an admin address. It stands apart from package hostname, as the
// playground's engine has that one and no net/http.
package guard

import (
	"net/http"

	"github.com/sluice-go/sluice/cmd/sluice/internal/hostname"
)

// Admin returns next for requests that no page in somebody's browser can have sent. Pages reach a server under a name of their
// own that leads to its address (DNS rebinding), and browsers say Origin of what they send to change something. own is the
// address that the server was given to listen on.
func Admin(own string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !isOurs(r.Host, own):
			http.Error(w, "Host is not an address, localhost or the host that admin names", http.StatusForbidden)
		case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "":
			http.Error(w, "limits are not for pages in a browser", http.StatusForbidden)
		default:
			next(w, r)
		}
	}
}

// isOurs reports whether a Host leads here, whatever answers for names.
func isOurs(host, own string) bool {
	name, ok := hostname.Of(host)
	ours, _ := hostname.Of(own)
	return hostname.IsLocal(host) || ok && name == ours && ours != ""
}
