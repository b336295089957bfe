package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/clock"
	"github.com/sluice-go/sluice/internal/testkit"
)

func TestMain(m *testing.M) {
	clock.InjectWall()
	testkit.Main(m)
}

const (
	minute = int64(time.Minute)
	year   = 365 * 24 * time.Hour
)

// at reads the clock, with a length of a minute.
func at(c *clock.Clock) int64 {
	reading := clock.Read()
	if now, ok := c.At(reading); ok {
		return now
	}
	return c.Jump(reading, minute)
}

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock.Clock
		c.Start()
		start := time.Now()
		require.True(t, c.Zero().Equal(start))
		require.Zero(t, at(&c))
		time.Sleep(3)
		require.Equal(t, int64(3), at(&c))
		require.Equal(t, int64(3), c.Elapsed())
		time.Sleep(19 * year) // no leap
		require.Equal(t, int64(3+19*year), at(&c))
		require.True(t, c.Zero().Equal(start))
	})
}

// A clock that goes back continues from the latest instant.
func TestClockGoesBack(t *testing.T) {
	var c clock.Clock
	synctest.Test(t, func(*testing.T) {
		c.Start()
		time.Sleep(5 * time.Second)
		at(&c)
	})
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(2 * time.Second)
		require.Equal(t, int64(5*time.Second), at(&c))
		time.Sleep(7)
		require.Equal(t, int64(5*time.Second)+7, at(&c))
	})
}

// A leap is one length and what the step has beyond whole lengths.
func TestClockLeaps(t *testing.T) {
	for _, step := range []time.Duration{20 * year, 20*year + 7, 25*year + 30*time.Second, 200 * year} {
		synctest.Test(t, func(t *testing.T) {
			var c clock.Clock
			c.Start()
			time.Sleep(11)
			at(&c)
			time.Sleep(step)
			require.Equal(t, 11+minute+int64(step)%minute, at(&c))
			time.Sleep(1)
			require.Equal(t, 12+minute+int64(step)%minute, at(&c))
		})
	}
}

// Less than a length is all of the step.
func TestClockLeapsLessThanALength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock.Clock
		c.Start()
		time.Sleep(30 * year)
		require.Equal(t, int64(30*year), c.Jump(clock.Read(), int64(100*year)))
	})
}

// A limiter that goes in and out of bubbles, again and again, does not run out of instants.
func TestClockInAndOut(t *testing.T) {
	var c clock.Clock
	c.Start()
	last := at(&c)
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Second)
			now := at(&c)
			require.GreaterOrEqual(t, now, last)
			last = now
		})
		now := at(&c) // a leap of decades
		require.GreaterOrEqual(t, now, last)
		require.LessOrEqual(t, now, last+2*minute)
		last = now
	}
}
