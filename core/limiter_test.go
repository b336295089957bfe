package core_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// plainView is a view of another package's, with nothing but Unwrap.
type plainView struct{ l core.Limiter }

func (v plainView) TryAcquire(n int) core.Lease { return v.l.TryAcquire(n) }
func (v plainView) Available() int              { return v.l.Available() }
func (v plainView) Unwrap() core.Limiter        { return v.l }

func (v plainView) Acquire(ctx context.Context, n int) (core.Lease, error) {
	return v.l.Acquire(ctx, n)
}

func TestAs(t *testing.T) {
	rate, slots := bucket(t, core.PerSecond(5, 5)), concurrency(t, 5, 0)
	for name, view := range map[string]func(core.Limiter) core.Limiter{
		"itself": func(l core.Limiter) core.Limiter { return l },
		"reason": func(l core.Limiter) core.Limiter { return core.WithReason(l, "full") },
		"shadow": core.Shadow,
		"plain":  func(l core.Limiter) core.Limiter { return plainView{l} },
		"deep": func(l core.Limiter) core.Limiter {
			return plainView{core.Shadow(plainView{core.WithReason(l, "full")})}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, ok := core.As[*core.TokenBucket](view(rate))
			require.True(t, ok)
			require.Same(t, rate, b)
			_, ok = core.As[*core.TokenBucket](view(slots))
			require.False(t, ok)
			_, ok = core.As[core.Replenisher](view(rate))
			require.True(t, ok)
			_, ok = core.As[core.Resetter](view(rate))
			require.True(t, ok)
			if r, ok := core.As[core.Replenisher](view(slots)); ok {
				require.Zero(t, r.ReplenishmentPeriod())
			}
			_, ok = core.As[io.Closer](view(slots))
			require.True(t, ok)
			_, ok = core.As[core.Reporter](view(slots))
			require.True(t, ok)
		})
	}
	_, ok := core.As[core.Reporter](nil)
	require.False(t, ok)
	_, ok = core.As[core.Reporter](plainView{})
	require.False(t, ok)
}

// ownQuietTry is a limiter of another package's that can be tried quietly.
type ownQuietTry struct {
	bareLimiter
	quiet int
}

func (o *ownQuietTry) TryQuietly(permits int) (core.Lease, bool) {
	o.quiet++
	return core.TryQuietly(o.bareLimiter.Limiter, permits)
}

func TestQuietTries(t *testing.T) {
	eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
		for _, over := range []core.Limiter{l, core.WithReason(l, "full"), core.Shadow(l), chain(t, chain(t, l))} {
			before := over.(core.Reporter).Statistics()
			_, ok := core.TryQuietly(over, 6)
			require.False(t, ok)
			lease, ok := core.TryQuietly(over, 5)
			require.True(t, ok)
			available(t, over, 0)
			for _, n := range []int{1, -1} {
				_, ok = core.TryQuietly(over, n)
				require.False(t, ok)
			}
			after := over.(core.Reporter).Statistics()
			require.Equal(t, before.Rejected, after.Rejected, "a quiet rejection is not counted")
			require.Equal(t, before.Granted+1, after.Granted)
			lease.Refund()
			available(t, over, 5)
		}
		require.NoError(t, l.Close())
		_, ok := core.TryQuietly(l, 1)
		require.False(t, ok)
	})
	own := &ownQuietTry{bareLimiter: bareLimiter{concurrency(t, 5, 0)}}
	_, ok := core.TryQuietly(own, 1)
	require.True(t, ok)
	_, ok = core.TryQuietly(core.WithReason(chain(t, own), "full"), 1)
	require.True(t, ok)
	require.Equal(t, 2, own.quiet)
	_, ok = core.TryQuietly(bareLimiter{own}, 1)
	require.False(t, ok, "a wrapper has the quiet try only if it has the method")
	require.Equal(t, 3, own.Available())
}
