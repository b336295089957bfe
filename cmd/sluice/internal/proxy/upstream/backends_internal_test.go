package upstream

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTooManyFiles: that this process has no room for a connection says nothing of the backend.
func TestTooManyFiles(t *testing.T) {
	b := NewBackends(func(format string, args ...any) { t.Errorf(format, args...) }, func(context.Context, string) {})
	b.Set([]*url.URL{{Scheme: "http", Host: "127.0.0.1:1"}}, 0, false)
	b.current.Load().http1.DialContext = func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://host/", nil)
	require.NoError(t, err)
	_, err = b.RoundTrip(r)
	assert.True(t, IsExhausted(err), "%v", err)
	assert.Equal(t, map[string]bool{"http://127.0.0.1:1": true}, b.Up())
}

// TestOrder: requests go to the backends round-robin, and to unreachable ones last. A backend that stays in the file stays
// unreachable.
func TestOrder(t *testing.T) {
	urls := make([]*url.URL, 3)
	for i := range urls {
		urls[i] = &url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", i+1)}
	}
	b := NewBackends(t.Logf, nil)
	b.Set(urls, 0, false)
	b.current.Load().all[0].unreachable.Store(true)
	b.Set(urls[:2], 0, false)
	b.Set(urls, 0, false)
	first := make(map[string]int)
	for range 30 {
		order := b.order(b.current.Load().all)
		first[order[0].name]++
		assert.Equal(t, "http://127.0.0.1:1", order[2].name)
	}
	assert.Equal(t, map[string]int{"http://127.0.0.1:2": 15, "http://127.0.0.1:3": 15}, first)
}
