package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// fourOptions are options of each kind with the limit of permits.
func fourOptions(permits int) []core.Options {
	return []core.Options{
		core.ConcurrencyLimiterOptions{Name: "x", PermitLimit: permits},
		core.TokenBucketOptions{Name: "x", TokenLimit: permits, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour},
		core.FixedWindowOptions{Name: "x", PermitLimit: permits, Window: time.Hour},
		core.SlidingWindowOptions{Name: "x", PermitLimit: permits, Window: time.Hour, SegmentsPerWindow: 4},
	}
}

func TestApplyUpdatesALimiterOfItsKind(t *testing.T) {
	raised := fourOptions(9)
	for i, o := range fourOptions(5) {
		l, err := core.New(o)
		require.NoError(t, err)
		takes(t, l, 5)
		for k, other := range raised {
			now, err := core.Apply(l, other)
			require.NoError(t, err)
			require.Equal(t, i == k, now == l)
			require.Equal(t, 9, now.(core.Reporter).Statistics().Limit)
			if i != k {
				require.Equal(t, 9, now.Available())
				require.Equal(t, 5, l.(core.Reporter).Statistics().Limit, "it is not touched")
				continue
			}
			_, bucket := l.(*core.TokenBucket)
			require.Equal(t, bucket, now.Available() == 0, "what is taken stays taken")
			_, err = core.Apply(l, o)
			require.NoError(t, err)
		}
		require.NoError(t, l.(interface{ Close() error }).Close())
		now, err := core.Apply(l, raised[i])
		require.Equal(t, core.ErrClosed, err)
		require.Nil(t, now)
		_, err = core.Apply(l, raised[(i+1)%4])
		require.NoError(t, err, "another kind needs a new limiter")
	}
}

func TestApplyOfWrongOptionsChangesNothing(t *testing.T) {
	var none *core.TokenBucketOptions
	for _, o := range append(fourOptions(0), nil, none) {
		l, err := core.New(o)
		require.ErrorContains(t, err, "core: ")
		require.Nil(t, l)
		s := core.NewSwitch(concurrency(t, 5, 0))
		before := s.Limiter()
		require.Error(t, s.Apply(o))
		require.Equal(t, before, s.Limiter())
		require.Equal(t, 5, s.Statistics().Limit)
	}
	var nilBucket *core.TokenBucket
	for _, now := range []core.Limiter{nil, nilBucket, core.WithReason(bucket(t, core.Every(time.Hour, 5)), "why")} {
		l, err := core.Apply(now, core.Every(time.Hour, 7))
		require.NoError(t, err)
		require.Equal(t, 7, l.Available())
	}
}

// Waiters of a Switch follow a change of the numbers in place, and one of the kind.
func TestSwitchApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := core.NewSwitch(concurrency(t, 1, 5))
		takes(t, s, 1)
		first, second := queues(t, s, 1), queues(t, s, 1)
		require.NoError(t, s.Apply(core.ConcurrencyLimiterOptions{PermitLimit: 2, QueueLimit: 5}))
		first.granted(t)
		require.NoError(t, s.Apply(core.Every(time.Second, 1)))
		second.granted(t)
		require.Equal(t, 1, s.Statistics().Limit)
		require.IsType(t, new(core.TokenBucket), s.Limiter())
		require.NoError(t, s.Close())
		require.Equal(t, core.ErrClosed, s.Apply(core.Every(time.Second, 5)))
	})
}

func TestPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := core.Paused().(everything)
		lease := p.TryAcquire(3)
		require.EqualError(t, lease.Err(), "core: rejected 3 permits: paused")
		phrase, _ := core.ReasonPhrase.From(lease)
		require.Equal(t, "paused", phrase)
		require.Equal(t, core.Statistics{Rejected: 1}, p.Statistics())
		_, idle := p.IdleFor()
		require.True(t, idle)
		a, b := acquires(t, p, 2), acquiresWithin(t, p, 3, time.Second)
		a.waits(t)
		require.Equal(t, core.Statistics{Queued: 5, Rejected: 1}, p.Statistics())
		_, idle = p.IdleFor()
		require.False(t, idle, "requests wait")
		time.Sleep(time.Second)
		b.fails(t, context.DeadlineExceeded)
		require.NoError(t, p.Close())
		a.fails(t, core.ErrClosed)
		acquires(t, p, 1).fails(t, core.ErrClosed)
		acquires(t, p, -1).fails(t, core.ErrNegativePermits)
		require.Zero(t, p.Statistics().Queued)
	})
}
