package telemetry_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/limitertest"
	"github.com/sluice-go/sluice/telemetry"
)

const (
	queueGranted  = "sluice.limiter.queue.duration{sluice.limiter.name=x,sluice.result=granted}"
	queueRejected = "sluice.limiter.queue.duration{sluice.limiter.name=x,sluice.result=rejected}"
	leaseGranted  = "sluice.limiter.lease.duration{sluice.limiter.name=x,sluice.result=granted}"
	leaseShadowed = "sluice.limiter.lease.duration{sluice.limiter.name=x,sluice.result=shadowed}"
	settledUp     = "sluice.limiter.permits.settled{sluice.direction=up,sluice.limiter.name=x}"
	settledDown   = "sluice.limiter.permits.settled{sluice.direction=down,sluice.limiter.name=x}"

	leasesGranted  = "sluice.limiter.leases{sluice.limiter.name=x,sluice.result=granted}"
	leasesRejected = "sluice.limiter.leases{sluice.limiter.name=x,sluice.result=rejected}"
)

// Each test of times is played with a limiter of core and with a third-party one.
func eachKind(t *testing.T, l func() *core.ConcurrencyLimiter, f func(t *testing.T, s sdkReader, i core.Limiter)) {
	t.Helper()
	for name, wrap := range map[string]func(core.Limiter) core.Limiter{
		"core":    func(l core.Limiter) core.Limiter { return l },
		"foreign": func(l core.Limiter) core.Limiter { return foreign{l} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSDK()
				i, _, err := telemetry.Instrument(s.Options, "x", wrap(l()))
				require.NoError(t, err)
				f(t, s, i)
			})
		})
	}
}

func times(t *testing.T, s sdkReader) map[string]point {
	t.Helper()
	all, _ := s.collect(t)
	maps.DeleteFunc(all, func(name string, _ point) bool {
		return !strings.Contains(name, ".duration")
	})
	return all
}

func TestALeaseIsTimedUntilItsFirstRelease(t *testing.T) {
	eachKind(t, func() *core.ConcurrencyLimiter { return concurrency(t, 10, 0) }, func(t *testing.T, s sdkReader, i core.Limiter) {
		first := i.TryAcquire(1)
		second := core.Must(i.Acquire(t.Context(), 2))
		require.Equal(t, 2, second.Permits())
		require.False(t, i.TryAcquire(8).Acquired())
		time.Sleep(time.Second)
		first.Release()
		first.Release()
		time.Sleep(time.Second)
		second.With(core.ReasonPhrase.With("copy")).Release()
		second.Release()
		require.Equal(t, 10, i.Available())
		require.Equal(t, map[string]point{leaseGranted: {3, 2}}, times(t, s), "and no request waited")

		i.TryAcquire(0).Release() // a probe
		require.Equal(t, map[string]point{leaseGranted: {3, 3}}, times(t, s))
	})
}

func TestStopEndsTheMetricsAlone(t *testing.T) {
	s := newSDK()
	l := concurrency(t, 1, 0)
	i, stop, err := telemetry.Instrument(s.Options, "x", l)
	require.NoError(t, err)
	i.TryAcquire(1).Release()
	points, _ := s.collect(t)
	require.Len(t, points, 6)
	require.NoError(t, stop())
	require.NoError(t, stop())
	lease := i.TryAcquire(1)
	lease.Refund()
	points, _ = s.collect(t)
	require.Equal(t, []string{leaseGranted, leasesGranted, leasesRejected}, names(points), "totals stay")
	require.Equal(t, uint64(1), points[leaseGranted].count)
	require.Equal(t, uint64(2), l.Statistics().Granted)
}

func metadata(l core.Lease) map[string]any { return maps.Collect(l.Metadata()) }

func TestMetadataIsKept(t *testing.T) {
	mine := core.NewMetadataKey[string]("MINE")
	granting := func(m ...core.Metadata) core.Limiter {
		return stranger{try: func(n int) core.Lease { return core.Grant(n, nil, m...) }}
	}
	rate := core.TokenBucketOptions{Name: "b", TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second}
	for name, pair := range map[string]func() core.Limiter{
		"concurrency": func() core.Limiter { return concurrency(t, 5, 0) },
		"bucket":      func() core.Limiter { return bucket(t, rate) },
		"chain":       func() core.Limiter { return chain(t, foreign{core.Unlimited()}, bucket(t, rate)) },
		"foreign":     func() core.Limiter { return foreign{bucket(t, rate)} },
		"adaptive":    func() core.Limiter { return core.Must(adaptive.New(adaptive.Options{Initial: 5, Min: 5, Max: 5})) },
		"own":         func() core.Limiter { return granting(mine.With("x"), core.Remaining.With(3), core.RetryAfter.With(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, ask := range []func(core.Limiter, int) (core.Lease, error){
					func(l core.Limiter, n int) (core.Lease, error) { lease := l.TryAcquire(n); return lease, lease.Err() },
					func(l core.Limiter, n int) (core.Lease, error) { return l.Acquire(t.Context(), n) },
				} {
					bare, i := pair(), instrument(t, newSDK().Options, pair())
					for _, n := range []int{1, 0, 4, 2, 6, -1} {
						want, wantErr := ask(bare, n)
						got, gotErr := ask(i, n)
						require.Equal(t, want.Acquired(), got.Acquired(), n)
						require.Equal(t, metadata(want), metadata(got), n)
						require.Equal(t, wantErr, gotErr)
					}
				}
			})
		})
	}
}

func chain(t *testing.T, all ...core.Limiter) core.Limiter {
	t.Helper()
	return core.Must(core.Chain(all...))
}

func TestShadowedLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSDK()
		i := instrument(t, s.Options, core.Shadow(concurrency(t, 1, 0)))
		first, second := i.TryAcquire(1), i.TryAcquire(1)
		third := core.Must(i.Acquire(t.Context(), 1))
		time.Sleep(time.Second)
		for _, l := range []core.Lease{first, second, third} {
			l.Release()
		}
		require.Equal(t, map[string]point{leaseGranted: {1, 1}, leaseShadowed: {2, 2}}, times(t, s))
		_, shadowed := core.Shadowed.From(second)
		require.True(t, shadowed)
		points, _ := s.collect(t)
		require.Equal(t, point{value: 2}, points[leasesRejected], "what the limiter would have refused")
	})
}

// stranger is a limiter as the test has it.
type stranger struct {
	try     func(n int) core.Lease
	acquire func(ctx context.Context, n int) (core.Lease, error)
}

func (s stranger) TryAcquire(n int) core.Lease { return s.try(n) }

func (s stranger) Acquire(ctx context.Context, n int) (core.Lease, error) {
	if s.acquire == nil {
		l := s.try(n)
		return l, l.Err()
	}
	return s.acquire(ctx, n)
}

func (s stranger) Available() int { return 0 }

func TestALimiterThatPanicsOrLies(t *testing.T) {
	odd, released := errors.New("odd"), 0
	s := newSDK()
	ask := func(acquire func() (core.Lease, error)) error {
		i := instrument(t, s.Options, stranger{
			try:     func(int) core.Lease { panic("try") },
			acquire: func(context.Context, int) (core.Lease, error) { return acquire() },
		})
		require.PanicsWithValue(t, "try", func() { i.TryAcquire(1) })
		lease, err := i.Acquire(t.Context(), 1)
		require.False(t, lease.Acquired())
		return err
	}
	require.PanicsWithValue(t, "acquire", func() { _ = ask(func() (core.Lease, error) { panic("acquire") }) })
	require.ErrorIs(t, ask(func() (core.Lease, error) { return core.Lease{}, nil }), core.ErrRejected)
	require.ErrorIs(t, ask(func() (core.Lease, error) { return core.Grant(1, func() { released++ }), odd }), odd)
	require.Equal(t, 1, released)
	require.Empty(t, times(t, s))
}

func TestInstrumentAllocatesNothing(t *testing.T) {
	if testkit.Race {
		t.Skip("sync.Pool drops at random")
	}
	ctx := t.Context()
	for name, l := range map[string]core.Limiter{
		"concurrency": concurrency(t, 10, 10),
		"bucket":      rapid(t),
		"chain":       chain(t, concurrency(t, 10, 10), rapid(t)),
	} {
		for provider, o := range map[string]telemetry.Options{"no": {MeterProvider: noop.NewMeterProvider()}, "the SDK's": newSDK().Options} {
			i := instrument(t, o, l)
			queue := core.Must(channel.New(channel.Options[int]{Limiter: i}))
			for what, f := range map[string]func(){
				"TryAcquire": func() { i.TryAcquire(1).Release() },
				"Acquire": func() {
					lease, _ := i.Acquire(ctx, 1)
					lease.Release()
				},
				"a channel": func() {
					_ = queue.Send(ctx, 1)
					_, _ = queue.Receive(ctx)
				},
			} {
				require.Zero(t, testing.AllocsPerRun(500, f), "%s, %s, %s provider", name, what, provider)
			}
		}
	}
}

func TestConformance(t *testing.T) {
	rate := core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 10}
	for name, c := range map[string]limitertest.Config{
		"concurrency": {Limit: 5, QueueLimit: 10, New: func() core.Limiter { return concurrency(t, 5, 10) }},
		"bucket":      {Limit: 5, QueueLimit: 10, Refill: 5 * time.Second, New: func() core.Limiter { return bucket(t, rate) }},
		"foreign": {
			Limit: 5, QueueLimit: 10, Skip: []string{"statistics", "idle", "close"},
			New: func() core.Limiter { return foreign{concurrency(t, 5, 10)} },
		},
		"no settler": {Limit: 5, QueueLimit: 10, New: func() core.Limiter {
			l := concurrency(t, 5, 10)
			return unsettled{l, l, l, l}
		}},
		"window": {Limit: 5, QueueLimit: 10, Refill: time.Second, New: func() core.Limiter {
			return core.Must(core.NewSlidingWindow(core.SlidingWindowOptions{PermitLimit: 5, Window: time.Second, SegmentsPerWindow: 5, QueueLimit: 10}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inner := c.New
			c.New = func() core.Limiter {
				i, _, err := telemetry.Instrument(telemetry.Options{MeterProvider: noop.NewMeterProvider()}, "x", inner())
				require.NoError(t, err)
				return i
			}
			limitertest.Run(t, c)
		})
	}
}

func TestStressInstrument(t *testing.T) {
	const workers, rounds = 6, 300
	s := newSDK()
	l := concurrency(t, 3, workers*3)
	i := instrument(t, s.Options, l)
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for round := range rounds {
				lease, err := i.Acquire(t.Context(), 1+(worker+round)%3)
				if err != nil {
					t.Error(err)
					return
				}
				again := lease
				switch round % 3 {
				case 0:
					group.Go(again.Release)
				case 1:
					lease.Refund()
				case 2:
					group.Go(func() { lease.Settle(round % 5).Release() })
				}
				lease.Release()
			}
		})
	}
	group.Wait()
	require.Equal(t, core.Statistics{Limit: 3, Available: 3, Granted: workers * rounds}, l.Statistics())
	require.Equal(t, uint64(workers*rounds), times(t, s)[leaseGranted].count)
}
