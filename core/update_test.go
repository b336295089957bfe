package core_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func TestUpdateOfAConcurrencyLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.ConcurrencyLimiterOptions{Name: "old", PermitLimit: 5, QueueLimit: 9}
		l, err := core.NewConcurrencyLimiter(o)
		require.NoError(t, err)
		held := []core.Lease{takes(t, l, 2), takes(t, l, 2)}
		three, two, one := queues(t, l, 3), queues(t, l, 2), queues(t, l, 1)

		// Grown: who now fits is served at once.
		o.PermitLimit, o.Name = 7, "new"
		require.NoError(t, l.Update(o))
		lease := three.granted(t)
		name, _ := core.LimiterName.From(lease)
		require.Equal(t, "new", name)
		two.waits(t)

		// Shrunk below what is held: nothing is available until enough is back.
		o.PermitLimit = 3
		require.NoError(t, l.Update(o))
		counts(t, l, 3, 0, 3, 3, 0)
		lease.Release() // 4 held
		counts(t, l, 3, 0, 3, 3, 0)
		held[0].Release() // 2 held
		two.waits(t)
		available(t, l, 1)
		held[1].Release() // 0 held
		two.granted(t)
		one.granted(t)
		counts(t, l, 3, 0, 0, 5, 0)
		old, _ := core.LimiterName.From(held[0])
		require.Equal(t, "old", old, "a lease says what was in force")

		// Who waits for more than the limit never gets it.
		four := queues(t, l, 3)
		o.PermitLimit = 2
		require.NoError(t, l.Update(o))
		four.fails(t, core.ErrPermitsExceedLimit)
		counts(t, l, 2, 0, 0, 5, 0)
	})
}

func TestUpdateLeavesTheQueueWhole(t *testing.T) {
	eachOfFour(t, 4, 8, func(t *testing.T, l everything) {
		takes(t, l, 4)
		a, b := queues(t, l, 4), queues(t, l, 4)
		require.NoError(t, update(l, 4, 2))
		a.waits(t)
		b.waits(t)
		require.Equal(t, 8, l.Statistics().Queued)
		require.ErrorIs(t, acquires(t, l, 1).err, core.ErrRejected)
		a.cancelled(t)
		b.cancelled(t)
		queues(t, l, 2)
	})
}

// What was taken stays taken, of windows too.
func TestUpdateKeepsWhatIsTaken(t *testing.T) {
	eachOfFour(t, 10, 5, func(t *testing.T, l everything) {
		if _, ok := l.(*core.TokenBucket); ok {
			return
		}
		takes(t, l, 7)
		require.NoError(t, update(l, 20, 5))
		available(t, l, 13)
		require.NoError(t, update(l, 5, 5))
		available(t, l, 0)
		require.NoError(t, update(l, 8, 5))
		available(t, l, 1)
		require.NoError(t, update(l, math.MaxInt, 5))
		available(t, l, math.MaxInt-7)
		require.NoError(t, update(l, 1, 5))
		available(t, l, 0)
		a := queues(t, l, 1)
		require.NoError(t, update(l, 8, 5))
		a.granted(t)
	})
}

// A bucket keeps the tokens that it has: growing mints none, shrinking leaves no debt.
func TestUpdateKeepsABucketsTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := four(t, 10, 5)["bucket"]
		takes(t, l, 7)
		require.NoError(t, update(l, 20, 5))
		available(t, l, 3)
		require.NoError(t, update(l, 5, 5))
		available(t, l, 3)
		require.NoError(t, update(l, 2, 5))
		available(t, l, 2)
		_, idle := l.IdleFor()
		require.True(t, idle, "what does not fit is gone, and so is the debt")
		time.Sleep(time.Minute)
		require.NoError(t, update(l, 8, 5))
		available(t, l, 2)
		time.Sleep(time.Second - 1)
		available(t, l, 2)
		time.Sleep(1)
		available(t, l, 3) // it fills up from the update on
		require.NoError(t, update(l, math.MaxInt, 5))
		available(t, l, 3)
		time.Sleep(time.Second)
		available(t, l, 4)
	})
}

func TestUpdateToWhatIsFullStaysFull(t *testing.T) {
	eachOfFour(t, 10, 5, func(t *testing.T, l everything) {
		if _, ok := l.(*core.TokenBucket); ok {
			return
		}
		require.NoError(t, update(l, 20, 5))
		available(t, l, 20)
		require.NoError(t, update(l, 2, 5))
		available(t, l, 2)
	})
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

func TestABadUpdateChangesNothing(t *testing.T) {
	eachOfFour(t, 4, 8, func(t *testing.T, l everything) {
		takes(t, l, 3)
		a := queues(t, l, 4)
		require.Error(t, update(l, 0, 3))
		require.Error(t, update(l, 9, -1))
		a.waits(t)
		counts(t, l, 4, 1, 4, 1, 0)
	})
}

func TestUpdateAfterClose(t *testing.T) {
	eachOfFour(t, 4, 8, func(t *testing.T, l everything) {
		require.NoError(t, l.Close())
		require.Equal(t, core.ErrClosed, update(l, 5, 5))
		require.Error(t, update(l, 0, 5))
		counts(t, l, 4, 4, 0, 0, 0)
	})
}

// The next tokens come when they were due, or one new period from now if that is sooner.
func TestUpdateOfABucketsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 10}
		l := bucket(t, o)
		takes(t, l, 10)
		time.Sleep(1500 * time.Millisecond)
		a := queues(t, l, 4)
		o.TokensPerPeriod = 3
		require.NoError(t, l.Update(o))
		a.waits(t)
		time.Sleep(500*time.Millisecond - 1)
		a.waits(t)
		time.Sleep(1)
		a.granted(t)
		rejected(t, l, 1, time.Second)

		time.Sleep(200 * time.Millisecond)
		o.ReplenishmentPeriod = 300 * time.Millisecond
		require.NoError(t, l.Update(o))
		rejected(t, l, 1, 300*time.Millisecond)
		time.Sleep(100 * time.Millisecond)
		o.ReplenishmentPeriod = time.Hour
		require.NoError(t, l.Update(o))
		rejected(t, l, 1, 200*time.Millisecond)
		o.ReplenishmentPeriod = 100 * time.Millisecond
		require.NoError(t, l.Update(o))
		rejected(t, l, 1, 100*time.Millisecond)
	})
}

