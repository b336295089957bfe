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

func TestLimitsAroundTheSizesOfAWord(t *testing.T) {
	for shift := 20; shift < strconv.IntSize-1; shift++ {
		for d := -1; d <= 1; d++ {
			limit := 1<<shift + d
			for name, l := range four(t, limit, limit) {
				t.Run(name, func(t *testing.T) {
					available(t, l, limit)
					half := takes(t, l, limit/2)
					available(t, l, limit-limit/2)
					rest := takes(t, l, limit-limit/2)
					available(t, l, 0)
					require.Equal(t, limit-limit/2, rest.Permits())
					require.False(t, l.TryAcquire(limit).Acquired())
					l.Refund(half)
					available(t, l, limit/2)
					l.Refund(rest)
					available(t, l, limit)
					counts(t, l, limit, limit, 0, 2, 1)
				})
			}
		}
	}
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

// A lease that is held while very many come and go is released once, like any other.
func TestALeaseThatIsHeldForLong(t *testing.T) {
	l := concurrency(t, 10, 0)
	var held []core.Lease
	for range 4 {
		held = append(held, takes(t, l, 2))
		for range 5000 {
			takes(t, l, 1).Release()
		}
	}
	counts(t, l, 10, 2, 0, 20_004, 0)
	for i, lease := range held {
		lease.With(core.ReasonPhrase.With("copy")).Release()
		available(t, l, 4+2*i)
		lease.Release()
		available(t, l, 4+2*i)
	}
	takes(t, l, 10)
	for _, lease := range held {
		lease.Release()
	}
	available(t, l, 0)
}
