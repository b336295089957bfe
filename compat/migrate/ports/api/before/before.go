// Package before limits the clients of an API with a map of limiters.
package before

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Clients have 2 requests a second each, 4 of them at once.
type Clients struct {
	mu      sync.Mutex
	clients map[string]*client
}

type client struct {
	limiter *rate.Limiter
	seen    time.Time
}

// New returns limits for clients. It forgets those that have not been seen for three minutes, until ctx ends.
func New(ctx context.Context) *Clients {
	c := &Clients{clients: map[string]*client{}}
	go c.forget(ctx)
	return c
}

func (c *Clients) forget(ctx context.Context) {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		c.mu.Lock()
		for ip, client := range c.clients {
			if time.Since(client.seen) > 3*time.Minute {
				delete(c.clients, ip)
			}
		}
		c.mu.Unlock()
	}
}

func (c *Clients) limiter(ip string) *rate.Limiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.clients[ip]
	if !ok {
		found = &client{limiter: rate.NewLimiter(2, 4)}
		c.clients[ip] = found
	}
	found.seen = time.Now()
	return found.limiter
}

// Handler limits the clients of a handler.
func (c *Clients) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ip, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			return
		}
		if !c.limiter(ip).Allow() {
			http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}
