package service

import (
	"net/http"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// Guard rejects requests that a page in a browser may have sent, and passes the others to next. A page can reach a server under a
// name of its own that resolves to the server's address (DNS rebinding), and browsers send Origin with requests that change
// something. own is the address that the server was told to listen on.
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

// isOurs reports whether a Host means this server, whatever DNS says: it is an address, localhost, or the host of own.
func isOurs(host, own string) bool {
	name, ok := cli.HostOf(host)
	ours, _ := cli.HostOf(own)
	return cli.IsLocalHost(host) || ok && name == ours && ours != ""
}
