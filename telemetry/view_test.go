package telemetry_test

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// abilities says what a limiter is beside a core.Limiter, as core.As finds it.
func abilities(l core.Limiter) (all []string) {
	for name, is := range map[string]bool{
		"Reporter": as[core.Reporter](l), "Idler": as[core.Idler](l),
		"Closer": as[io.Closer](l), "Resetter": as[core.Resetter](l), "Replenisher": as[core.Replenisher](l),
	} {
		if is {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

func as[T any](l core.Limiter) bool {
	_, ok := core.As[T](l)
	return ok
}

func TestAnInstrumentedLimiterIsWhatItsLimiterIs(t *testing.T) {
	rate, refunds := bucket(t, core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second}), concurrency(t, 1, 0)
	fixed := core.Must(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 5, Window: time.Hour}))
	sliding := core.Must(core.NewSlidingWindow(core.SlidingWindowOptions{PermitLimit: 5, Window: time.Hour, SegmentsPerWindow: 3}))
	for name, l := range map[string]core.Limiter{
		"bucket":            rate,
		"fixed":             fixed,
		"sliding":           sliding,
		"concurrency":       concurrency(t, 1, 0),
		"chain":             chain(t, rate, concurrency(t, 1, 0)),
		"unlimited":         core.Unlimited(),
		"reason":            core.WithReason(concurrency(t, 1, 0), "no"),
		"reason of a rate":  core.WithReason(rate, "no"),
		"shadow":            core.Shadow(concurrency(t, 1, 0)),
		"shadow of a rate":  core.Shadow(rate),
		"a nil in a reason": core.WithReason(nil, "no"),
		"instrumented":      instrument(t, newSDK().Options, rate),
		"unable to settle":  unsettled{refunds, refunds, refunds, refunds},
		"able to reset": struct {
			*core.ConcurrencyLimiter
			core.Resetter
		}{concurrency(t, 1, 0), rate},
	} {
		i := instrument(t, newSDK().Options, l)
		require.Equal(t, abilities(l), abilities(i), name)
		_, quiet := i.(core.QuietTrier)
		require.True(t, quiet, name)
		require.Equal(t, l, i.(interface{ Unwrap() core.Limiter }).Unwrap(), name)
	}
}

// A view has the interfaces that all of core's limiters have: what its limiter lacks does nothing.
func TestAViewOfALimiterThatLacksSomething(t *testing.T) {
	l, rate := concurrency(t, 3, 0), bucket(t, core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
	type closer struct {
		core.Limiter
		io.Closer
	}
	type reporter struct {
		core.Limiter
		core.Reporter
	}
	for name, c := range map[string]struct {
		core.Limiter
		is []string
	}{
		"bare":          {foreign{l}, []string{"Closer", "Idler", "Reporter"}},
		"a Closer":      {closer{l, l}, []string{"Closer", "Idler", "Reporter"}},
		"a Reporter":    {reporter{l, l}, []string{"Closer", "Idler", "Reporter"}},
		"a Replenisher": {foreignRate{l, rate}, []string{"Closer", "Idler", "Replenisher", "Reporter"}},
	} {
		i := instrument(t, newSDK().Options, c.Limiter)
		require.Equal(t, c.is, abilities(i), name)
		lease := i.TryAcquire(2)
		require.Equal(t, 1, i.(core.Reporter).Statistics().Available, name)
		_, idle := i.(core.Idler).IdleFor()
		require.False(t, idle, name)
		lease.Refund()
		require.Equal(t, 3, l.Available(), name)
	}
	require.NoError(t, instrument(t, newSDK().Options, foreign{l}).(io.Closer).Close())
	require.True(t, l.TryAcquire(1).Acquired(), "nothing was closed")
	require.NoError(t, instrument(t, newSDK().Options, closer{l, l}).(io.Closer).Close())
	require.ErrorIs(t, l.TryAcquire(1).Err(), core.ErrClosed)
}

// foreignRate is a third-party limiter that replenishes and nothing else.
type foreignRate struct {
	core.Limiter
	core.Replenisher
}

func TestAViewPassesOn(t *testing.T) {
	rate := bucket(t, core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 2, ReplenishmentPeriod: time.Second, ManualReplenishment: true})
	i := instrument(t, newSDK().Options, rate)
	i.TryAcquire(5)
	replenisher, _ := core.As[core.Replenisher](i)
	require.Equal(t, time.Second, replenisher.ReplenishmentPeriod())
	require.False(t, replenisher.AutoReplenishing())
	resetter, _ := core.As[core.Resetter](i)
	resetter.Reset()
	require.Equal(t, 5, rate.Available())
	require.Equal(t, rate.Statistics(), i.(core.Reporter).Statistics())
	_, idle := i.(core.Idler).IdleFor()
	require.True(t, idle)
}
