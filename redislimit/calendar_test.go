package redislimit_test

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// process runs a test as a process whose clock shows another time than the server's. The server starts with the given state;
// process returns the state after the test.
func process(t *testing.T, clock, server time.Time, state map[string]string, test func(t *testing.T, s *server)) (after map[string]string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(clock))
		s := serve(t)
		s.redis.SetTime(server)
		for field, value := range state {
			s.redis.HSet(key, field, value)
			if instant, err := strconv.ParseFloat(field, 64); err == nil {
				_, err = s.redis.ZAdd("{key}:segments", instant, field)
				require.NoError(t, err)
			}
		}
		if state != nil {
			s.redis.SetTTL(key, time.Hour)
			s.redis.SetTTL("{key}:segments", time.Hour)
		}
		test(t, s)
		after = s.client.HGetAll(t.Context(), key).Val()
	})
	return after
}

const key = "{key}:limit"

func at(day, hour, minute int) time.Time {
	return time.Date(2001, time.March, day, hour, minute, 0, 0, time.UTC)
}

// Processes with wrong clocks share one quota, because the server's clock decides which day it is.
func TestProcessesWithWrongClocksKeepOneQuota(t *testing.T) {
	daily := core.FixedWindowOptions{PermitLimit: 6, Calendar: core.Daily(nil)}
	state, left := map[string]string(nil), 6
	for _, p := range []struct {
		clock time.Time
		asks  int64 // for the first decision
	}{
		{at(15, 0, 30), 1},
		{at(14, 23, 30), 1}, // an hour behind, on another day
		{at(15, 1, 30), 1},
		{at(16, 12, 0), 1}, // tomorrow
		{at(1, 0, 30), 2},
		{at(28, 0, 30), 2},
	} {
		state = process(t, p.clock, at(15, 0, 30), state, func(t *testing.T, s *server) {
			l := fixed(t, s.shared("key"), daily)
			left--
			lease := takes(t, l, 1)
			require.Equal(t, p.asks, s.store.runs.Load())
			remaining, _ := core.Remaining.From(lease)
			require.Equal(t, left, remaining)
			reset, _ := core.ResetAfter.From(lease)
			require.Equal(t, 23*time.Hour+30*time.Minute, reset)
			window, _ := core.Window.From(lease)
			require.Equal(t, 24*time.Hour, window)
			lease.Refund()
			takes(t, l, 1)
			require.Equal(t, p.asks+2, s.store.runs.Load())
			require.Positive(t, s.redis.TTL(key))
		})
	}
	for _, clock := range []time.Time{at(14, 23, 30), at(15, 0, 30)} {
		process(t, clock, at(15, 0, 30), state, func(t *testing.T, s *server) {
			l := fixed(t, s.shared("key"), daily)
			retry, _ := core.RetryAfter.From(refuses(t, l, 1))
			require.Equal(t, 23*time.Hour+30*time.Minute, retry)
		})
		process(t, clock, at(16, 0, 0), state, func(t *testing.T, s *server) {
			takes(t, fixed(t, s.shared("key"), daily), 6)
		})
	}
}

// If the server's clock goes back, the window stays, and permits come back at its end.
func TestTheServersClockIsSet(t *testing.T) {
	monthly := core.FixedWindowOptions{PermitLimit: 5, Calendar: core.Monthly(15, nil)}
	state := process(t, at(20, 0, 0), at(20, 0, 0), nil, func(t *testing.T, s *server) {
		window, _ := core.Window.From(takes(t, fixed(t, s.shared("key"), monthly), 3))
		require.Equal(t, 31*24*time.Hour, window)
	})
	state = process(t, at(20, 0, 0), at(10, 0, 0), state, func(t *testing.T, s *server) {
		l := fixed(t, s.shared("key"), monthly)
		lease := takes(t, l, 1)
		reset, _ := core.ResetAfter.From(lease)
		require.Equal(t, 36*24*time.Hour, reset) // until 15 April
		window, _ := core.Window.From(lease)
		require.Equal(t, 31*24*time.Hour, window)
		lease.Refund()
		require.Equal(t, 2, l.Available())
		takes(t, l, 2)
	})
	process(t, at(20, 0, 0), at(15, 0, 0), state, func(t *testing.T, s *server) {
		refuses(t, fixed(t, s.shared("key"), monthly), 1)
	})
	process(t, at(20, 0, 0), time.Date(2001, time.April, 15, 0, 0, 0, 0, time.UTC), state, func(t *testing.T, s *server) {
		l := fixed(t, s.shared("key"), monthly)
		takes(t, l, 5)
		require.Equal(t, 30*24*time.Hour, l.ReplenishmentPeriod())
	})
}

// RetryAfter behind a queue that needs several windows is the sum of their lengths.
func TestAQueueOfMonths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		l := fixed(t, s.shared("key"), core.FixedWindowOptions{PermitLimit: 1, Calendar: core.Monthly(1, nil), QueueLimit: 5})
		takes(t, l, 1)
		ctx := t.Context()
		for range 2 {
			go func() {
				_, err := l.Acquire(ctx, 1)
				if !errors.Is(err, core.ErrClosed) {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		retry, _ := core.RetryAfter.From(refuses(t, l, 1))
		require.Equal(t, (31+29+31)*24*time.Hour, retry)
		require.NoError(t, l.Close())
		synctest.Wait()
	})
}

// A waiter's lease says how long the window is in which it was served.
func TestAWaiterOfTheNextMonth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, serve(t).shared("key"), core.FixedWindowOptions{PermitLimit: 1, Calendar: core.Monthly(1, nil), QueueLimit: 1})
		january, _ := core.Window.From(takes(t, l, 1))
		require.Equal(t, 31*24*time.Hour, january)
		lease, err := l.Acquire(t.Context(), 1)
		require.NoError(t, err)
		february, _ := core.Window.From(lease)
		require.Equal(t, 29*24*time.Hour, february)
	})
}

func TestOptionsOfACalendar(t *testing.T) {
	s := serve(t)
	_, err := redislimit.New(core.FixedWindowOptions{PermitLimit: 1, Calendar: core.Monthly(0, nil), Window: time.Hour}, s.shared("key"))
	require.ErrorContains(t, err, "core: FixedWindowOptions.Calendar = month day 0, want a day from 1 to 31")
	require.ErrorContains(t, err, "core: FixedWindowOptions.Window = 1h0m0s, want 0 with a Calendar")
	l := fixed(t, s.shared("key"), core.FixedWindowOptions{PermitLimit: 1, Calendar: core.Yearly(nil)})
	require.Contains(t, l.String(), "a fixed window at")
	require.Contains(t, []int{365, 366}, int(l.ReplenishmentPeriod().Hours()/24))
}

// If a calendar replaces windows in which many waiters had tickets, the first call removes what is due of them.
func TestACalendarAfterManyWindows(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		seconds := fixed(t, s.shared("key"), core.FixedWindowOptions{PermitLimit: 1, Window: time.Second, QueueLimit: 1000})
		takes(t, seconds, 1)
		for range 300 {
			ask(t.Context(), seconds, 1)
		}
		days := fixed(t, s.shared("key"), core.FixedWindowOptions{PermitLimit: 1000, Calendar: core.Daily(nil)})
		takes(t, days, 1)
		time.Sleep(400 * time.Second)
		takes(t, days, 1)
		require.Equal(t, 998, days.Available())
	})
}
