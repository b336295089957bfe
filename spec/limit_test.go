package spec_test

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/rates"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/spec"
)

func parse(t *testing.T, s string) spec.Limit {
	t.Helper()
	l, err := spec.Parse(s)
	require.NoError(t, err)
	return l
}

func TestNew(t *testing.T) {
	for s, want := range map[string]any{
		"100/s": core.TokenBucketOptions{
			Name: "x", TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: 10 * time.Millisecond,
		},
		"fixed 10/h queue 3 newest-first": core.FixedWindowOptions{
			Name: "x", PermitLimit: 10, Window: time.Hour, QueueLimit: 3, QueueOrder: core.NewestFirst,
		},
		"sliding 10/h queue 3": core.SlidingWindowOptions{
			Name: "x", PermitLimit: 10, Window: time.Hour, SegmentsPerWindow: 10, QueueLimit: 3,
		},
		"sliding 10/h segments 4": core.SlidingWindowOptions{
			Name: "x", PermitLimit: 10, Window: time.Hour, SegmentsPerWindow: 4,
		},
		"concurrency 5 queue 2": core.ConcurrencyLimiterOptions{Name: "x", PermitLimit: 5, QueueLimit: 2},
	} {
		l, err := parse(t, s).New("x")
		require.NoError(t, err)
		require.Equal(t, want, optionsOf(t, l), s)
	}
	l, err := spec.Limit{}.New("x")
	require.NoError(t, err)
	require.Equal(t, math.MaxInt, l.Available())
}

func optionsOf(t *testing.T, l core.Limiter) any {
	t.Helper()
	switch l := l.(type) {
	case *core.ConcurrencyLimiter:
		return l.Options()
	case *core.TokenBucket:
		return l.Options()
	case *core.FixedWindow:
		return l.Options()
	case *core.SlidingWindow:
		return l.Options()
	}
	t.Fatalf("%T", l)
	return nil
}

func TestBuckets(t *testing.T) {
	type terms struct {
		burst, tokens int64
		period        time.Duration
	}
	for s, want := range map[string]terms{
		"100/s":                 {100, 1, 10 * time.Millisecond}, // starts with a second's permits
		"100/s burst 1":         {1, 1, 10 * time.Millisecond},
		"1/s":                   {1, 1, time.Second},
		"3/s":                   {3, 1, 333333334}, // rounded up
		"1000/s":                {1000, 1, time.Millisecond},
		"1099/s":                {1099, 1, 909919},
		"1000000/s":             {1_000_000, 1, time.Microsecond},    // a microsecond is enough
		"1000001/s":             {1_000_001, 1000, time.Millisecond}, // less is not; 1 ms, rounded down
		"2000000/s":             {2_000_000, 1, 500},                 // exact
		"3000000/s":             {3_000_000, 3, 1000},                // exact in 1 us
		"1001000/s":             {1_001_000, 1001, time.Millisecond}, // exact in 1 ms
		"1234567/s":             {1_234_567, 1234, time.Millisecond}, // 1234.567 in 1 ms
		"10G/s":                 {10_000_000_000, 10, 1},
		"3000000/s burst 1":     {1, 1, 334}, // 3 do not fit: what one takes, rounded up
		"3000000/s burst 2":     {2, 2, 667},
		"3000000/s burst 3":     {3, 3, 1000},
		"8Mi/s burst 1000":      {1000, 1000, 119210}, // 119209.29 ns
		"10G/s burst 1":         {1, 1, 1},
		"1/day":                 {1, 1, day},
		"5000/h":                {5000, 1, 720 * time.Millisecond},
		"5000/h burst 100":      {100, 1, 720 * time.Millisecond},
		"9223372036854775807/s": {math.MaxInt64, 9223372036854775, time.Millisecond},
		"9223372036854775807/ns": {
			math.MaxInt64, math.MaxInt64, 1,
		},
		"9223372036854775807/2562047h47m16.854775807s": {math.MaxInt64, 1, 1},
		"1/2562047h47m16.854775807s":                   {1, 1, math.MaxInt64},

		// Bytes come evenly: those of 10 ms together, and at least those of a packet.
		"8MiB/s":    {83_886, 5447, 649333},
		"1099B/s":   {1460, 1, 909918}, // the nearest
		"100B/s":    {1460, 1, 10 * time.Millisecond},
		"1B/h":      {1460, 1, time.Hour},
		"500kB/s":   {5000, 5, 10 * time.Microsecond},
		"500MB/day": {1460, 1, 172800},
		"9223372036854775807B/s": {
			92233720368547758, 9223372033, 1, // to within a thousandth of a millionth
		},
		"9223372036854775807B/ns":     {math.MaxInt64, math.MaxInt64, 1},
		"1B/2562047h47m16.854775807s": {1460, 1, math.MaxInt64},
		// A burst that shortens the period: an eighth of it together.
		"8MiB/s burst 1MiB":  {1 << 20, 5447, 649333},
		"8MiB/s burst 5447":  {5447, 5447, 649333}, // fits
		"8MiB/s burst 5446":  {5446, 680, 81063},
		"8MiB/s burst 1024":  {1024, 128, 15259}, // 15258.79 ns
		"8MiB/s burst 7":     {7, 1, 120},
		"3000000B/s burst 2": {2, 1, 334},
	} {
		if strconv.IntSize < 64 && (strings.HasPrefix(s, "10G") || strings.HasPrefix(s, "9223372036854775807")) {
			continue // more than an int holds there
		}
		l, err := parse(t, s).New("")
		require.NoError(t, err, s)
		o := l.(*core.TokenBucket).Options()
		require.Equal(t, want, terms{int64(o.TokenLimit), int64(o.TokensPerPeriod), o.ReplenishmentPeriod}, s)
	}
}

