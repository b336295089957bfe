package core_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/clock"
)

// wallAhead is how far the clock on the wall is ahead of the true time.
var wallAhead atomic.Int64

// injectWall lets tests set the clock on the wall.
func injectWall() {
	both := clock.Both
	clock.Both = func() (unix, reading int64) {
		unix, reading = both()
		return unix + wallAhead.Load(), reading
	}
}

// wallBubble runs a test in a bubble, whose clock on the wall may be set.
func wallBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		setWall(0)
		test(t)
		setWall(0)
	})
}

// setWall sets the clock on the wall that far ahead of the bubble's, and lets the millisecond pass in
// which that may not be seen.
func setWall(ahead time.Duration) {
	wallAhead.Store(int64(ahead))
	time.Sleep(time.Millisecond)
}

const hour = time.Hour

// daily returns a limiter with windows of days in UTC, at noon.
func daily(t *testing.T, permits int) *core.FixedWindow {
	t.Helper()
	time.Sleep(time.Until(time.Now().Truncate(day).Add(day + 12*hour)))
	l, err := core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: permits, Calendar: core.Daily(nil), QueueLimit: 10})
	require.NoError(t, err)
	return l
}

func retry(t *testing.T, l *core.FixedWindow) time.Duration {
	t.Helper()
	k := l.TryAcquire(1)
	require.False(t, k.Acquired())
	d, ok := core.RetryAfter.From(k)
	require.True(t, ok)
	return d
}

// The current window stays until its own end, though the clock is before its start, and even
// before the limiter was made.
func TestAClockThatIsSetBack(t *testing.T) {
	wallBubble(t, func(t *testing.T) {
		l := daily(t, 3)
		grant := l.TryAcquire(3)
		require.True(t, grant.Acquired())
		setWall(-30 * day)
		require.Equal(t, 30*day+12*hour-time.Millisecond, retry(t, l))
		length, _ := core.Window.From(grant)
		require.Equal(t, day, length)
		require.Equal(t, day, l.ReplenishmentPeriod())
		grant.Refund()
		require.Equal(t, 3, l.Available())
		idle, ok := l.IdleFor()
		require.True(t, ok)
		require.Zero(t, idle)
		late := l.TryAcquire(2) // before the beginning
		reset, _ := core.ResetAfter.From(late)
		require.Equal(t, 30*day+12*hour-time.Millisecond, reset)
		setWall(0)
		late.Refund() // it is the same window
		require.Equal(t, 3, l.Available())
		charged := l.TryAcquire(0).Settle(1)
		setWall(-day)
		charged.Settle(2).Refund()
		require.Equal(t, 3, l.Available())
		require.True(t, l.TryAcquire(3).Acquired())
		setWall(0)
		time.Sleep(time.Until(time.Now().Truncate(day).Add(day)) - 1)
		require.Equal(t, time.Duration(1), retry(t, l))
		time.Sleep(1)
		require.Equal(t, 3, l.Available())
	})
}

// An Update does not bring a window back that is over, but another calendar's is of now.
func TestUpdateAfterTheClockWasSetBack(t *testing.T) {
	wallBubble(t, func(t *testing.T) {
		l := daily(t, 1)
		require.True(t, l.TryAcquire(1).Acquired())
		setWall(-day)
		o := l.Options()
		o.PermitLimit = 2
		require.NoError(t, l.Update(o))
		require.True(t, l.TryAcquire(1).Acquired())
		require.Equal(t, day+12*hour-time.Millisecond, retry(t, l))
		o.Calendar = core.Weekly(time.Now().Add(-day).Weekday(), nil)
		require.NoError(t, l.Update(o))
		require.Equal(t, 6*day+12*hour-time.Millisecond, retry(t, l))
		require.NoError(t, l.Update(core.FixedWindowOptions{PermitLimit: 2, Window: hour, QueueLimit: 1}))
		granted := make(chan time.Time)
		start := time.Now()
		go func() {
			_, err := l.Acquire(t.Context(), 1)
			if err != nil {
				t.Error(err)
			}
			granted <- time.Now()
		}()
		require.Equal(t, hour, (<-granted).Sub(start)) // windows start at instant 0, which is now
	})
}

func TestWaitersSeeWithinAMinuteThatTheClockWasSet(t *testing.T) {
	wallBubble(t, func(t *testing.T) {
		l := daily(t, 1)
		require.True(t, l.TryAcquire(1).Acquired())
		granted := make(chan time.Time, 4)
		wait := func() {
			go func() {
				_, err := l.Acquire(t.Context(), 1)
				if err != nil {
					t.Error(err)
				}
				granted <- time.Now()
			}()
			synctest.Wait()
		}
		wait()
		time.Sleep(10 * time.Second)
		start := time.Now()
		setWall(20 * hour)
		require.LessOrEqual(t, (<-granted).Sub(start), time.Minute)

		// It is 8 o'clock. The clock is set ten hours forward, and back, and waiters still get their
		// permits at midnight.
		wait()
		time.Sleep(hour)
		wallAhead.Store(int64(30 * hour))
		time.Sleep(time.Minute + time.Second)
		wallAhead.Store(int64(20 * hour))
		at := <-granted
		require.Zero(t, at.Add(20*hour).Sub(at.Add(20*hour).Truncate(day)))
	})
}

// waitFor has n requests for one permit wait, and returns what they get.
func waitFor(t *testing.T, l *core.FixedWindow, n int) <-chan core.Lease {
	t.Helper()
	granted := make(chan core.Lease, n)
	for range n {
		go func() {
			k, err := l.Acquire(t.Context(), 1)
			if err != nil {
				t.Error(err)
			}
			granted <- k
		}()
		synctest.Wait()
	}
	return granted
}

// A lease has the length of the window in which it was granted.
func TestALeapOverMonths(t *testing.T) {
	wallBubble(t, func(t *testing.T) {
		l, err := core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 1, Calendar: core.Monthly(1, nil), QueueLimit: 10})
		require.NoError(t, err)
		require.True(t, l.TryAcquire(1).Acquired())
		granted := waitFor(t, l, 2)
		for _, want := range []time.Duration{30 * day, 31 * day} { // April 2000, then May
			if want == 30*day {
				setWall(95 * day)
			} else {
				time.Sleep(30 * day)
			}
			require.Equal(t, 0, l.Available())
			lease := <-granted
			length, _ := core.Window.From(lease)
			require.Equal(t, want, length)
			if want == 30*day { // the leap was into the middle of the month, and the permit came then
				reset, _ := core.ResetAfter.From(lease)
				require.Less(t, reset, length)
			}
		}
	})
}

// What is taken stays taken in an Update from a calendar to a plain window, wherever the clock is, also in the window
// in which a Reset has found it.
func TestUpdateToAPlainWindowKeepsWhatIsTaken(t *testing.T) {
	for _, off := range []time.Duration{-1000 * day, -30 * day, -day, -hour, 0, hour, 11 * hour} {
		for _, reset := range []bool{false, true} {
			wallBubble(t, func(t *testing.T) {
				l := daily(t, 6)
				require.True(t, l.TryAcquire(4).Acquired())
				setWall(off)
				if reset {
					l.Reset()
					require.True(t, l.TryAcquire(4).Acquired())
				}
				require.Equal(t, 2, l.Available())
				require.NoError(t, l.Update(core.FixedWindowOptions{PermitLimit: 6, Window: hour}))
				require.Equal(t, 2, l.Available(), "%v, reset %v", off, reset)
				require.True(t, l.TryAcquire(2).Acquired())
				time.Sleep(hour)
				require.Equal(t, 6, l.Available())
			})
		}
	}
}
