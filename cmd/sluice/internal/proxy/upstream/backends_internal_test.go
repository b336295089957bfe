package upstream

import (
	"fmt"
	"net/url"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestTooManyFiles: that this process has no room for a connection says nothing of the backend.
func TestTooManyFiles(t *testing.T) {
	b := NewBackends(func(format string, args ...any) { t.Errorf(format, args...) }, nil)
	k := &Backend{name: "k"}
	err := &dialError{fmt.Errorf("dial tcp: socket: %w", syscall.EMFILE)}
	assert.False(t, b.triesNext(t.Context(), k, err))
	assert.False(t, k.unreachable.Load())
	assert.True(t, IsExhausted(err))
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
	(*b.all.Load())[0].unreachable.Store(true)
	b.Set(urls[:2], 0, false)
	b.Set(urls, 0, false)
	first := make(map[string]int)
	for range 30 {
		order := b.order()
		first[order[0].name]++
		assert.Equal(t, "http://127.0.0.1:1", order[2].name)
	}
	assert.Equal(t, map[string]int{"http://127.0.0.1:2": 15, "http://127.0.0.1:3": 15}, first)
}
