package throttle

import (
	"context"
	"math/big"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/spec"
)

// copying is a copy, by [ioreader.Copy], in a bubble. Its source and its output can keep it waiting.
type copying struct {
	*pace

	t      *testing.T
	ctx    context.Context
	passed atomic.Int64

	slowSource, slowOutput atomic.Int64 // how long the next call takes
}

func paceOf(t *testing.T, text string) *pace {
	t.Helper()
	l, err := new(options).parseRate(text, "")
	require.NoError(t, err)
	p, err := newPace(l)
	require.NoError(t, err)
	return p
}

func startCopy(ctx context.Context, t *testing.T, text string) *copying {
	t.Helper()
	c := &copying{t: t, ctx: ctx, pace: paceOf(t, text)}
	go func() {
		n, err := ioreader.Copy(ctx, sleepyWriter{c}, sleepyReader{c}, ioreader.CopyOptions{BufferSize: bufferSize})
		assert.Equal(t, context.Canceled, err)
		assert.Equal(t, c.passed.Load(), n)
	}()
	return c
}

type (
	sleepyReader struct{ *copying }
	sleepyWriter struct{ *copying }
)

func (r sleepyReader) Read(b []byte) (int, error) {
	time.Sleep(time.Duration(r.slowSource.Swap(0)))
	return min(len(b), 4<<10), nil
}

func (w sleepyWriter) Write(b []byte) (total int, err error) {
	for len(b) > total {
		lease, err := w.take(w.ctx, len(b)-total)
		if err != nil {
			return total, err
		}
		time.Sleep(time.Duration(w.slowOutput.Swap(0)))
		w.passed.Add(int64(lease.Permits()))
		total += lease.Permits()
	}
	return total, nil
}

// in returns how many bytes pass in d.
func (c *copying) in(d time.Duration) int {
	before := c.passed.Load()
	time.Sleep(d)
	synctest.Wait()
	return int(c.passed.Load() - before)
}

// The rate is exact and even from the first byte.
func TestPaceIsExactAndEven(t *testing.T) {
	for _, text := range []string{"1MB/s", "100MB/s", "8MiB/s", "250/s", "1/h"} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startCopy(t.Context(), t, text)
				limits, _ := c.current()
				limit := limits[0]
				turn := max(permitsIn(limit, turnTime), burst(limit)/2, 1)
				second := limit.Per // or an hour
				assert.InDelta(t, 5*limit.Permits, c.in(5*second), float64(2*turn))
				for range 100 {
					assert.InDelta(t, permitsIn(limit, second/50), c.in(second/50), float64(turn))
				}
			})
		})
	}
}

// A step of a copy: a wait for the output or the source, and then how many bytes pass in the time from the start of that wait.
type step struct {
	output, source time.Duration
	in             time.Duration
	want           int
}

// The copy catches up after a wait for the output or the source (or a late wake-up) of up to 250 ms, at most a quarter above the
// rate, or by the burst that the user asks for.
func TestPaceAfterAWait(t *testing.T) {
	for name, c := range map[string]struct {
		rate  string
		steps []step
	}{
		"for the output": {"1MB/s", []step{
			{in: time.Second, want: 1_000_000},
			{output: 200 * time.Millisecond, in: 300 * time.Millisecond, want: 135_000},
			{in: 1200 * time.Millisecond, want: 1_365_000},
			{in: 100 * time.Millisecond, want: 100_000},
		}},
		"an hour": {"1MB/s", []step{
			{output: time.Hour, in: time.Hour + 10*time.Second, want: 10_250_000},
			{source: time.Hour, in: time.Hour + 10*time.Second, want: 10_250_000},
		}},
		"with a burst": {"1MB/s burst 500kB", []step{
			{in: time.Second, want: 1_500_000},
			{source: time.Second, in: time.Second + 10*time.Millisecond, want: 510_000},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				copied := startCopy(t.Context(), t, c.rate)
				for _, s := range c.steps {
					copied.slowOutput.Store(int64(s.output))
					copied.slowSource.Store(int64(s.source))
					assert.InDelta(t, s.want, copied.in(s.in), 10_000, "%+v", s)
				}
			})
		})
	}
}

