package core_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

func TestPerSecondSmoothly(t *testing.T) {
	for _, c := range []struct {
		permits, burst int
		tokens         int
		period         time.Duration
	}{
		{1, 1, 1, time.Second},
		{20, 1, 1, 50 * time.Millisecond},
		{20, 5, 1, 50 * time.Millisecond},
		{3, 100, 1, 333_333_333},
		{7, 7, 1, 142_857_143},
		{1000, 10, 1, time.Millisecond},
		{999_999, 10, 1, 1000},
		{1_500_000, 10, 1, 667},
		{1_000_000_000, 1, 1, 1},
		// Whole nanoseconds alone would be off by more than a thousandth.
		{700_000_000, 64 << 10, 7, 10},
		{600_000_000, 3, 3, 5},
		{3_000_000, 64, 2, 667},
	} {
		t.Run(fmt.Sprintf("%d in bursts of %d", c.permits, c.burst), func(t *testing.T) {
			require.Equal(t, core.TokenBucketOptions{
				TokenLimit: c.burst, TokensPerPeriod: c.tokens, ReplenishmentPeriod: c.period, QueueLimit: math.MaxInt,
			}, core.PerSecond(c.permits, c.burst))
		})
	}
}

// half reports whether the period is right to half a nanosecond.
func half(permits int, o core.TokenBucketOptions) bool {
	// 2·|period·permits - tokens·second| <= permits
	rate := big.NewInt(int64(permits))
	off := new(big.Int).Mul(big.NewInt(int64(o.ReplenishmentPeriod)), rate)
	off.Sub(off, new(big.Int).Mul(big.NewInt(int64(o.TokensPerPeriod)), big.NewInt(int64(time.Second))))
	return off.Abs(off).Lsh(off, 1).Cmp(rate) <= 0
}

// faster compares a bucket's rate with permits per second.
func faster(permits int, o core.TokenBucketOptions) float64 {
	return float64(o.TokensPerPeriod) / float64(o.ReplenishmentPeriod) * 1e9 / float64(permits)
}

func perSecondKeeps(t *testing.T, permits, burst int) {
	t.Helper()
	o := core.PerSecond(permits, burst)
	what := fmt.Sprintf("%d in bursts of %d: %d every %v", permits, burst, o.TokensPerPeriod, o.ReplenishmentPeriod)
	_, err := core.NewTokenBucket(o)
	require.NoError(t, err, what)
	require.Equal(t, burst, o.TokenLimit)
	require.Equal(t, math.MaxInt, o.QueueLimit)
	switch off := faster(permits, o); {
	case int64(permits)/int64(burst) >= int64(time.Second) && !half(permits, o):
		// The fastest that there is with such a burst, and slower than what was asked for.
		require.Equal(t, burst, o.TokensPerPeriod, what)
		require.Equal(t, time.Duration(1), o.ReplenishmentPeriod, what)
		require.Less(t, off, 1.0, what)
	case burst >= 1000 && int64(permits)/int64(burst) < int64(time.Second):
		require.True(t, half(permits, o), what)
		require.InDelta(t, 1, off, 1.0001e-3, what)
	default:
		require.True(t, half(permits, o), what)
	}
	if permits <= 500_000 {
		require.Equal(t, 1, o.TokensPerPeriod, "one by one")
	}
	require.LessOrEqual(t, o.TokensPerPeriod, max(1000, 2*(permits/1e9+1)), what)
}

func TestPerSecondOfAnyRate(t *testing.T) {
	edges := []int{1, 2, 3, 7, 499, 500, 501, 999, 1000, 1001, 1e6 - 1, 1e6, 1e6 + 1, 1e9 - 1, 1e9, 1e9 + 1, math.MaxInt32, math.MaxInt - 1, math.MaxInt}
	for _, permits := range edges {
		for _, burst := range edges {
			perSecondKeeps(t, permits, burst)
		}
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	size := func() int { return max(random.Int()>>random.IntN(62), 1) }
	for range testkit.Rounds(20_000) {
		perSecondKeeps(t, size(), size())
	}
}

func FuzzPerSecond(f *testing.F) {
	f.Add(20, 1)
	f.Fuzz(func(t *testing.T, permits, burst int) {
		if permits < 1 || burst < 1 {
			_, err := core.NewTokenBucket(core.PerSecond(permits, burst))
			require.Error(t, err)
			return
		}
		perSecondKeeps(t, permits, burst)
	})
}

func TestPerSecondOfNothingIsRefused(t *testing.T) {
	for _, n := range []int{0, -1, math.MinInt} {
		_, err := core.NewTokenBucket(core.PerSecond(n, 5))
		require.EqualError(t, err, fmt.Sprintf("core: TokenBucketOptions.TokensPerPeriod = %d, want at least 1", n))
		_, err = core.NewTokenBucket(core.PerSecond(5, n))
		require.EqualError(t, err, fmt.Sprintf("core: TokenBucketOptions.TokenLimit = %d, want at least 1", n))
		_, err = core.NewTokenBucket(core.Every(time.Second, n))
		require.EqualError(t, err, fmt.Sprintf("core: TokenBucketOptions.TokenLimit = %d, want at least 1", n))
		_, err = core.NewTokenBucket(core.Every(time.Duration(n), 5))
		require.EqualError(t, err, fmt.Sprintf("core: TokenBucketOptions.ReplenishmentPeriod = %v, want above 0", time.Duration(n)))
	}
}

// What rate.NewLimiter(20, 3) does.
func TestPerSecondInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.PerSecond(20, 3))
		takes(t, l, 3)
		for i := range 40 {
			lease, err := l.Acquire(t.Context(), 1)
			require.NoError(t, err, i)
			require.Equal(t, 1, lease.Permits())
		}
		rejected(t, l, 3, 150*time.Millisecond)
		time.Sleep(time.Minute)
		takes(t, l, 3)
		rejected(t, l, 1, 50*time.Millisecond)
	})
}

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.Every(1500*time.Millisecond, 2))
		takes(t, l, 2)
		start := time.Now()
		for i := range 4 {
			_, err := l.Acquire(t.Context(), 1)
			require.NoError(t, err)
			require.Equal(t, time.Duration(i+1)*1500*time.Millisecond, time.Since(start))
		}
	})
}
