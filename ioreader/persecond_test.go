package ioreader_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// offBy returns by which part of the rate the options miss it.
func offBy(o core.TokenBucketOptions, bytes int) float64 {
	have := big.NewRat(int64(o.TokensPerPeriod), int64(o.ReplenishmentPeriod))
	have.Mul(have, big.NewRat(int64(time.Second), int64(bytes)))
	off, _ := have.Sub(have, big.NewRat(1, 1)).Float64()
	return math.Abs(off)
}

func checkPerSecond(t *testing.T, bytes int) {
	t.Helper()
	o := ioreader.PerSecond(bytes)
	require.LessOrEqual(t, offBy(o, bytes), 1e-6, "%d: %+v", bytes, o)
	require.Equal(t, max(bytes/100, 1460), o.TokenLimit)
	require.Equal(t, math.MaxInt, o.QueueLimit)
	if bytes >= 1000 {
		require.LessOrEqual(t, o.ReplenishmentPeriod, 2*time.Millisecond)
		require.LessOrEqual(t, o.TokensPerPeriod, max(bytes/500, 1))
	} else {
		require.Equal(t, 1, o.TokensPerPeriod)
	}
	_, err := core.NewTokenBucket(o)
	require.NoError(t, err)
}

func TestPerSecondIsTheRate(t *testing.T) {
	for _, bytes := range []int{
		1, 2, 3, 7, 99, 999, 1000, 1001, 1023, 1024, 9973, 65_537, 100_000, 333_333, 1_000_003, 1 << 20, 8 << 20,
		99_999_989, 1_000_000_000, 1_000_000_007, math.MaxInt / 922_337_203, math.MaxInt >> 23, math.MaxInt - 1, math.MaxInt,
	} {
		checkPerSecond(t, bytes)
	}
	for bytes := 1; bytes < 20_000; bytes++ {
		checkPerSecond(t, bytes)
	}
}

func TestPerSecondOfNothingIsRefusedByTheBucket(t *testing.T) {
	for _, bytes := range []int{0, -1, math.MinInt} {
		_, err := core.NewTokenBucket(ioreader.PerSecond(bytes))
		require.ErrorContains(t, err, "core: TokenBucketOptions.TokensPerPeriod = ")
		require.ErrorContains(t, err, "want at least 1")
	}
}
