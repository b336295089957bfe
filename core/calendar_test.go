package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

const day = 24 * time.Hour

func location(tb testing.TB, name string) *time.Location {
	tb.Helper()
	loc, err := time.LoadLocation(name)
	require.NoError(tb, err)
	return loc
}

// calendric returns a limiter with windows of the calendar and room for a hundred to wait.
func calendric(tb testing.TB, limit int, c core.Calendar) *core.FixedWindow {
	tb.Helper()
	return fixed(tb, core.FixedWindowOptions{PermitLimit: limit, Calendar: c, QueueLimit: 100})
}

// sleepUntil sleeps until a time of the bubble, which starts at midnight UTC of 2000-01-01.
func sleepUntil(month time.Month, d int, clock time.Duration) {
	time.Sleep(time.Until(time.Date(2000, month, d, 0, 0, 0, 0, time.UTC).Add(clock)))
}

func window(tb testing.TB, l core.Lease, want time.Duration) {
	tb.Helper()
	got, ok := core.Window.From(l)
	require.True(tb, ok)
	require.Equal(tb, want, got)
}

func TestAllIsBackWhenTheNextWindowBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := calendric(t, 5, core.Monthly(15, location(t, "Europe/Berlin")))
		old := takes(t, l, 5)
		window(t, old, 31*day)
		rejected(t, l, 1, 14*day-time.Hour) // midnight in Berlin is 23:00 UTC
		a := queues(t, l, 1)
		sleepUntil(time.January, 14, 23*time.Hour-1)
		rejected(t, l, 2, 1)
		a.waits(t)
		time.Sleep(1)
		lease := a.granted(t)
		window(t, lease, 31*day)
		reset, _ := core.ResetAfter.From(lease)
		require.Equal(t, 31*day, reset)
		sleepUntil(time.March, 20, 0)
		available(t, l, 5)
		window(t, takes(t, l, 5), 31*day-time.Hour) // summer time starts
		require.Equal(t, 31*day-time.Hour, l.ReplenishmentPeriod())
		window(t, old, 31*day)
		require.True(t, l.AutoReplenishing())
		require.False(t, l.TryReplenish())
	})
}

// A queue that needs several windows waits for each as long as it is.
func TestAQueueOfWindowsOfTheirOwnLengths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, order := range []core.QueueOrder{core.OldestFirst, core.NewestFirst} {
			l := fixed(t, core.FixedWindowOptions{PermitLimit: 2, Calendar: core.Monthly(1, nil), QueueLimit: 10, QueueOrder: order})
			lengths := []time.Duration{31 * day, 29 * day, 31 * day}
			start := time.Now()
			if start.Month() != time.January {
				lengths = []time.Duration{30 * day, 31 * day, 30 * day} // from April
			}
			takes(t, l, 2)
			a := queues(t, l, 2)
			b, c := queues(t, l, 2), queues(t, l, 1)
			if order == core.NewestFirst {
				a, c = c, a
				rejected(t, l, 2, lengths[0])
			} else {
				rejected(t, l, 2, time.Date(2000, start.Month()+4, 1, 0, 0, 0, 0, time.UTC).Sub(start))
			}
			time.Sleep(lengths[0])
			window(t, a.granted(t), lengths[1])
			b.waits(t)
			time.Sleep(lengths[1])
			window(t, b.granted(t), lengths[2])
			time.Sleep(lengths[2] - 1)
			c.waits(t)
			time.Sleep(1)
			c.granted(t)
			counts(t, l, 2, 2-c.permits, 0, 4, 1)
			require.NoError(t, l.Close())
			sleepUntil(start.Month()+3, 1, 0)
		}
	})
}

func TestSettleInALaterWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := calendric(t, 10, core.Daily(nil))
		lease := takes(t, l, 3)
		sleepUntil(time.January, 2, 0)
		lease = lease.Settle(5) // the difference is charged to the current window
		available(t, l, 8)
		lease.Refund() // but that is not the window of the grant
		available(t, l, 8)
	})
}