func TestUpdateToAnotherOrder(t *testing.T) {
	eachOfFour(t, 4, 8, func(t *testing.T, l everything) {
		c, ok := l.(*core.ConcurrencyLimiter)
		if !ok {
			return
		}
		held := takes(t, c, 4)
		a, b := queues(t, c, 3), queues(t, c, 3)
		require.NoError(t, c.Update(core.ConcurrencyLimiterOptions{PermitLimit: 4, QueueLimit: 8, QueueOrder: core.NewestFirst}))
		held.Release()
		b.granted(t)
		a.waits(t)
	})
}

func TestUpdateFromManualToAutomatic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.FixedWindowOptions{PermitLimit: 2, Window: time.Second, QueueLimit: 2, ManualReplenishment: true}
		l := fixed(t, o)
		takes(t, l, 2)
		a := queues(t, l, 1)
		time.Sleep(1500 * time.Millisecond)
		a.waits(t)
		o.ManualReplenishment = false
		require.NoError(t, l.Update(o))
		a.granted(t)
		require.True(t, l.AutoReplenishing())
		takes(t, l, 1)
		b := queues(t, l, 1)
		time.Sleep(500 * time.Millisecond)
		b.granted(t)
		o.ManualReplenishment = true
		require.NoError(t, l.Update(o))
		takes(t, l, 1)
		c := queues(t, l, 1)
		time.Sleep(time.Hour)
		c.waits(t)
		require.True(t, l.TryReplenish())
		c.granted(t)
	})
}

// On another grid what was taken stays taken, and comes back in the end.
func TestUpdateOfAWindowsGrid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.SlidingWindowOptions{PermitLimit: 10, Window: 4 * time.Second, SegmentsPerWindow: 4, QueueLimit: 10}
		l := sliding(t, o)
		for _, n := range []int{1, 2, 3} {
			takes(t, l, n)
			time.Sleep(time.Second)
		}
		o.Window, o.SegmentsPerWindow = 6*time.Second, 3
		require.NoError(t, l.Update(o))
		available(t, l, 4)
		// Of the segments that begin at 0, 1 and 2 s, the first two lie in one of the new.
		time.Sleep(3*time.Second - 1)
		available(t, l, 4)
		time.Sleep(1)
		available(t, l, 7)
		time.Sleep(2*time.Second - 1)
		available(t, l, 7)
		time.Sleep(1)
		available(t, l, 10)
		time.Sleep(time.Second)
		takes(t, l, 10)
		rejected(t, l, 10, 5*time.Second) // the segment of 8 s to 10 s, back at 14 s
	})
}

// TestUpdateToAPeriodOfCenturies: the tokens on their way come as they would have, and then
// none for as long as the new period says.
func TestUpdateToAPeriodOfCenturies(t *testing.T) {
	for _, manual := range []bool{false, true} {
		for _, period := range []time.Duration{math.MaxInt64, math.MaxInt64 - time.Microsecond, math.MaxInt64/2 + 1} {
			t.Run(fmt.Sprintf("%v/manual=%v", period, manual), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := core.TokenBucketOptions{
						TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, ManualReplenishment: manual,
					}
					l := bucket(t, o)
					takes(t, l, 10)
					time.Sleep(time.Second / 2)
					o.ReplenishmentPeriod = period
					require.NoError(t, l.Update(o))
					time.Sleep(time.Second/2 - 1)
					l.TryReplenish()
					require.Zero(t, l.Available())
					for _, later := range []time.Duration{1, time.Second, time.Hour} {
						time.Sleep(later)
						l.TryReplenish()
						require.Equal(t, 1, l.Available())
					}
				})
			})
		}
	}
}

func TestWhatIsDueStaysDueFromGridToGrid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.SlidingWindowOptions{PermitLimit: 3, Window: 5 * time.Second, SegmentsPerWindow: 5, ManualReplenishment: true}
		l := sliding(t, o)
		takes(t, l, 3)
		time.Sleep(6 * time.Second)
		for _, window := range []time.Duration{100 * time.Second, 50 * time.Second} {
			o.Window = window
			require.NoError(t, l.Update(o))
		}
		require.True(t, l.TryReplenish())
		require.Equal(t, 3, l.Available())
	})
}

// The anchor is read once, also of a limiter that is updated: what changes only the limit moves no
// boundary, not even by the nanoseconds between two readings of the clocks. In real time.
func TestAnUpdateKeepsTheAnchoredGrid(t *testing.T) {
	anchor := time.Date(2024, 2, 29, 12, 0, 0, 1, time.UTC)
	for name, l := range map[string]resettable{
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
			l.Refund(a) // as for all leases of one grid
			available(t, l, 6)
		})
	}
}
