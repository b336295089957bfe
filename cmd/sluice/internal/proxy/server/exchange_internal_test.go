package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

// leavingClient is net/http's writer of HTTP/2 whose client disconnects amid an informational response: its fields may be read
// after WriteHeader.
type leavingClient struct {
	*httptest.ResponseRecorder

	leaves func()
}

func (w leavingClient) WriteHeader(int) { w.leaves() }

// TestClientLeavesAmidEarlyHints: the fields of an informational response do not change while they may still be read.
func TestClientLeavesAmidEarlyHints(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := leavingClient{httptest.NewRecorder(), cancel}
	x := newExchange(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	x.Header().Set("Ratelimit", "9")
	x.keepFields()
	h := x.Header() // as a ReverseProxy does
	h.Set("Link", "</a>")
	x.WriteHeader(http.StatusEarlyHints)
	clear(h)
	x.Header().Set("Content-Type", "text/plain")
	x.WriteHeader(http.StatusBadGateway)
	x.served()
	assert.Equal(t, http.Header{"Link": {"</a>"}, "Ratelimit": {"9"}}, w.Header())
	assert.Equal(t, http.StatusBadGateway, x.status)
	assert.Equal(t, "9", x.Header().Get("Ratelimit"))
}
