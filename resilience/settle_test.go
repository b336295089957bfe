package resilience_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/resilience"
)

var errBoom, errTimeout = errors.New("boom"), errors.New("timeout")

// cost says that a function cost 5 permits, or none if it failed, or the permits that were taken if it timed
// out.
func cost(_ context.Context, err error) int {
	switch {
	case err == nil:
		return 5
	case errors.Is(err, errTimeout):
		return -1
	}
	return 0
}

func TestSettle(t *testing.T) {
	shared := bucket(t, 10, time.Hour)
	callers := core.Must(perCaller(func(string) (core.Limiter, error) { return bucket(t, 10, time.Hour), nil }))
	found := 0
	find := func(ctx context.Context) string { found++; return callerOf(ctx) }
	for name, c := range map[string]struct {
		s    *resilience.Strategy
		left func() int
	}{
		"limit": {core.Must(resilience.New(resilience.Options{Limiter: shared, Settle: cost})), shared.Available},
		"keyed": {
			core.Must(resilience.Keyed(callers, find, resilience.Options{Settle: cost})),
			partition.For(callers, "ann").Available,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, s := withCaller(t.Context(), "ann"), c.s
			for _, step := range []struct {
				end  error
				left int
			}{{nil, 5}, {errBoom, 5}, {errTimeout, 4}} { // a failure is free, a timeout costs the permits that were taken
				before := c.left()
				_, err := resilience.Execute(ctx, s, func(context.Context) (int, error) {
					require.Equal(t, before-1, c.left(), "one permit, as long as it runs")
					return 1, step.end
				})
				require.Equal(t, step.end, err)
				require.Equal(t, step.left, c.left())
			}
			require.Panics(t, func() { _ = s.Do(ctx, func(context.Context) error { panic("boom") }) })
			require.Equal(t, 3, c.left(), "no limiter was asked")
			require.NoError(t, s.Do(ctx, nothing))
			require.Equal(t, 0, c.left(), "the limiter is owed 2")
			require.ErrorIs(t, s.Do(ctx, never(t)), core.ErrRejected)
		})
	}
	require.Equal(t, 6, found, "Keyed finds the request once per call, also to settle")
}

func TestSettleOfOwnPermits(t *testing.T) {
	n, asked := 3, 0
	var s *resilience.Strategy
	s = core.Must(resilience.New(resilience.Options{
		Default: core.ConcurrencyLimiterOptions{PermitLimit: 1},
		Settle: func(ctx context.Context, _ error) int {
			asked++
			require.ErrorIs(t, s.Do(ctx, never(t)), core.ErrRejected, "the permit is held")
			return n
		},
	}))
	require.NoError(t, s.Do(t.Context(), nothing))
	n = 0
	require.NoError(t, s.Do(t.Context(), nothing), "all is back")
	require.Equal(t, 2, asked)
	require.NoError(t, s.Update(resilience.Options{Settle: func(context.Context, error) int { panic("settle") }}))
	for range 2 {
		require.PanicsWithValue(t, "settle", func() { _ = s.Do(t.Context(), nothing) })
	}
}

func TestSettleWithALimiterThatCannot(t *testing.T) {
	l := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1}))
	for _, n := range []int{0, 1, 2} {
		s := core.Must(resilience.New(resilience.Options{
			Limiter: struct{ core.Limiter }{l},
			Settle:  func(context.Context, error) int { return n },
		}))
		require.NoError(t, s.Do(t.Context(), nothing))
		require.Equal(t, 1, l.Available())
	}
}

// A rejection of a settling strategy's options changes nothing, and the limiter that stays settles.
func TestUpdateOfSettle(t *testing.T) {
	l := bucket(t, 10, time.Hour)
	s := core.Must(resilience.Limit(l))
	require.Error(t, s.Update(resilience.Options{Limiter: (*core.TokenBucket)(nil), Settle: cost}))
	require.NoError(t, s.Do(t.Context(), nothing))
	require.Equal(t, 9, l.Available())
	require.NoError(t, s.Update(resilience.Options{Settle: cost}))
	require.NoError(t, s.Do(t.Context(), nothing))
	require.Equal(t, 4, l.Available())
}

func TestRejectedErrorNamesTheStrategy(t *testing.T) {
	require.EqualError(t, &resilience.RejectedError{}, "resilience: rejected")
	require.EqualError(t, &resilience.RejectedError{Strategy: "orders"}, "resilience: orders: rejected")
}
