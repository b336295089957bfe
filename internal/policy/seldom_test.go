package policy_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/policy"
)

func TestSeldom(t *testing.T) {
	var s policy.Seldom
	lets := func(want int) {
		t.Helper()
		others, ok := s.Lets(time.Second)
		require.True(t, ok)
		require.Equal(t, want, others)
	}
	keeps := func() {
		t.Helper()
		_, ok := s.Lets(time.Second)
		require.False(t, ok)
	}
	synctest.Test(t, func(*testing.T) {
		lets(0)
		keeps()
		time.Sleep(time.Second - 1)
		keeps()
		time.Sleep(1)
		lets(2)
		time.Sleep(2 * time.Second)
		lets(0)
		keeps()
		time.Sleep(time.Hour)
		lets(1)
	})
	lets(0)                                        // a step forward
	synctest.Test(t, func(*testing.T) { lets(0) }) // and one back
}
