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

func TestMoreTokensThanTheBucketHoldsIsAnError(t *testing.T) {
	// The natural port of rate.NewLimiter(20, 1), which would give one a second.
	o := core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 20, ReplenishmentPeriod: time.Second}
	_, err := core.NewTokenBucket(o)
	require.ErrorContains(t, err, "core: TokenBucketOptions.TokensPerPeriod = 20, want at most ")
	require.ErrorContains(t, err, "core.PerSecond")
	l := bucket(t, core.PerSecond(20, 1))
	require.ErrorContains(t, l.Update(o), "core.PerSecond")
	require.Equal(t, core.PerSecond(20, 1), l.Options())

	// Of a bad limit nothing follows.
	o.TokenLimit = 0
	_, err = core.NewTokenBucket(o)
	require.EqualError(t, err, "core: TokenBucketOptions.TokenLimit = 0, want at least 1")
}

func TestABucketIdleForCenturies(t *testing.T) {
	century := 100 * 365 * 24 * time.Hour // no constant: a machine of 32 bits would not compile int(century)
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: math.MaxInt, TokensPerPeriod: math.MaxInt, ReplenishmentPeriod: 1})
		takes(t, l, math.MaxInt)
		rejected(t, l, math.MaxInt, 1)
		time.Sleep(2 * century)
		takes(t, l, math.MaxInt)
		rejected(t, l, 1, 1)
	})
	synctest.Test(t, func(t *testing.T) {
		if math.MaxInt < math.MaxInt64 {
			return // this machine's largest bucket is full in seconds
		}
		// One token each nanosecond fills it in 292 years: no more than two centuries of it.
		l := bucket(t, core.TokenBucketOptions{TokenLimit: math.MaxInt, TokensPerPeriod: 1, ReplenishmentPeriod: 1})
		takes(t, l, math.MaxInt)
		rejected(t, l, math.MaxInt, math.MaxInt64)
		time.Sleep(century)
		available(t, l, int(century))
		time.Sleep(century)
		available(t, l, 2*int(century))
		takes(t, l, 2*int(century))
		rejected(t, l, 1, 1)
	})
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: century, QueueLimit: 2})
		takes(t, l, 2)
		rejected(t, l, 2, 2*century)
		a := queues(t, l, 2)
		time.Sleep(2 * century)
		a.granted(t)
	})
}

// An instant that never comes does not become one that does for those behind.
func TestBehindAWaiterThatIsNeverServed(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 3, TokensPerPeriod: 1, ReplenishmentPeriod: 2 * century, QueueLimit: 3})
		takes(t, l, 3)
		a := queues(t, l, 2) // in four centuries
		lease := l.TryAcquire(1)
		d, ok := core.RetryAfter.From(lease)
		require.True(t, ok)
		require.Equal(t, time.Duration(math.MaxInt64), d)
		acquiresWithin(t, l, 1, 250*365*24*time.Hour).rejected(t, "deadline too soon", math.MaxInt64)
		a.canceled(t)
	})
}

func TestReplenishmentPeriods(t *testing.T) {
	rates := four(t, 2, 0)
	require.Equal(t, time.Second, rates["bucket"].(core.Replenisher).ReplenishmentPeriod())
	require.Equal(t, time.Second, rates["fixed"].(core.Replenisher).ReplenishmentPeriod())
	require.Equal(t, time.Second/2, rates["sliding"].(core.Replenisher).ReplenishmentPeriod())
	_, ok := rates["concurrency"].(core.Replenisher)
	require.False(t, ok)
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
