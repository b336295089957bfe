package core_test

import (
	"math"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func TestAConcurrencyLimiterHoldsPermitsUntilTheyAreReleased(t *testing.T) {
	l := concurrency(t, 10, 0)
	a, b, c := takes(t, l, 1), takes(t, l, 4), takes(t, l, 5)
	counts(t, l, 10, 0, 0, 3, 0)
	rejected(t, l, 1, 0)
	b.Release()
	available(t, l, 4)
	rejected(t, l, 5, 0)
	d := takes(t, l, 2)
	a.Release()
	c.Release()
	available(t, l, 8)
	d.Release()
	counts(t, l, 10, 10, 0, 4, 2)
}

func TestAConcurrencyLimiterOfAllThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, math.MaxInt, math.MaxInt)
		one := takes(t, l, 1)
		rejected(t, l, math.MaxInt, 0)
		rest := takes(t, l, math.MaxInt-1)
		available(t, l, 0)
		all := queues(t, l, math.MaxInt)
		acquires(t, l, 1).rejected(t, "queue limit reached", 0)
		rest.Release()
		available(t, l, math.MaxInt-1)
		one.Release()
		all.granted(t).Release()
		counts(t, l, math.MaxInt, math.MaxInt, 0, 3, 2)

		// Around the sizes that a packed word might hold.
		for shift := range strconv.IntSize - 2 {
			for _, n := range []int{1<<shift - 1, 1 << shift, 1<<shift + 1} {
				if n == 0 {
					continue
				}
				a := takes(t, l, n)
				require.Equal(t, n, a.Permits())
				b := takes(t, l, 1)
				available(t, l, math.MaxInt-n-1)
				a.Release()
				available(t, l, math.MaxInt-1)
				b.Release()
				available(t, l, math.MaxInt)
			}
		}
	})
}

// A Release synchronizes before the return of the Acquire that it unblocks: the race
// detector would see the plain variable.
func TestAReleaseSynchronizes(t *testing.T) {
	l := concurrency(t, 1, 100)
	shared := 0
	done := make(chan struct{})
	for range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 500 {
				lease, err := l.Acquire(t.Context(), 1)
				if err != nil {
					return
				}
				shared++
				lease.Release()
			}
		}()
	}
	for range 8 {
		<-done
	}
	require.Equal(t, 8*500, shared)
}

func TestUpdateOfAConcurrencyLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.ConcurrencyLimiterOptions{Name: "old", PermitLimit: 5, QueueLimit: 9}
		l, err := core.NewConcurrencyLimiter(o)
		require.NoError(t, err)
		held := []core.Lease{takes(t, l, 2), takes(t, l, 2)}
		three, two, one := queues(t, l, 3), queues(t, l, 2), queues(t, l, 1)

		// Grown: a waiter that now fits is served immediately.
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
		require.Equal(t, "old", old, "a lease has the settings of its grant")

		// Who waits for more than the limit never gets it.
		four := queues(t, l, 3)
		o.PermitLimit = 2
		require.NoError(t, l.Update(o))
		four.fails(t, core.ErrPermitsExceedLimit)
		counts(t, l, 2, 0, 0, 5, 0)
	})
}
