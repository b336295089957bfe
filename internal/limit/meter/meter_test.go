package meter_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/meter"
	"github.com/sluice-go/sluice/internal/wait"
	"github.com/sluice-go/sluice/partition"
)

// stream is a meter with what ends its waits.
type stream struct {
	source wait.Source
	meter.Meter
}

func newStream(l core.Limiter) *stream {
	s := new(stream)
	s.Init(l)
	return s
}

func bucket(tb testing.TB, limit, tokens int, period time.Duration) *core.TokenBucket {
	tb.Helper()
	l, err := core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: limit, TokensPerPeriod: tokens, ReplenishmentPeriod: period, QueueLimit: math.MaxInt,
	})
	require.NoError(tb, err)
	return l
}

// pays takes a slice of which so many bytes pass.
func (s *stream) pays(t *testing.T, want, passed int) int {
	t.Helper()
	n, err := s.Take(t.Context(), &s.source, want)
	require.NoError(t, err)
	s.Settle(min(n, passed))
	return n
}

func TestUnusedPermitsAreRefunded(t *testing.T) {
	l := bucket(t, 1000, 1, time.Hour)
	s := newStream(l)
	require.Equal(t, 20, s.pays(t, 20, 15))
	require.Equal(t, 985, l.Available())
	require.Equal(t, 20, s.pays(t, 20, 0))
	require.Equal(t, 985, l.Available())
	require.Equal(t, 20, s.pays(t, 20, 19))
	require.Equal(t, 966, l.Available())
}

// A limit that is lowered far below the slice is obeyed after one request that exceeds it.
func TestALimitThatShrinks(t *testing.T) {
	l := &exceeding{ConcurrencyLimiter: core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 8000}))}
	s := newStream(l)
	s.pays(t, 1000, 1000)
	require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: 8}))
	require.Equal(t, 1, s.pays(t, 1000, 1))
	require.Equal(t, 1, l.exceeded)
}

// exceeding counts the requests for more than the limit.
type exceeding struct {
	*core.ConcurrencyLimiter

	exceeded int
}

func (e *exceeding) Acquire(ctx context.Context, n int) (core.Lease, error) {
	l, err := e.ConcurrencyLimiter.Acquire(ctx, n)
	if errors.Is(err, core.ErrPermitsExceedLimit) {
		e.exceeded++
	}
	return l, err
}

// settling grants leases itself, and records their settlements.
type settling struct {
	core.Limiter

	settled []int
}

func (s *settling) Acquire(_ context.Context, n int) (core.Lease, error) {
	return core.GrantFrom(&granter{s}, n), nil
}

type granter struct{ *settling }

func (g *granter) Settle(_, now int) int {
	g.settled = append(g.settled, now)
	return now
}

func TestALeaseIsSettledAndNotTakenAgain(t *testing.T) {
	l := &settling{Limiter: core.Unlimited()}
	s := newStream(l)
	s.pays(t, 20, 15)
	s.pays(t, 20, 20)
	s.pays(t, 20, 0)
	require.Equal(t, []int{15, 0}, l.settled)
}

// releasing is a limiter whose leases cannot be settled.
type releasing struct {
	core.Limiter

	releases int
}

func (r *releasing) Acquire(_ context.Context, n int) (core.Lease, error) {
	return core.Grant(n, func() { r.releases++ }), nil
}

func TestALimiterWithoutSettle(t *testing.T) {
	l := &releasing{Limiter: core.Unlimited()}
	s := newStream(l)
	s.pays(t, 20, 15) // it keeps what the bytes took, and more
	require.Equal(t, 1, l.releases)
	s.pays(t, 20, 0)
	require.Equal(t, 2, l.releases)
}

func TestANilLimiterIsNone(t *testing.T) {
	require.Nil(t, newStream(nil).Limiter())
	require.Nil(t, newStream((*core.TokenBucket)(nil)).Limiter())
}

