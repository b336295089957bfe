package rates_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/rates"
	"github.com/sluice-go/sluice/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestExact(t *testing.T) {
	const second, milli, micro = time.Second, time.Millisecond, time.Microsecond
	for _, c := range []struct {
		n                int
		per, least, most time.Duration
		want             rates.Rate // zero: none
	}{
		{3_000_000, second, 1, milli, rates.Rate{Tokens: 3, Period: micro}},
		{3_000_000, second, 10 * micro, milli, rates.Rate{Tokens: 30, Period: 10 * micro}},
		{3_000_000, second, 1500, milli, rates.Rate{Tokens: 6, Period: 2 * micro}},
		{3_000_000, second, 0, micro, rates.Rate{Tokens: 3, Period: micro}},
		{3_000_000, second, 0, micro - 1, rates.Rate{}},
		{1_000_001, second, 1, milli, rates.Rate{}},
		{5, 1, 3, 3, rates.Rate{Tokens: 15, Period: 3}},
		{math.MaxInt, 1, 1, 1, rates.Rate{Tokens: math.MaxInt, Period: 1}},
		{math.MaxInt, 1, 2, 2, rates.Rate{}}, // more tokens than an int holds
		{math.MaxInt, math.MaxInt, 1, 1, rates.Rate{Tokens: 1, Period: 1}},
	} {
		got, ok := rates.Exact(c.n, c.per, c.least, c.most)
		require.Equal(t, c.want, got, c)
		require.Equal(t, c.want != rates.Rate{}, ok, c)
	}
}

// TestFewestTokens compares Smooth with a search of all numbers of tokens: it has the fewest that are exact to within half of
// a billionth, or those that are closest.
func TestFewestTokens(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range testkit.Rounds(100) {
		most := 1 + random.IntN(1000)
		n := 50_000 + random.IntN(100_000_000)
		if n/most >= 1_000_000_000 {
			continue
		}
		off := func(tokens int, period int64) *big.Rat { // relative
			r := new(big.Rat).SetFrac64(int64(n)*period, int64(tokens)*int64(time.Second))
			r.Sub(r, big.NewRat(1, 1))
			return r.Abs(r)
		}
		want := rates.Nearest(1, n, time.Second)
		half := big.NewRat(1, 2_000_000_000)
		for k := 2; k <= most && off(want.Tokens, int64(want.Period)).Cmp(half) > 0; k++ {
			r := rates.Nearest(k, n, time.Second)
			if off(k, int64(r.Period)).Cmp(off(want.Tokens, int64(want.Period))) < 0 {
				want = r
			}
		}
		got := rates.Smooth(n, most)
		if off(want.Tokens, int64(want.Period)).Cmp(half) > 0 && off(got.Tokens, int64(got.Period)).Cmp(big.NewRat(1, 1_000_000_000)) <= 0 {
			continue // twice as many, as PerSecond would round
		}
		require.Equal(t, want, got, "%d, at most %d", n, most)
	}
}

// FuzzRate compares all results with those of package big.
func FuzzRate(f *testing.F) {
	f.Add(1, 3, int64(time.Second), int64(time.Second))
	f.Add(2, 3, int64(time.Second), int64(0))
	f.Add(1, 2, int64(1), int64(1))                               // a half is rounded up
	f.Add(1, 3, int64(1), int64(math.MaxInt64))                   // no period is shorter
	f.Add(math.MaxInt, 1, int64(time.Hour), int64(math.MaxInt64)) // lowered
	f.Add(math.MaxInt, math.MaxInt, int64(math.MaxInt64), int64(math.MaxInt64))
	f.Add(1, 1000, int64(3*time.Second), int64(time.Second))
	f.Add(math.MaxInt, math.MaxInt-1, int64(math.MaxInt64-1), int64(math.MaxInt64))
	f.Add(1000, 1_048_576, int64(time.Second), int64(time.Millisecond))
	f.Fuzz(func(t *testing.T, tokens, n int, per, d int64) {
		if tokens < 1 || n < 1 || per < 1 || d < 0 {
			return
		}
		quotient := func(a, b, add, c int64, limit int64) int64 {
			v := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
			v.Add(v, big.NewInt(add)).Quo(v, big.NewInt(c))
			if v.Cmp(big.NewInt(limit)) > 0 {
				return limit
			}
			return v.Int64()
		}
		tn, nn := int64(tokens), int64(n)
		per1, d1 := time.Duration(per), time.Duration(d)
		require.Equal(t, quotient(tn, per, nn-1, nn, math.MaxInt64), int64(rates.AtMost(tokens, n, per1).Period))
		require.Equal(t, max(quotient(tn, per, nn/2, nn, math.MaxInt64), 1), int64(rates.Nearest(tokens, n, per1).Period))
		require.Equal(t, quotient(nn, d, 0, per, math.MaxInt), int64(rates.Within(n, per1, d1)))
		r, ok := rates.Exact(n, per1, 1, d1)
		if !ok {
			return
		}
		require.LessOrEqual(t, r.Period, d1)
		require.Zero(t, big.NewRat(int64(r.Tokens), int64(r.Period)).Cmp(big.NewRat(nn, per)))
	})
}

func TestPerSecond(t *testing.T) {
	for _, c := range []struct {
		tokens int
		period time.Duration
		want   float64
	}{
		{1, 142_857_143, 7},
		{1133, 1_080_513, 1_048_576},
		{56, 149, 375_838_926},
		{112, 298, 56e9 / 149}, // both even: exact
		{10_000, time.Second, 10_000},
		{5, time.Hour, 5.0 / 3600},
		{0, 1, 0},
		{1, 0, 0},
	} {
		got := rates.Rate{Tokens: c.tokens, Period: c.period}.PerSecond()
		require.InDelta(t, c.want, got, 1e-15*c.want, c)
	}
}

// Some pairs are exactly half the Tolerance from a whole number.
func TestSmoothReadsBack(t *testing.T) {
	for _, n := range []int{1_048_576, 48_391, 37_789, 1_115_845, 3_347_535, 999_999_937} {
		r := rates.Smooth(n, 2*n)
		require.InDelta(t, n, r.PerSecond(), 0, r)
	}
}
