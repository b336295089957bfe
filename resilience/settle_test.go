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

func hourly(limit int) (*core.TokenBucket, error) {
	return core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
}

// costing returns strategies that settle, each with a function that returns the available permits.
func costing(t *testing.T) map[string]struct {
	*resilience.Strategy
	left func() int
} {
	t.Helper()
	l, err := hourly(10)
	require.NoError(t, err)
	shared := core.Must(resilience.New(resilience.Options{Limiter: l, Settle: cost}))
	k := core.Must(partition.New(partition.Options[string, string]{
		Key: func(name string) string { return name },
		New: func(string) (core.Limiter, error) { return hourly(10) },
	}))
	keyed := core.Must(resilience.Keyed(k, callerOf, resilience.Options{Settle: cost}))
	return map[string]struct {
		*resilience.Strategy
		left func() int
	}{
		"limit": {shared, l.Available},
		"keyed": {keyed, partition.For(k, "ann").Available},
	}
}

func TestSettle(t *testing.T) {
	for name, s := range costing(t) {
		t.Run(name, func(t *testing.T) {
			ctx := withCaller(t.Context(), "ann")
			require.NoError(t, s.Do(ctx, func(context.Context) error {
				require.Equal(t, 9, s.left(), "one permit, as long as it runs")
				return nil
			}))
			require.Equal(t, 5, s.left())
			require.Equal(t, errBoom, s.Do(ctx, func(context.Context) error { return errBoom }))
			require.Equal(t, 5, s.left(), "a failure is free")
			_, err := resilience.Execute(ctx, s.Strategy, func(context.Context) (int, error) { return 1, errTimeout })
			require.Equal(t, errTimeout, err)
			require.Equal(t, 4, s.left(), "a timeout costs the permits that were taken")
			require.Panics(t, func() { _ = s.Do(ctx, func(context.Context) error { panic("boom") }) })
			require.Equal(t, 3, s.left(), "no limiter was asked")

			require.NoError(t, s.Do(ctx, nothing))
			require.Equal(t, 0, s.left(), "the limiter is owed 2")
			require.ErrorIs(t, s.Do(ctx, never(t)), core.ErrRejected)
		})
	}
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

// bare is a third-party limiter that is nothing but a core.Limiter.
type bare struct{ core.Limiter }

func TestSettleWithALimiterThatCannot(t *testing.T) {
	l := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1}))
	for _, n := range []int{0, 1, 2} {
		s := core.Must(resilience.New(resilience.Options{Limiter: bare{l}, Settle: func(context.Context, error) int { return n }}))
		require.NoError(t, s.Do(t.Context(), nothing))
		require.Equal(t, 1, l.Available())
	}
}

// A rejection of a settling strategy's options changes nothing, and the limiter that stays settles.
func TestUpdateOfSettle(t *testing.T) {
	l, err := hourly(10)
	require.NoError(t, err)
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

// Keyed finds the request once per call, also to settle.
func TestKeyedFindsTheRequestOnce(t *testing.T) {
	k := core.Must(partition.New(partition.Options[string, string]{
		Key: func(name string) string { return name },
		New: func(string) (core.Limiter, error) { return hourly(10) },
	}))
	asked := 0
	s := core.Must(resilience.Keyed(k, func(context.Context) string { asked++; return "ann" }, resilience.Options{Settle: cost}))
	require.NoError(t, s.Do(t.Context(), nothing))
	require.Equal(t, 1, asked)
	require.Equal(t, 5, partition.For(k, "ann").Available())
}