// TestSlicesOfAnyRate has numbers at their ends.
func TestSlicesOfAnyRate(t *testing.T) {
	for name, c := range map[string]struct {
		limit, tokens int
		period        time.Duration
		want          int
	}{
		"a byte in an hour":   {1, 1, time.Hour, 1},
		"1000 bytes a second": {100_000, 1, time.Millisecond, 1460},   // a packet
		"1 MB a second":       {1_000_000, 1, time.Microsecond, 2000}, // the same
		"all there are":       {math.MaxInt, math.MaxInt, 1, 64 << 10},
		"a small limit":       {32, 10, time.Microsecond, 32}, // all of it
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := bucket(t, c.limit, c.tokens, c.period)
				s := newStream(l)
				s.pays(t, 1, 1)
				for l.TryAcquire(max(l.Available(), 1)).Acquired() {
				}
				s.pays(t, 1, 1) // has to wait
				require.Equal(t, c.want, s.Slice(math.MaxInt))
			})
		})
	}
}

// TestATurnStaysOpenForStreamsThatShare: if a small call has waited, and others still do, the next ones pass
// immediately, up to a slice. The others get their permits later.
func TestATurnStaysOpenForStreamsThatShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, 100_000, 1, 10*time.Microsecond) // 100 kB/s, slices of 1460
		small := newStream(l)
		small.pays(t, 100, 100)
		require.True(t, l.TryAcquire(l.Available()).Acquired())
		waits := func(n int) <-chan time.Time {
			served := make(chan time.Time, 1)
			go func() {
				_, _ = l.Acquire(t.Context(), n)
				served <- time.Now()
			}()
			synctest.Wait()
			return served
		}
		start := time.Now()
		small.pays(t, 100, 100)
		small.pays(t, 100, 100) // no other stream waits, so it waits for its own
		require.Equal(t, 2*time.Millisecond, time.Since(start))

		waits(1000)
		others := make(chan (<-chan time.Time), 1)
		time.AfterFunc(time.Millisecond, func() { others <- waits(1000) })
		small.pays(t, 100, 100) // behind the one, and before the other
		require.Equal(t, 13*time.Millisecond, time.Since(start))
		for range 13 {
			require.Equal(t, 100, small.pays(t, 100, 100))
		}
		small.pays(t, 100, 100) // in its next turn, because not all of it fits into this one
		require.Equal(t, 37*time.Millisecond, time.Since(start))
		require.Equal(t, start.Add(36*time.Millisecond), <-<-others)

		time.Sleep(time.Second)
	})
}

// TestATurnIsOpenForAWhile: a stream that has been idle waits for a new turn, and the permits of bytes that do not pass in
// a turn are refunded.
func TestATurnIsOpenForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, 100_000, 1, 10*time.Microsecond)
		small := newStream(l)
		small.pays(t, 100, 100)
		require.True(t, l.TryAcquire(l.Available()).Acquired())
		go func() { _, _ = l.Acquire(t.Context(), 100) }()
		time.AfterFunc(time.Microsecond, func() { _, _ = l.Acquire(t.Context(), 50_000) })
		synctest.Wait()
		small.pays(t, 100, 100)
		start := time.Now()
		require.Equal(t, 500, small.pays(t, 500, 100))
		time.Sleep(6 * time.Millisecond)
		small.pays(t, 100, 100)
		require.Equal(t, 502*time.Millisecond, time.Since(start))
	})
}