func TestUpdateFromAndToACalendar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, core.FixedWindowOptions{Name: "n", PermitLimit: 5, Window: time.Hour, QueueLimit: 9})
		time.Sleep(time.Minute)
		old := takes(t, l, 3)
		daily := core.FixedWindowOptions{Name: "n", PermitLimit: 5, Calendar: core.Daily(nil), QueueLimit: 9}
		require.NoError(t, l.Update(daily))
		require.Equal(t, daily, l.Options())
		old.Refund() // before another grid
		rejected(t, l, 3, day-time.Minute)
		window(t, old, time.Hour)
		a := queues(t, l, 5)
		time.Sleep(time.Hour)
		a.waits(t)
		monthly := core.FixedWindowOptions{PermitLimit: 6, Calendar: core.Monthly(2, nil), QueueLimit: 9}
		require.NoError(t, l.Update(monthly))
		require.Equal(t, monthly, l.Options())
		require.Equal(t, 31*day, l.ReplenishmentPeriod())
		require.Equal(t, "fixed window of a month day 2: 3 of 6 available, 5 queued, 1 granted, 1 rejected", l.String())
		sleepUntil(time.January, 2, -1)
		a.waits(t)
		time.Sleep(1)
		a.granted(t)
		plain := core.FixedWindowOptions{PermitLimit: 6, Window: time.Minute, QueueLimit: 9}
		require.NoError(t, l.Update(plain))
		require.Equal(t, plain, l.Options())
		b := queues(t, l, 6)
		time.Sleep(time.Minute)
		b.granted(t)
		time.Sleep(time.Minute)
		d, idle := l.IdleFor()
		require.True(t, idle)
		require.Zero(t, d)
	})
}

func TestOptionsWithACalendar(t *testing.T) {
	for _, c := range []struct {
		o    core.FixedWindowOptions
		want string
	}{
		{core.FixedWindowOptions{Calendar: core.Monthly(0, nil)}, "core: FixedWindowOptions.Calendar = month day 0, want a day from 1 to 31"},
		{core.FixedWindowOptions{Calendar: core.Monthly(32, nil)}, "core: FixedWindowOptions.Calendar = month day 32, want a day from 1 to 31"},
		{core.FixedWindowOptions{Calendar: core.Weekly(7, nil)}, "core: FixedWindowOptions.Calendar = week from 7, want a weekday from Sunday to Saturday"},
		{core.FixedWindowOptions{Calendar: core.Daily(nil), Window: time.Hour}, "core: FixedWindowOptions.Window = 1h0m0s, want 0 with a Calendar"},
		{
			core.FixedWindowOptions{Calendar: core.Daily(nil), Anchor: time.Unix(0, 0).UTC()},
			"core: FixedWindowOptions.Anchor = 1970-01-01 00:00:00 +0000 UTC, want the zero time with a Calendar",
		},
		{core.FixedWindowOptions{Calendar: core.Daily(nil), ManualReplenishment: true}, "core: FixedWindowOptions.ManualReplenishment = true, want false with a Calendar"},
		{core.FixedWindowOptions{}, "core: FixedWindowOptions.Window = 0s, want above 0"},
	} {
		c.o.PermitLimit = 1
		_, err := core.NewFixedWindow(c.o)
		require.EqualError(t, err, c.want)
		l := calendric(t, 1, core.Daily(nil))
		before := l.Options()
		require.EqualError(t, l.Update(c.o), c.want)
		require.Equal(t, before, l.Options())
	}
	require.Equal(t, core.Daily(nil), core.Daily(time.UTC))
	require.NotEqual(t, core.Daily(nil), core.Daily(time.Local))
	require.Empty(t, core.Calendar{}.String())
}

// A limiter from outside a bubble, whose clock is a quarter of a century ahead, keeps its window.
func TestACalendarOfAnotherBubble(t *testing.T) {
	l := calendric(t, 2, core.Daily(nil))
	takes(t, l, 1)
	lease := takes(t, l, 1)
	_, end := core.Daily(nil).Bounds(time.Now())
	synctest.Test(t, func(t *testing.T) {
		rejected(t, l, 1, time.Until(end))
		acquiresWithin(t, l, 1, time.Until(end)-1).rejected(t, "deadline too soon", time.Until(end))
		lease.Refund()
		lease = takes(t, l, 1)
		time.Sleep(time.Hour)
		lease.Refund()
		available(t, l, 1)
	})
}
