package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// For a limiter from outside a bubble the clock goes back by years: nothing takes longer than it ever does.
func TestAClockThatGoesBack(t *testing.T) {
	for name, l := range four(t, 2, 2) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				available(t, l, 2)
				lease := takes(t, l, 2)
				retry, _ := core.RetryAfter.From(l.TryAcquire(1))
				require.LessOrEqual(t, retry, time.Second)
				c := acquires(t, l, 1)
				lease.Release()
				time.Sleep(time.Second)
				synctest.Wait()
				require.True(t, c.done.Load())
				require.NoError(t, c.err)
				c.lease.Release()
				time.Sleep(2 * time.Second)
				available(t, l, 2)
			})
		})
	}
}
