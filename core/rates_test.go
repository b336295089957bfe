package core_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
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
		{999_999, 10, 1, 1000}, // the burst has no room for more
		{1_500_000, 1, 1, 667},
		{1_500_000, 10, 3, 2000},
		{1_048_576, 1 << 20, 1133, 1_080_513},
		{1_000_000_000, 1, 1, 1},
		// Whole nanoseconds alone would be off by more than a thousandth.
		{700_000_000, 64 << 10, 7, 10},
		{600_000_000, 3, 3, 5},
		{3_000_000, 64, 3, 1000},
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
	case permits <= 31_623:
		require.True(t, half(permits, o), what)
		require.Equal(t, 1, o.TokensPerPeriod, "one by one")
		require.Equal(t, float64(permits), o.Rate(), what) //nolint:testifylint // exactly
	case permits <= 1e9 && burst >= permits:
		require.InDelta(t, 1, off, 1.001e-9, what)
		require.InDelta(t, permits, o.Rate(), float64(permits/500_000_000), what) // exactly, but for the highest
	default:
		require.True(t, half(permits, o) || math.Abs(off-1) <= 1e-9, what)
	}
	require.LessOrEqual(t, o.ReplenishmentPeriod, time.Second, what)
}

func TestPerSecondOfAnyRate(t *testing.T) {
	edges := []int{1, 2, 3, 7, 499, 500, 501, 999, 1000, 1001, 1e6 - 1, 1e6, 1e6 + 1, 1e9 - 1, 1e9, 1e9 + 1, math.MaxInt32, math.MaxInt - 1, math.MaxInt}
	for _, permits := range edges {
		for _, burst := range edges {
			perSecondKeeps(t, permits, burst)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
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

func TestRate(t *testing.T) {
	for _, c := range []struct {
		rate   float64
		burst  int
		tokens int
		period time.Duration
	}{
		{0.5, 3, 1, 2 * time.Second},
		{1e-6, 1, 1, 1_000_000 * time.Second},
		{1, 1, 1, time.Second},
		{2.5, 5, 1, 400 * time.Millisecond},
		{300, 10, 3, 10 * time.Millisecond},
		{300, 2, 2, 6_666_667}, // the burst has no room for three
		{1e9, 1, 1, 1},
		{1e12, 5, 5, 1}, // the highest rate of the burst
		{0.1, 1, 1, 10 * time.Second},
	} {
		o := core.Rate(c.rate, c.burst)
		require.Equal(t, core.TokenBucketOptions{
			TokenLimit: c.burst, TokensPerPeriod: c.tokens, ReplenishmentPeriod: c.period, QueueLimit: math.MaxInt,
		}, o, c)
		l, err := core.NewTokenBucket(o)
		require.NoError(t, err)
		require.Equal(t, o, l.Options())
	}
}

func TestRateOfNothing(t *testing.T) {
	l := bucket(t, core.Rate(1, 1))
	for rate, text := range map[float64]string{
		0: "0", -1: "-1", -0.5: "-0.5", math.Inf(1): "+Inf", math.Inf(-1): "-Inf", 1e-11: "1e-11",
	} {
		o := core.Rate(rate, 5)
		_, err := core.NewTokenBucket(o)
		want := "core: Rate = " + text + ", want a finite rate of at least one permit in 292 years"
		require.EqualError(t, err, want)
		require.EqualError(t, l.Update(o), want)
		require.True(t, math.IsNaN(o.Rate()))
	}
	_, err := core.NewTokenBucket(core.Rate(math.NaN(), 0))
	require.EqualError(t, err, "core: TokenBucketOptions.TokenLimit = 0, want at least 1\n"+
		"core: Rate = NaN, want a finite rate of at least one permit in 292 years")
	require.InDelta(t, 1, l.Options().Rate(), 0)
}

// Each way to write a rate says that it is the rate that is wrong.
func TestNoRate(t *testing.T) {
	const want = ", want a finite rate of at least one permit in 292 years"
	for text, o := range map[string]core.TokenBucketOptions{
		"core: Rate = 0" + want:  core.PerSecond(0, 5),
		"core: Rate = -3" + want: core.PerSecond(-3, 5),
		"core: TokenBucketOptions.TokenLimit = 0, want at least 1\ncore: Rate = 0" + want: core.PerSecond(0, 0),
		"core: Rate = one permit every 0s, want a duration above 0":                       core.Every(0, 1),
		"core: Rate = one permit every -1s, want a duration above 0":                      core.Every(-time.Second, 1),
	} {
		_, err := core.NewTokenBucket(o)
		require.EqualError(t, err, text)
		require.EqualError(t, bucket(t, core.PerSecond(1, 1)).Update(o), text)
	}
}

func TestRateOfOptions(t *testing.T) {
	require.InEpsilon(t, 1048218.03, core.TokenBucketOptions{TokensPerPeriod: 1, ReplenishmentPeriod: 954}.Rate(), 1e-8)
	require.InDelta(t, 7, core.Every(142_857_143, 1).Rate(), 0)
	require.InDelta(t, 5.0/3600, core.TokenBucketOptions{TokensPerPeriod: 5, ReplenishmentPeriod: time.Hour}.Rate(), 1e-15)
	require.Zero(t, core.TokenBucketOptions{}.Rate())
}

// rateKeeps checks that a rate reads back.
func rateKeeps(t *testing.T, rate float64, burst int) {
	t.Helper()
	o := core.Rate(rate, burst)
	_, err := core.NewTokenBucket(o)
	require.NoError(t, err)
	if rate < 1e-6 || rate > 1e9 {
		return
	}
	exact := float64(o.TokensPerPeriod) / float64(o.ReplenishmentPeriod) * 1e9
	if float64(burst) >= max(2, 2*rate) { // room for a period of half a second
		require.InEpsilon(t, rate, exact, 1.001e-9)
	}
	if off := math.Abs(exact/rate - 1); off <= 1e-9 && o.TokensPerPeriod <= burst/2 {
		require.InEpsilon(t, rate, o.Rate(), 1.001e-9)
	}
}

func TestRateReadsBack(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range testkit.Rounds(5_000) {
		rate := math.Pow(10, random.Float64()*15-6)
		rateKeeps(t, rate, 1<<20)
		rateKeeps(t, math.Ceil(rate), 1<<20)
		rateKeeps(t, 1e9/math.Ceil(1e9/rate), 1<<20) // which a period of whole nanoseconds gives
		rateKeeps(t, rate, 1+random.IntN(100))
		rateKeeps(t, rate, 1+random.IntN(1<<22))
	}
}

func FuzzRate(f *testing.F) {
	f.Add(1048576.0, 1<<22)
	f.Add(0.3, 1)
	f.Add(375838926.40000004, 4194276)
	f.Fuzz(func(t *testing.T, rate float64, burst int) {
		if rate >= 1.1e-10 && !math.IsInf(rate, 1) && burst >= 1 {
			rateKeeps(t, rate, burst)
			return
		}
		_, err := core.NewTokenBucket(core.Rate(rate, burst))
		if math.IsInf(rate, 1) || !(rate > 1e-10) || burst < 1 {
			require.Error(t, err)
		}
	})
}
