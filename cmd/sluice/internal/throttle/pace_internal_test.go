package throttle

import (
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

// spender takes slices as soon as they are there, and counts them.
type spender struct {
	*pace
	t     *testing.T
	limit spec.Limit
	taken int
}

func spending(t *testing.T, text string) *spender {
	t.Helper()
	l, err := parseRate(text, "")
	require.NoError(t, err)
	p, err := newPace(l)
	require.NoError(t, err)
	return &spender{pace: p, t: t, limit: l}
}

// spend spends for so long, the end of it not included, and returns how much that was.
func (s *spender) spend(d time.Duration) int {
	s.t.Helper()
	before, begun, n := s.taken, time.Now(), slice(s.limit)
	for time.Since(begun) < d {
		lease := s.take(s.limit, n)
		if lease.Acquired() {
			s.taken += n
			continue
		}
		wait, ok := core.RetryAfter.From(lease)
		require.True(s.t, ok)
		<-time.NewTimer(min(wait, d-time.Since(begun))).C
	}
	return s.taken - before
}

func pass(d time.Duration) { <-time.NewTimer(d).C }

// From the very first byte on it is the rate, evenly.
func TestPaceIsExactAndEven(t *testing.T) {
	for text, want := range map[string]int{"1MB/s": 1_000_000, "100MB/s": 100_000_000, "250/s": 250, "8MiB/s": 250 * 33554} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := spending(t, text)
				for range 5 {
					assert.Equal(t, want, s.spend(time.Second))
				}
				for range 100 {
					assert.LessOrEqual(t, s.spend(10*time.Millisecond), 3*slice(s.limit))
				}
			})
		})
	}
}

// What a late wake-up or a busy output has cost is made up for, at most a quarter above the rate.
func TestPaceMakesUpForWhatWasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spending(t, "1MB/s")
		s.spend(time.Second)
		pass(300 * time.Millisecond)
		const tenth = 100_000
		assert.InDelta(t, 1.25*tenth, s.spend(100*time.Millisecond), 4000)
		for range 3 {
			assert.LessOrEqual(t, s.spend(10*time.Millisecond), 16_000)
		}
		s.spend(1170 * time.Millisecond)
		assert.Equal(t, 2_600_000, s.taken, "in 2.6 s")
		assert.Equal(t, tenth, s.spend(100*time.Millisecond))
	})
}

// But for no more than a second of it.
func TestPaceForgetsWhatIsLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spending(t, "1MB/s")
		s.spend(time.Second)
		pass(time.Hour)
		assert.InDelta(t, 1_000_000+10_000_000, s.spend(10*time.Second), 4000)
	})
}

// What a source did not deliver is gone, but for 10 ms of it.
func TestPaceAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spending(t, "1MB/s")
		s.paused(s.limit, time.Hour) // before it begins
		assert.Equal(t, 100_000, s.spend(100*time.Millisecond))
		pass(2 * time.Second)
		s.paused(s.limit, 2*time.Second)
		assert.InDelta(t, 110_000, s.spend(100*time.Millisecond), 4000)
		// Of 400 ms, 300 were ours.
		pass(400 * time.Millisecond)
		s.paused(s.limit, 100*time.Millisecond)
		assert.InDelta(t, 2_300_000, s.spend(2*time.Second), 4000)
	})
}

// A burst that was asked for passes at once.
func TestPaceWithABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spending(t, "1MB/s burst 50kB")
		assert.InDelta(t, 50_000, s.spend(time.Nanosecond), 4000)
		s.spend(time.Second - time.Nanosecond)
		assert.InDelta(t, 1_050_000, s.taken, 4000)
		pass(time.Second)
		s.paused(s.limit, time.Second)
		assert.InDelta(t, 50_000, s.spend(time.Nanosecond), 4000)
	})
}

// One that is slow begins with one.
func TestPaceOfOneAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spending(t, "1/h")
		assert.Equal(t, 1, s.spend(time.Hour))
		assert.Equal(t, 3, s.spend(3*time.Hour))
	})
}

// The rate is never above what was asked for, and below it by a millionth at most.
func TestPaceKeepsOddRates(t *testing.T) {
	for _, text := range []string{
		"1/s", "3/s", "7/h", "1/720h", "1234567/s", "8MiB/s", "700kB/s", "999999999/s", "100GB/s", "123456789/m", "1T/1ns",
		"9223372036854775807/s", "9223372036854775807/1ns", "5/1ns", "1MB/s burst 1",
	} {
		t.Run(text, func(t *testing.T) {
			l, err := parseRate(text, "")
			require.NoError(t, err)
			p, err := newPace(l)
			require.NoError(t, err)
			o := p.mean.Options()
			got := new(big.Rat).SetFrac64(int64(o.TokensPerPeriod), int64(o.ReplenishmentPeriod))
			want := new(big.Rat).SetFrac64(int64(l.Permits), int64(l.Per))
			assert.LessOrEqual(t, got.Cmp(want), 0)
			ratio, _ := new(big.Rat).Quo(got, want).Float64()
			assert.Greater(t, ratio, 1-1e-6)
			for range 100 {
				assert.LessOrEqual(t, slice(l), min(p.mean.Options().TokenLimit, p.peak.Options().TokenLimit), "%v", l)
				l = doubled(l)
				require.NoError(t, p.update(l))
			}
		})
	}
}
