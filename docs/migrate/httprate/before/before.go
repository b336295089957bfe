// Package before limits the clients of a server with github.com/go-chi/httprate.
package before

import (
	"net"
	"net/http"
	"time"

	"github.com/go-chi/httprate"
)

// Handler limits each client to 100 requests a minute.
func Handler(next http.Handler) http.Handler {
	return httprate.LimitBy(100, time.Minute, clientIP)(next)
}

func clientIP(r *http.Request) (string, error) {
	ip, _, err := net.SplitHostPort(r.RemoteAddr)
	return httprate.CanonicalizeIP(ip), err
}
