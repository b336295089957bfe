package policy_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/limit/policy"
)

func TestSometimes(t *testing.T) {
	var s policy.Sometimes
	allows := func(want int) {
		t.Helper()
		suppressed, ok := s.Allow(time.Second)
		require.True(t, ok)
		require.Equal(t, want, suppressed)
	}
	suppresses := func() {
		t.Helper()
		_, ok := s.Allow(time.Second)
		require.False(t, ok)
	}
	synctest.Test(t, func(*testing.T) {
		allows(0)
		suppresses()
		time.Sleep(time.Second - 1)
		suppresses()
		time.Sleep(1)
		allows(2)
		time.Sleep(2 * time.Second)
		allows(0)
		suppresses()
		time.Sleep(time.Hour)
		allows(1)
	})
	allows(0)                                        // a step forward
	synctest.Test(t, func(*testing.T) { allows(0) }) // and one back
}
