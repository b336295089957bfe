// Package before limits the clients of a server with github.com/ulule/limiter.
package before

import (
	"net/http"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
)

// Handler limits each client to 10 requests a minute. The store may be memory.NewStore().
func Handler(store limiter.Store, next http.Handler) (http.Handler, error) {
	rate, err := limiter.NewRateFromFormatted("10-M")
	if err != nil {
		return nil, err
	}
	return stdlib.NewMiddleware(limiter.New(store, rate)).Handler(next), nil
}
