package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/clock"
)

// bubble runs a test in a bubble, whose clock on the wall may be set.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		set(0)
		test(t)
		set(0)
	})
}

// set sets the clock on the wall that far ahead of the bubble's, and lets the millisecond pass in
// which that may not be seen.
func set(ahead time.Duration) {
	clock.SetWall(ahead)
	time.Sleep(time.Millisecond)
}

const hour = time.Hour

func TestWall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var c clock.Clock
		c.Start()
		zero := c.Zero().UnixNano()
		now := func() int64 { return c.Wall(clock.Read(), zero) }
		require.Zero(t, now())
		time.Sleep(5)
		require.Equal(t, int64(5), now())
		clock.SetWall(-hour)
		require.Equal(t, int64(5), now()) // it was read less than a millisecond ago
		time.Sleep(time.Millisecond - 6)
		require.Equal(t, int64(time.Millisecond-1), now())
		time.Sleep(1)
		require.Equal(t, int64(time.Millisecond-hour), now())
		set(hour)
		require.Equal(t, int64(2*time.Millisecond+hour), now())
		require.Equal(t, int64(2*time.Millisecond+hour), c.Monotonic(now()))
		time.Sleep(7)
		at, ok := c.At(clock.Read())
		require.True(t, ok)
		require.Equal(t, int64(2*time.Millisecond+hour+7), at)
		set(-2 * hour)
		require.Equal(t, int64(0), c.Monotonic(now()))
		at, ok = c.At(clock.Read())
		require.True(t, ok)
		require.Zero(t, at)
	})
}
