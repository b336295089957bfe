package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func TestAFixedWindowGivesAllBackAtTheBoundary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, core.FixedWindowOptions{PermitLimit: 5, Window: time.Second, QueueLimit: 20})
		time.Sleep(900 * time.Millisecond)
		takes(t, l, 5)
		rejected(t, l, 1, 100*time.Millisecond)
		a, b := queues(t, l, 5), queues(t, l, 5)
		rejected(t, l, 1, 2100*time.Millisecond)
		time.Sleep(100*time.Millisecond - 1)
		a.waits(t)
		time.Sleep(1)
		a.granted(t)
		time.Sleep(time.Second)
		b.granted(t)
		time.Sleep(17*time.Second + 300*time.Millisecond)
		available(t, l, 5)
		takes(t, l, 5)
		rejected(t, l, 1, 700*time.Millisecond) // the grid has not moved
	})
}

func TestWindowsLieOnTheGridOfTheirAnchor(t *testing.T) {
	// A bubble begins at midnight UTC of 2000-01-01.
	midnight := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		anchor time.Time
		window time.Duration
		asleep time.Duration
		next   time.Duration
	}{
		"zero: the creation":       {time.Time{}, time.Minute, 17 * time.Second, 43 * time.Second},
		"the same instant":         {midnight, time.Minute, 17 * time.Second, 43 * time.Second},
		"a little later":           {midnight.Add(5 * time.Second), time.Minute, 0, 5 * time.Second},
		"a little earlier":         {midnight.Add(-5 * time.Second), time.Minute, 0, 55 * time.Second},
		"one nanosecond later":     {midnight.Add(1), time.Minute, 0, 1},
		"one nanosecond earlier":   {midnight.Add(-1), time.Minute, 0, time.Minute - 1},
		"noon, per day":            {midnight.Add(12 * time.Hour), 24 * time.Hour, time.Hour, 11 * time.Hour},
		"another zone's midnight":  {time.Date(2000, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)), 24 * time.Hour, 0, 23 * time.Hour},
		"1970":                     {time.Unix(0, 0), 24 * time.Hour, 0, 24 * time.Hour},
		"before 1970":              {time.Date(1969, 12, 31, 23, 59, 59, 999999999, time.UTC), time.Hour, 0, time.Hour - 1},
		"1582":                     {time.Date(1582, 10, 15, 0, 0, 0, 7, time.UTC), time.Hour, 0, 7},
		"the year 1":               {time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Hour, 0, 1},
		"before our epoch":         {time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC), time.Hour, time.Minute, 59 * time.Minute},
		"the year 9999":            {time.Date(9999, 12, 31, 23, 30, 0, 0, time.UTC), time.Hour, 0, 30 * time.Minute},
		"the year 200000":          {time.Date(200000, 1, 1, 0, 0, 3, 0, time.UTC), time.Hour, 0, 3 * time.Second},
		"a window of a nanosecond": {midnight.Add(time.Hour), 1, 0, 1},
		"a window of 292 years":    {midnight.Add(time.Hour), 1<<63 - 1, 0, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := fixed(t, core.FixedWindowOptions{PermitLimit: 1, Window: c.window, Anchor: c.anchor, QueueLimit: 1})
				s := sliding(t, core.SlidingWindowOptions{PermitLimit: 1, Window: c.window, SegmentsPerWindow: 1, Anchor: c.anchor, QueueLimit: 1})
				time.Sleep(c.asleep)
				takes(t, f, 1)
				takes(t, s, 1)
				rejected(t, f, 1, c.next)
				rejected(t, s, 1, c.next)
				a, b := queues(t, f, 1), queues(t, s, 1)
				time.Sleep(c.next - 1)
				a.waits(t)
				b.waits(t)
				time.Sleep(1)
				a.granted(t)
				b.granted(t)
			})
		})
	}
}

// Year zero of the grid: by big numbers, without the package's arithmetic. 1582-10-15 is
// a whole number of hours from 2000-01-01, so are the others above.
func TestAnAnchorFarAwayIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// 7 s do not divide the time since the year 1; days and seconds tell the rest.
		anchor := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
		seconds := time.Now().Unix() - anchor.Unix()
		l := fixed(t, core.FixedWindowOptions{PermitLimit: 1, Window: 7 * time.Second, Anchor: anchor.Add(1)})
		takes(t, l, 1)
		if rest := seconds % 7; rest == 0 {
			rejected(t, l, 1, 1)
		} else {
			rejected(t, l, 1, time.Duration(7-rest)*time.Second+1)
		}
	})
}

func TestAManualFixedWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, core.FixedWindowOptions{PermitLimit: 3, Window: time.Second, QueueLimit: 3, ManualReplenishment: true})
		takes(t, l, 1)
		time.Sleep(1500 * time.Millisecond)
		takes(t, l, 1) // belongs to the second window, though the first was not given back
		available(t, l, 1)
		time.Sleep(400 * time.Millisecond)
		a := queues(t, l, 2)
		require.True(t, l.TryReplenish())
		a.granted(t)
		available(t, l, 0)
		require.False(t, l.TryReplenish())
		time.Sleep(100 * time.Millisecond)
		available(t, l, 0)
		require.True(t, l.TryReplenish())
		available(t, l, 3)
		require.False(t, l.TryReplenish())
	})
}

func TestRefundedPermitsDoNotComeBackTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, core.FixedWindowOptions{PermitLimit: 3, Window: time.Second, ManualReplenishment: true})
		l.Refund(takes(t, l, 3))
		time.Sleep(2 * time.Second)
		require.False(t, l.TryReplenish(), "nothing was taken any more")
		d, idle := l.IdleFor()
		require.True(t, idle)
		require.Equal(t, 2*time.Second, d, "since the refund")
	})
}

// A waiter that an update of the grid serves learns when all permits are back on the new grid.
func TestResetAfterOfAWaiterServedByAnUpdate(t *testing.T) {
	for _, n := range []int{0, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			o := core.FixedWindowOptions{PermitLimit: 5, Window: time.Second, QueueLimit: 5}
			l := fixed(t, o)
			takes(t, l, 5)
			time.Sleep(100 * time.Millisecond)
			a := queues(t, l, n)
			o.PermitLimit, o.Window = 8, 700*time.Millisecond
			require.NoError(t, l.Update(o))
			a.granted(t)
			reset, ok := core.ResetAfter.From(a.lease)
			require.True(t, ok)
			require.Equal(t, 600*time.Millisecond, reset)
		})
	}
}
