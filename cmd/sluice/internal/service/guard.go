package service

import (
	"net/http"

	"github.com/sluice-go/sluice/cmd/sluice/internal/hostname"
)

// Guard returns next for requests that no page in a user's browser can have sent. Pages reach a server under a name of their
// own that leads to its address (DNS rebinding), and browsers say Origin of what they send to change something. own is the
// address that the server was given to listen on.
func Guard(own string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !isOurs(r.Host, own):
			http.Error(w, "Host is not an address, localhost or the host that admin names", http.StatusForbidden)
		case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "":
			http.Error(w, "requests from browsers are not allowed", http.StatusForbidden)
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
