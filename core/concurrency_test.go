package core_test

import (
	"math"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

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
