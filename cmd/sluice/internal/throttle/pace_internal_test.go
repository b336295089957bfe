package throttle

import (
	"context"
	"math/big"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/core"
)

// spender takes slices as soon as they are available, and counts them.
type spender struct {
	*pace
	t     *testing.T
	taken int
}

func spending(t *testing.T, text string) *spender {
	t.Helper()
	l, err := parseRate(text, "")
	require.NoError(t, err)
	p, err := newPace(l)
	require.NoError(t, err)
	return &spender{pace: p, t: t}
}

// spend spends for d, without the end of it, and returns how much it spent.
func (s *spender) spend(d time.Duration) int {
	s.t.Helper()
	before, start := s.taken, time.Now()
	for time.Since(start) < d {
		n := max(permitsIn(s.limit, 2*time.Millisecond), 1)
		lease := s.TryAcquire(n)
		if lease.Acquired() {
			s.taken += n
			continue
		}
		wait, ok := core.RetryAfter.From(lease)
		require.True(s.t, ok)
		<-time.NewTimer(min(wait, d-time.Since(start))).C
	}
	return s.taken - before
}

func pass(d time.Duration) { <-time.NewTimer(d).C }

// The rate is exact and even from the first byte.
func TestPaceIsExactAndEven(t *testing.T) {
	for text, want := range map[string]int{"1MB/s": 1_000_000, "100MB/s": 100_000_000, "250/s": 250, "8MiB/s": 500 * 16777} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := spending(t, text)
				for range 5 {
					assert.Equal(t, want, s.spend(time.Second))
				}
				for range 100 {
					assert.LessOrEqual(t, s.spend(10*time.Millisecond), 3*max(permitsIn(s.limit, 5*time.Millisecond), 1))
				}
			})
		})
	}
}

// The copy catches up after a late wake-up or a busy output, at most a quarter above the rate.
func TestPaceMakesUpForWhatWasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spending(t, "1MB/s")
		s.spend(time.Second)
		pass(300 * time.Millisecond)
		const tenth = 100_000
		assert.InDelta(t, 1.25*tenth, s.spend(100*time.Millisecond), 12_000)
		for range 3 {
			assert.LessOrEqual(t, s.spend(10*time.Millisecond), 24_000)
		}
		s.spend(1170 * time.Millisecond)
		assert.Equal(t, 2_600_000, s.taken, "in 2.6 s")
		assert.Equal(t, tenth, s.spend(100*time.Millisecond))
	})
}

// It catches up at most a second.
func TestPaceForgetsWhatIsLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spending(t, "1MB/s")
		s.spend(time.Second)
		pass(time.Hour)
		assert.InDelta(t, 1_000_000+10_000_000, s.spend(10*time.Second), 4000)
	})
}

// It catches up at most 10 ms after a slow source.
func TestPaceAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spending(t, "1MB/s")
		pass(time.Hour)
		s.paused(time.Hour) // before the start
		assert.InDelta(t, 108_000, s.spend(100*time.Millisecond), 4000)
		pass(2 * time.Second)
		s.paused(2 * time.Second)
		assert.InDelta(t, 110_000, s.spend(100*time.Millisecond), 4000)
		// Of 400 ms, 300 were ours.
		pass(400 * time.Millisecond)
		s.paused(100 * time.Millisecond)
		assert.InDelta(t, 2_300_000, s.spend(2*time.Second), 4000)
	})
}

// A burst that the user asks for passes immediately.
func TestPaceWithABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spending(t, "1MB/s burst 50kB")
		assert.InDelta(t, 50_000, s.spend(time.Nanosecond), 4000)
		s.spend(time.Second - time.Nanosecond)
		assert.InDelta(t, 1_050_000, s.taken, 4000)
		pass(time.Second)
		s.paused(time.Second)
		assert.InDelta(t, 50_000, s.spend(time.Nanosecond), 4000)
	})
}

