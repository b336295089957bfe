package upstream

import (
	"fmt"
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
