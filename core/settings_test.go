package core_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// reload updates a limiter to the options that it has.
func reload(tb testing.TB, l core.Limiter) {
	tb.Helper()
	switch l := l.(type) {
	case *core.ConcurrencyLimiter:
		require.NoError(tb, l.Update(l.Options()))
	case *core.TokenBucket:
		require.NoError(tb, l.Update(l.Options()))
	case *core.FixedWindow:
		require.NoError(tb, l.Update(l.Options()))
	case *core.SlidingWindow:
		require.NoError(tb, l.Update(l.Options()))
	case *core.ChainedLimiter:
		for _, part := range l.Limiters() {
			reload(tb, part)
		}
	default:
		tb.Errorf("%T", l)
	}
}

// A configuration that is loaded again and again to the same values changes nothing: refunds
// are whole, and waiters keep their place and their time.
func TestEqualUpdatesChangeNothing(t *testing.T) {
	eachOfFour(t, 5, 9, func(t *testing.T, l everything) {
		time.Sleep(150 * time.Millisecond)
		lease := takes(t, l, 3).Settle(5)
		reload(t, l)
		lease.Refund()
		available(t, l, 5)

		takes(t, l, 5)
		before := l.TryAcquire(2)
		a := queues(t, l, 3)
		b := queues(t, l, 2)
		statistics := l.Statistics()
		retry, timed := core.RetryAfter.From(before) // of two, which fit when three do
		for range 100 {
			reload(t, l)
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, statistics, l.Statistics())
		if !timed {
			a.cancel()
			b.cancel()
			return
		}
		time.Sleep(retry - 100*time.Millisecond)
		a.granted(t)
		time.Sleep(time.Second)
		synctest.Wait()
		require.True(t, b.done.Load() && b.lease.Acquired())
	})
}

func TestWindowsLieOnTheGridOfTheirAnchor(t *testing.T) {
	// A bubble starts at midnight UTC of 2000-01-01.
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
		"7 s since the year 1":     {time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), 7 * time.Second, 0, 5*time.Second + 1}, // 2 s after a boundary
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

// reports finds that the options are those that were given last, to New or to an Update that was good, also after Close.
func reports[O any](t *testing.T, l interface {
	Options() O
	Update(o O) error
	Close() error
}, all ...O,
) {
	t.Helper()
	for i, o := range all {
		if i > 0 {
			require.NoError(t, l.Update(o))
		}
		require.Equal(t, o, l.Options())
		var bad O
		require.Error(t, l.Update(bad))
		require.Equal(t, o, l.Options())
	}
	require.NoError(t, l.Close())
	require.Equal(t, all[len(all)-1], l.Options())
}

func TestOptionsAreTheCurrentOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		midnight := time.Date(2026, 3, 1, 0, 0, 0, 0, time.FixedZone("here", 3600))
		c := core.ConcurrencyLimiterOptions{Name: "c", PermitLimit: 3, QueueLimit: 4, QueueOrder: core.NewestFirst}
		reports(t, core.Must(core.NewConcurrencyLimiter(c)), c, core.ConcurrencyLimiterOptions{PermitLimit: math.MaxInt, QueueLimit: math.MaxInt})

		b := core.TokenBucketOptions{
			Name: "b", TokenLimit: math.MaxInt, TokensPerPeriod: 7, ReplenishmentPeriod: 13,
			QueueLimit: 9, QueueOrder: core.NewestFirst, ManualReplenishment: true,
		}
		reports(t, bucket(t, b), b, core.PerSecond(20, 1))

		f := core.FixedWindowOptions{
			Name: "f", PermitLimit: 3, Window: time.Hour, Anchor: midnight,
			QueueLimit: 9, QueueOrder: core.NewestFirst, ManualReplenishment: true,
		}
		now, none := f, f
		now.Anchor, none.Anchor = time.Now(), time.Time{} // now: with a monotonic reading
		reports(t, fixed(t, f), f, now, none)

		s := core.SlidingWindowOptions{
			Name: "s", PermitLimit: 3, Window: time.Hour, SegmentsPerWindow: 60, Anchor: midnight,
			QueueLimit: 9, QueueOrder: core.NewestFirst, ManualReplenishment: true,
		}
		reports(t, sliding(t, s), s, core.SlidingWindowOptions{PermitLimit: 4, Window: time.Minute, SegmentsPerWindow: 1})
	})
}

func TestOptionsOfAZeroLimiterAreZero(t *testing.T) {
	require.Zero(t, new(core.ConcurrencyLimiter).Options())
	require.Zero(t, new(core.TokenBucket).Options())
	require.Zero(t, new(core.FixedWindow).Options())
	require.Zero(t, new(core.SlidingWindow).Options())
	require.Zero(t, new(core.TokenBucket).QueueOrder())
}

// update changes the limits, and leaves all else as four has it.
func update(l everything, limit, queue int) error {
	switch l := l.(type) {
	case *core.ConcurrencyLimiter:
		return l.Update(core.ConcurrencyLimiterOptions{PermitLimit: limit, QueueLimit: queue})
	case *core.TokenBucket:
		return l.Update(core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: queue})
	case *core.FixedWindow:
		return l.Update(core.FixedWindowOptions{PermitLimit: limit, Window: time.Second, QueueLimit: queue})
	case *core.SlidingWindow:
		return l.Update(core.SlidingWindowOptions{PermitLimit: limit, Window: time.Second, SegmentsPerWindow: 2, QueueLimit: queue})
	}
	panic("unknown")
}

func TestUpdateAfterClose(t *testing.T) {
	eachOfFour(t, 4, 8, func(t *testing.T, l everything) {
		require.NoError(t, l.Close())
		require.Equal(t, core.ErrClosed, update(l, 5, 5))
		require.Error(t, update(l, 0, 5))
		counts(t, l, 4, 4, 0, 0, 0)
	})
}

// The anchor is read once, also of a limiter that is updated: what changes only the limit moves no
// boundary, not even by the nanoseconds between two readings of the clocks. In real time.
func TestAnUpdateKeepsTheAnchoredGrid(t *testing.T) {
	anchor := time.Date(2024, 2, 29, 12, 0, 0, 1, time.UTC)
	for name, l := range map[string]everything{
		"fixed":   fixed(t, core.FixedWindowOptions{PermitLimit: 5, Window: time.Hour, Anchor: anchor}),
		"sliding": sliding(t, core.SlidingWindowOptions{PermitLimit: 5, Window: time.Hour, Anchor: anchor, SegmentsPerWindow: 7}),
	} {
		t.Run(name, func(t *testing.T) {
			a := takes(t, l, 4)
			for i := range 100 {
				switch l := l.(type) {
				case *core.FixedWindow:
					o := l.Options()
					o.PermitLimit, o.QueueLimit = 6, i+1
					o.Anchor = o.Anchor.Add(time.Duration(i-50) * time.Hour).In(time.Local) // of the same grid
					require.NoError(t, l.Update(o))
				case *core.SlidingWindow:
					o := l.Options()
					o.PermitLimit, o.QueueLimit = 6, i+1
					require.NoError(t, l.Update(o))
				}
			}
			a.Refund() // as for all leases of one grid
			available(t, l, 6)
		})
	}
}
