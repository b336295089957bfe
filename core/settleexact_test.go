package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// What a lease of a bucket that is replenished by hand has cost more is not given back once the
// bucket would have been full without it.
func TestALateRefundOfAManualGrantThatWasSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 4, ReplenishmentPeriod: time.Second, ManualReplenishment: true})
		a := l.Settle(takes(t, l, 4), 5)
		time.Sleep(time.Second)
		require.True(t, l.TryReplenish())
		takes(t, l, 3)
		l.Refund(a) // without it, only the three
		available(t, l, 7)
	})
}

// Neither is a grant beside tokens that were due and waited for TryReplenish.
func TestALateRefundBesideTokensThatWereDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 4, ReplenishmentPeriod: time.Second, ManualReplenishment: true}
		l := bucket(t, o)
		takes(t, l, 3)
		time.Sleep(time.Second)
		o.QueueLimit = 1
		require.NoError(t, l.Update(o))
		a := takes(t, l, 5)
		left, _ := core.Remaining.From(a)
		require.Equal(t, 2, left)
		time.Sleep(time.Second)
		require.True(t, l.TryReplenish())
		takes(t, l, 3)
		l.Refund(a)
		available(t, l, 7)
	})
}

// Nor beside ticks that were due, in a bucket that takes longer than there are instants to be full.
func TestALateRefundBesideTicksThatWereDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const period = 1 << 60
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 40, TokensPerPeriod: 4, ReplenishmentPeriod: period, ManualReplenishment: true})
		takes(t, l, 20)
		time.Sleep(6*period + period/2)
		a := takes(t, l, 12)
		require.True(t, l.TryReplenish())
		available(t, l, 32)
		takes(t, l, 12)
		l.Refund(a)
		available(t, l, 28)
	})
}

// A grant of a bucket that is settled twice gives back what one of the fewer permits would.
func TestAGrantThatIsSettledInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: 4 * time.Second})
		a := takes(t, l, 2)
		time.Sleep(5 * time.Second)
		takes(t, l, 1)
		a = l.Settle(a, 1)
		available(t, l, 1)
		l.Refund(a) // had it been none from the beginning, the one would still be out
		available(t, l, 1)
	})
}

// A grant that has cost more gives back nothing that another grant has given back.
func TestAGrantThatCostMoreBesideARefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 2, ReplenishmentPeriod: 2 * time.Second})
		a, b := takes(t, l, 4), takes(t, l, 2)
		time.Sleep(time.Second)
		a = l.Settle(a, 5)
		time.Sleep(3 * time.Second)
		takes(t, l, 7)
		l.Refund(b)
		time.Sleep(time.Second)
		l.Refund(a)
		require.LessOrEqual(t, l.Available(), 3) // only the seven are out
	})
}

// Late refunds together give back no more than was missing.
func TestLateRefundsAfterARefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 20, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second})
		a, b, c := takes(t, l, 5), takes(t, l, 4), takes(t, l, 1)
		l.Refund(a)
		time.Sleep(2 * time.Second)
		takes(t, l, 6)
		l.Refund(c)
		l.Refund(b)
		require.LessOrEqual(t, l.Available(), 14) // only the six are out
	})
}

// However old the grant is: its ticks lie further apart than an int64 of nanoseconds reaches.
func TestALateRefundAfterCenturies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const period = 1 << 62 // 146 years
		o := core.TokenBucketOptions{TokenLimit: 40, TokensPerPeriod: 4, ReplenishmentPeriod: time.Second, ManualReplenishment: true}
		l := bucket(t, o)
		takes(t, l, 1)
		o.ReplenishmentPeriod = period // the tick before the next one is centuries ago
		require.NoError(t, l.Update(o))
		a := takes(t, l, 20)
		time.Sleep(period + 2*time.Second)
		require.True(t, l.TryReplenish())
		available(t, l, 27)
		takes(t, l, 20)
		l.Refund(a)
		available(t, l, 20) // without it, only the last twenty
	})
}

// A period that is longer than half of all instants.
func TestARefundWithAPeriodOfCenturies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.TokenBucketOptions{TokenLimit: 40, TokensPerPeriod: 4, ReplenishmentPeriod: time.Second, ManualReplenishment: true}
		l := bucket(t, o)
		takes(t, l, 1)
		o.ReplenishmentPeriod = 3 << 61
		require.NoError(t, l.Update(o))
		l.Refund(takes(t, l, 4))
		available(t, l, 39)
	})
}
