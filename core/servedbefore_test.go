package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// Permits come for a waiter, and at that very instant, perhaps before the timer runs, the limiter
// is updated or reset. The waiter was served before that, and so its lease is of the settings in
// force then: it says their limit, and gives nothing back to a limiter that was reset.
func TestServedBeforeAChange(t *testing.T) {
	eachOfFour(t, 5, 9, func(t *testing.T, l everything) {
		if _, ok := l.(core.Replenisher); !ok {
			return // nothing comes with time
		}
		for i := range 200 {
			limit := l.Statistics().Limit
			takes(t, l, limit)
			retry, _ := core.RetryAfter.From(l.TryAcquire(1))
			a := queues(t, l, 1)
			time.Sleep(retry)
			next := 5 + i%2
			require.NoError(t, update(l, next, 9))
			lease := a.granted(t)
			of, _ := core.PermitLimit.From(lease)
			require.Equal(t, limit, of)
			time.Sleep(time.Minute)
			l.Statistics()
		}
		r, ok := l.(core.Resetter)
		require.True(t, ok)
		for range 200 {
			takes(t, l, l.Statistics().Limit)
			retry, _ := core.RetryAfter.From(l.TryAcquire(2))
			a := queues(t, l, 2)
			time.Sleep(retry)
			r.Reset()
			lease := a.granted(t)
			takes(t, l, 3)
			before := l.Available()
			l.Refund(lease)
			available(t, l, before)
			time.Sleep(time.Minute)
			available(t, l, l.Statistics().Limit)
		}
	})
}
