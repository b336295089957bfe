package callback_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/callback"
)

//go:noinline
func call(f func()) { f() }

//go:noinline
func another(f func()) { f() }

var mark = callback.MarkOf(call)

func TestInside(t *testing.T) {
	require.False(t, mark.Inside())
	called := false
	call(func() {
		called = true
		require.True(t, mark.Inside())
		require.True(t, deep(200))
		require.False(t, callback.MarkOf(another).Inside())
		elsewhere := make(chan bool)
		go func() { elsewhere <- mark.Inside() }()
		require.False(t, <-elsewhere)
	})
	require.True(t, called)
	another(func() { require.False(t, mark.Inside()) })
}

// deep is Inside, seen from so many frames below.
func deep(n int) bool {
	if n == 0 {
		return mark.Inside()
	}
	return deep(n - 1)
}