// TestNoCreditWithoutAWait: a stream that gets its permits immediately pays for the next bytes too,
// even if others are waiting.
func TestNoCreditWithoutAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := core.NewTokenBucket(core.TokenBucketOptions{
			TokenLimit: 10_000, TokensPerPeriod: 1, ReplenishmentPeriod: 10 * time.Microsecond,
			QueueLimit: math.MaxInt, QueueOrder: core.NewestFirst, // a newer request may be granted while another waits
		})
		require.NoError(t, err)
		wait := func(n int) {
			go func() { _, _ = l.Acquire(t.Context(), n) }()
			synctest.Wait()
		}
		small := newStream(l)
		for range 40 {
			small.pays(t, 100, 100)
		}
		require.True(t, l.TryAcquire(l.Available()).Acquired())
		wait(1000)
		small.pays(t, 100, 100) // waits, and a turn is open
		time.Sleep(time.Second)
		require.True(t, l.TryAcquire(l.Available()-500).Acquired())
		wait(1000)
		for _, left := range []int{400, 300, 200} {
			small.pays(t, 100, 100)
			require.Equal(t, left, l.Available())
		}
		time.Sleep(time.Second)
	})
}

// stranger is a limiter of another package.
type stranger struct{ core.Limiter }

// TestSlicesOfAPacket is for limiters in which a rate limiter is not alone.
func TestSlicesOfAPacket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := func() core.Limiter { return bucket(t, 1460, 1, 20*time.Microsecond) } // 50 kB/s
		held := func(n int) core.Limiter {
			return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: n}))
		}
		keyed := core.Must(partition.New(partition.Options[string, string]{
			Key: func(s string) string { return s },
			New: func(string) (core.Limiter, error) { return rate(), nil },
		}))
		for name, c := range map[string]struct {
			l    core.Limiter
			want int
		}{
			"alone":                    {rate(), 1460},
			"a view":                   {core.WithReason(rate(), "slow"), 1460},
			"a key":                    {partition.For(keyed, "a"), 1460},
			"a new key":                {partition.For(keyed, "c"), 1460},
			"a switch":                 {core.NewSwitch(rate()), 1460},
			"a chain with much memory": {core.Must(core.Chain(held(64<<10), rate())), 1460},
			"a chain with little":      {core.Must(core.Chain(held(800), rate())), 100},
			"a concurrency limiter":    {held(800), 100},
			"of a key, in a chain":     {core.Must(core.Chain(held(64<<10), partition.For(keyed, "b"))), 1460},
			"a rate of a small limit":  {bucket(t, 100, 1, time.Millisecond), 100},
			"a rate of a stranger":     {stranger{rate()}, 1460},
		} {
			s := newStream(c.l)
			if name != "a rate of a stranger" && c.want == 1460 {
				require.Equal(t, c.want, s.pays(t, c.want, c.want), name+", first slice")
			}
			for range 10 {
				s.pays(t, 5000, 5000)
			}
			require.Equal(t, c.want, s.Slice(math.MaxInt), name)
		}
	})
}

// TestGather takes all slices that are available for one write, and refunds those that did not pass.
func TestGather(t *testing.T) {
	for _, c := range []struct{ want, gathered, passed int }{
		{5000, 3540, 5000},
		{5000, 3540, 4999},
		{5000, 3540, 1460},
		{5000, 3540, 1459},
		{5000, 3540, 1},
		{5000, 3540, 0},
		{20_000, 7300, 8760}, // a slice more is not there
	} {
		l := bucket(t, 10_000, 1, time.Hour)
		s := newStream(l)
		n, err := s.Take(t.Context(), &s.source, c.want)
		require.NoError(t, err)
		require.Equal(t, 1460, n)
		require.Equal(t, c.gathered, s.Gather(c.want-n))
		s.Settle(c.passed)
		require.Equal(t, 10_000-c.passed, l.Available(), "%+v", c)
		s.Settle(0)
		require.Equal(t, 10_000-c.passed, l.Available(), "%+v", c)
	}
	held := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 800}))
	for _, l := range []core.Limiter{held, core.NewSwitch(held), stranger{bucket(t, 10_000, 1, time.Hour)}} {
		s := newStream(l)
		n, err := s.Take(t.Context(), &s.source, 800)
		require.NoError(t, err)
		require.Zero(t, s.Gather(800-n), "others may want them")
		s.Settle(n)
	}
}