// A reader that looks every 10 µs gets the rate, though the burst is a fraction of what comes
// in a millisecond.
func TestSmallBurstOfBytesKeepsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := parse(t, "8MiB/s burst 1024").New("")
		require.NoError(t, err)
		tick := time.NewTicker(10 * time.Microsecond)
		defer tick.Stop()
		l.TryAcquire(l.Available())
		got := 0
		for start := time.Now(); time.Since(start) < 100*time.Millisecond; <-tick.C {
			got += l.TryAcquire(l.Available()).Permits()
		}
		require.InEpsilon(t, (8<<20)/10, got, 0.001)
	})
}

// The text of a bandwidth and ioreader's options are one bucket. The queue is ioreader's own.
func TestBytesAreThoseOfIoreader(t *testing.T) {
	for _, n := range []int{1, 10, 97, 999, 1000, 1001, 65_537, 145_999, 146_001, 1 << 20, 8 << 20, 99_999_989, math.MaxInt} {
		l, err := parse(t, strconv.Itoa(n)+"B/s queue "+strconv.Itoa(math.MaxInt)).New("")
		require.NoError(t, err)
		require.Equal(t, ioreader.PerSecond(n), l.(*core.TokenBucket).Options(), n)
	}
}

// FuzzBucket: rounding never makes the rate higher, nor lower by more than it must. That of bytes is the nearest.
func FuzzBucket(f *testing.F) {
	f.Add(100, int64(time.Second), 0, false)
	f.Add(1234567, int64(time.Second), 3, false)
	f.Add(8<<20, int64(time.Second), 1024, true)
	f.Add(math.MaxInt, int64(math.MaxInt64), math.MaxInt, true)
	f.Add(math.MaxInt-1, int64(999_999_999_999), 17, false)
	f.Add(math.MaxInt-1, int64(999_999_999_999), 17, true)
	f.Fuzz(func(t *testing.T, permits int, per int64, burst int, bytes bool) {
		limiter, err := spec.Limit{Kind: spec.TokenBucket, Permits: permits, Per: time.Duration(per), Burst: burst, Bytes: bytes}.New("")
		if err != nil {
			return
		}
		o := limiter.(*core.TokenBucket).Options()
		asked := big.NewRat(1, per)
		asked.Mul(asked, big.NewRat(int64(permits), 1))
		got := big.NewRat(int64(o.TokensPerPeriod), int64(o.ReplenishmentPeriod))
		require.LessOrEqual(t, o.TokensPerPeriod, o.TokenLimit)
		if _, nearest := rates.Bytes(max(permits, 1), max(time.Duration(per), 1)); bytes && nearest == (rates.Rate{Tokens: o.TokensPerPeriod, Period: o.ReplenishmentPeriod}) {
			off, _ := new(big.Rat).Quo(got, asked).Float64()
			require.InDelta(t, 1, off, 1.1e-6)
			return
		}
		require.LessOrEqual(t, got.Cmp(asked), 0, "%v is more than %v", got, asked)
		if burst != 0 {
			require.Equal(t, burst, o.TokenLimit)
		}
		// One permit each microsecond or more, or at least 1000 in a millisecond, or what the
		// burst takes: so it is off by one nanosecond of a period, or one token of it.
		slower := big.NewRat(int64(o.TokensPerPeriod)+1, int64(o.ReplenishmentPeriod))
		shorter := slower
		if o.ReplenishmentPeriod > 1 {
			shorter = big.NewRat(int64(o.TokensPerPeriod), int64(o.ReplenishmentPeriod)-1)
		}
		if o.TokensPerPeriod < o.TokenLimit && (!bytes || o.ReplenishmentPeriod > 1) { // no period is shorter than 1 ns
			require.True(t, asked.Cmp(slower) < 0 || asked.Cmp(shorter) < 0, "%v is far below %v", got, asked)
		}
	})
}

