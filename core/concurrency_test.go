package core_test

import (
	"math"
	"testing"
	"testing/synctest"
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
	})
}