// A slow rate starts with one permit.
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
				assert.LessOrEqual(t, permitsIn(l, burstTime), min(p.mean.Options().TokenLimit, p.peak.Options().TokenLimit), "%v", l)
				l = doubled(l)
				require.NoError(t, p.set(l))
			}
		})
	}
}

// payer waits for permits until its context ends.
func payer(ctx context.Context, p *pace, paid chan<- int) {
	for {
		lease, err := p.Acquire(ctx, 1)
		if err != nil {
			close(paid)
			return
		}
		paid <- lease.Permits()
	}
}

// A copy that waits long notices immediately that the rate changes, to one of the same kind or of another, and ends with its
// context.
func TestPaceChangesWhileTheCopyWaits(t *testing.T) {
	for _, next := range []string{"10/h", "1000/s", "fixed 5/1h", "unlimited"} {
		t.Run(next, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				s := spending(t, "1/h")
				paid := make(chan int)
				go payer(ctx, s.pace, paid)
				require.Equal(t, 1, <-paid)
				synctest.Wait() // it waits for the next one, an hour
				l, err := parseRate(next, "")
				require.NoError(t, err)
				start := time.Now()
				require.NoError(t, s.set(l))
				require.Positive(t, <-paid)
				assert.LessOrEqual(t, time.Since(start), 6*time.Minute)
				canceled := time.Now()
				cancel()
				for range paid {
				}
				assert.Zero(t, time.Since(canceled))
			})
		})
	}
}

// The schedule follows the wall clock, even if that is set or the machine sleeps, which timers do not notice.
func TestScheduleByTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := parseSchedule("00:00,1/s 12:00,2/s", "")
		require.NoError(t, err)
		start := time.Now()
		var slept atomic.Int64
		clock := func() time.Time {
			return time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC).Add(time.Since(start) + time.Duration(slept.Load()))
		}
		p, err := newPace(s.at(clock()))
		require.NoError(t, err)
		defer cli.Every(time.Second, p.follow(s, clock))()
		rate := func() int {
			synctest.Wait()
			l, _ := p.only()
			return l.Permits
		}
		assert.Equal(t, 1, rate())
		slept.Store(int64(3 * time.Hour))
		pass(time.Second)
		assert.Equal(t, 2, rate())
		slept.Store(0) // set back
		pass(time.Second)
		assert.Equal(t, 1, rate())
		p.scale(doubled)
		pass(time.Minute)
		assert.Equal(t, 2, rate(), "what a signal has changed stays until the next entry")
		pass(2*time.Hour - 63*time.Second)
		p.scale(halved)
		assert.Equal(t, 1, rate())
		pass(time.Second)
		assert.Equal(t, 2, rate())
	})
}

// A turn that waits is larger than the limit of a rate that is far lower.
func TestPaceBecomesLowerWhileATurnWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spending(t, "10MB/s")
		s.spend(time.Second)
		granted := make(chan int)
		go func() {
			lease, err := s.take(t.Context(), 1<<20)
			assert.NoError(t, err)
			granted <- lease.Permits()
		}()
		synctest.Wait()
		l, err := parseRate("100/s", "")
		require.NoError(t, err)
		require.NoError(t, s.set(l))
		require.Equal(t, 1, <-granted)
	})
}

// Permits that become available while a read waits are dropped, except for a burst.
func TestSourceDoesNotCatchUp(t *testing.T) {
	start := time.Now()
	p := spending(t, "1000/s").pace
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	go func() {
		assert.Eventually(t, func() bool { return p.mean.Available() == 1000 }, time.Minute, time.Millisecond) // after a second
		_, _ = w.WriteString("a")
	}()
	_, err = source{r, p}.Read(make([]byte, 1))
	require.NoError(t, err)
	left := p.mean.Available()
	if time.Since(start) < 1500*time.Millisecond { // otherwise the read may have started late, or the permits may have come again
		assert.LessOrEqual(t, left, 510)
	}
}