// Update changes a limiter of the kind in place. Permits that are taken stay taken, and the name stays.
func TestUpdate(t *testing.T) {
	for before, after := range map[string]string{
		"10/s burst 3":      "20/s burst 2 queue 1",
		"concurrency 3":     "concurrency 2 queue 1",
		"fixed 3/h":         "fixed 2/min queue 1",
		"sliding 3/h":       "sliding 2/min segments 5 queue 1",
		"fixed 3/h queue 1": "fixed 2/h newest-first",
	} {
		t.Run(before, func(t *testing.T) {
			l, err := parse(t, before).New("x")
			require.NoError(t, err)
			require.True(t, l.TryAcquire(1).Acquired())
			require.NoError(t, parse(t, after).Update(l))
			fresh, err := parse(t, after).New("x")
			require.NoError(t, err)
			require.Equal(t, optionsOf(t, fresh), optionsOf(t, l))
			require.NotEqual(t, 3, l.Available())
		})
	}
	require.NoError(t, spec.Limit{}.Update(core.Unlimited()))
}

// What the text does not describe stays the same: the anchor, and manual replenishment.
func TestUpdateKeepsTheRest(t *testing.T) {
	anchor := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l, err := core.NewFixedWindow(core.FixedWindowOptions{
		Name: "x", PermitLimit: 1, Window: time.Hour, Anchor: anchor, ManualReplenishment: true,
	})
	require.NoError(t, err)
	require.NoError(t, parse(t, "fixed 5/day").Update(l))
	require.Equal(t, core.FixedWindowOptions{
		Name: "x", PermitLimit: 5, Window: day, Anchor: anchor, ManualReplenishment: true,
	}, l.Options())
}

// embedding is a user's limiter that is also a bucket.
type embedding struct{ *core.TokenBucket }

func TestUpdateOfAnotherKind(t *testing.T) {
	kinds := []string{"10/s", "fixed 10/s", "sliding 10/s", "concurrency 10", "unlimited"}
	var noBucket *core.TokenBucket
	for i, s := range kinds {
		for j, other := range kinds {
			l, err := parse(t, other).New("")
			require.NoError(t, err)
			if err = parse(t, s).Update(l); i == j {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, spec.ErrKind)
			}
		}
		require.ErrorIs(t, parse(t, s).Update(nil), spec.ErrKind)
		require.ErrorIs(t, parse(t, s).Update(noBucket), spec.ErrKind)
	}
	b, err := core.NewTokenBucket(core.Every(time.Second, 5))
	require.NoError(t, err)
	require.NoError(t, parse(t, "1/s burst 9").Update(embedding{b}))
	require.Equal(t, 9, b.Options().TokenLimit)
	require.ErrorContains(t, spec.Limit{Kind: spec.TokenBucket}.Update(b), "Limit.Permits = 0")
	require.NoError(t, b.Close())
	require.ErrorIs(t, parse(t, "1/s burst 9").Update(b), core.ErrClosed)
}