// The rate is never above what was asked for, and below it by a millionth at most.
func TestPaceKeepsOddRates(t *testing.T) {
	for _, text := range []string{
		"1/s", "3/s", "7/h", "1/720h", "1234567/s", "8MiB/s", "700kB/s", "999999999/s", "100GB/s", "123456789/m", "1T/1ns",
		"9223372036854775807/s", "9223372036854775807/1ns", "5/1ns", "1MB/s burst 1",
	} {
		t.Run(text, func(t *testing.T) {
			limits, err := new(options).parseRate(text, "")
			require.NoError(t, err)
			p, err := newPace(limits)
			require.NoError(t, err)
			l, mean, peak := limits[0], p.parts[0].(*core.TokenBucket), p.parts[1].(*core.TokenBucket)
			o := mean.Options()
			got := new(big.Rat).SetFrac64(int64(o.TokensPerPeriod), int64(o.ReplenishmentPeriod))
			want := new(big.Rat).SetFrac64(int64(l.Permits), int64(l.Per))
			assert.LessOrEqual(t, got.Cmp(want), 0)
			ratio, _ := new(big.Rat).Quo(got, want).Float64()
			assert.Greater(t, ratio, 1-1e-6)
			for range 100 {
				p.change(cli.UserSignal1)
				limits, _ := p.current()
				assert.LessOrEqual(t, permitsIn(limits[0], burstTime), min(mean.Options().TokenLimit, peak.Options().TokenLimit), "%v", limits)
			}
		})
	}
}

// A copy that waits long notices immediately that the rate changes, to one of the same kind or of another, and ends with its
// context.
func TestPaceChangesWhileTheCopyWaits(t *testing.T) {
	for next, want := range map[string]int{"60/m": 1, "1000/s": 1975, "fixed 5/1h": 1, "100MB/m": 3_300_000} {
		t.Run(next, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				c := startCopy(ctx, t, "1/h")
				require.Equal(t, 1, c.in(time.Minute))
				l, err := new(options).parseRate(next, "")
				require.NoError(t, err)
				require.NoError(t, c.set(l))
				c.in(2 * time.Second)
				assert.GreaterOrEqual(t, int(c.passed.Load())-1, want)
				cancel()
			})
		})
	}
}

// Several limits all apply, and a pause is a limit too.
func TestPaceOfSeveralLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := startCopy(ctx, t, "1000/s, fixed 5000/1h")
		assert.InDelta(t, 2000, c.in(2*time.Second), 30)
		assert.InDelta(t, 3000, c.in(time.Minute), 30)
		require.NoError(t, c.set(spec.Limits{{Kind: spec.Paused}}))
		assert.Zero(t, c.in(2*time.Hour))
		cancel()
	})
}

func TestPaceBecomesUnlimited(t *testing.T) {
	p := paceOf(t, "1/h")
	l, err := new(options).parseRate("unlimited", "")
	require.NoError(t, err)
	require.NoError(t, p.set(l))
	assert.True(t, p.TryAcquire(1000).Acquired())
	assert.Equal(t, "the rate is unlimited", p.change(cli.UserSignal1))
}

// A slice that waits is larger than the limit of a rate that is far lower.
func TestPaceBecomesLowerWhileASliceWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCopy(t.Context(), t, "10MB/s")
		c.in(time.Second)
		l, err := new(options).parseRate("100/s", "")
		require.NoError(t, err)
		require.NoError(t, c.set(l))
		assert.InDelta(t, 1000, c.in(10*time.Second), 110) // and the new burst
	})
}

// The schedule follows the wall clock, even if that is set or the machine sleeps, which timers do not notice.
func TestScheduleByTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := new(options).parseSchedule("00:00,1/s 12:00,2/s", "")
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
			l, _ := p.current()
			return l[0].Permits
		}
		assert.Equal(t, 1, rate())
		slept.Store(int64(3 * time.Hour))
		time.Sleep(time.Second)
		assert.Equal(t, 2, rate())
		slept.Store(0) // set back
		time.Sleep(time.Second)
		assert.Equal(t, 1, rate())
		p.change(cli.UserSignal1)
		time.Sleep(time.Minute)
		assert.Equal(t, 2, rate(), "what a signal has changed stays until the next entry")
		time.Sleep(2*time.Hour - 63*time.Second)
		p.change(cli.UserSignal2)
		assert.Equal(t, 1, rate())
		time.Sleep(time.Second)
		assert.Equal(t, 2, rate())
	})
}
