package callback_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/callback"
)

func TestInside(t *testing.T) {
	require.False(t, callback.Inside())
	called := false
	callback.Call(func() {
		called = true
		require.True(t, callback.Inside())
		require.True(t, deep(200))
		elsewhere := make(chan bool)
		go func() { elsewhere <- callback.Inside() }()
		require.False(t, <-elsewhere)
	})
	require.True(t, called)
	require.False(t, callback.Inside())
	require.PanicsWithValue(t, "odd", func() { callback.Call(func() { panic("odd") }) })
	require.False(t, callback.Inside())
}

// deep is Inside, seen from so many frames below.
func deep(n int) bool {
	if n == 0 {
		return callback.Inside()
	}
	return deep(n - 1)
}
