// Package before limits the clients of a server with github.com/didip/tollbooth.
package before

import (
	"net/http"

	"github.com/didip/tollbooth/v7"
)

// Handler limits each client to 10 requests a second.
func Handler(next http.Handler) http.Handler {
	return tollbooth.LimitHandler(tollbooth.NewLimiter(10, nil), next)
}
