package core_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func TestGrant(t *testing.T) {
	runs := 0
	l := core.Grant(3, func() { runs++ }, core.LimiterName.With("mine"), core.Remaining.With(4))
	require.True(t, l.Acquired())
	require.Equal(t, 3, l.Permits())
	require.NoError(t, l.Err())
	name, ok := core.LimiterName.From(l)
	require.True(t, ok)
	require.Equal(t, "mine", name)
	other := l.With(core.LimiterName.With("theirs"))
	other.Release()
	l.Release()
	other.With().Release()
	require.Equal(t, 1, runs)

	core.Grant(1, nil).Release()
	core.Grant(1, nil, core.Remaining.With(1)).With().Release()
	require.True(t, core.Grant(0, nil).Acquired())
	bad := core.Grant(-1, func() { runs++ })
	require.False(t, bad.Acquired())
	require.Equal(t, core.ErrNegativePermits, bad.Err())
	bad.Release()
	require.Equal(t, 1, runs)
}

// A release function may do anything, even release the lease again.
func TestAReleaseFunctionThatReleases(t *testing.T) {
	runs := 0
	var l core.Lease
	l = core.Grant(1, func() {
		runs++
		l.Release()
	})
	l.Release()
	require.Equal(t, 1, runs)

	p := core.Grant(1, func() { panic("mine") })
	require.PanicsWithValue(t, "mine", p.Release)
	p.Release()
}

func TestReject(t *testing.T) {
	l := core.Reject(core.LimiterName.With("mine"), core.ReasonPhrase.With("too many"), core.RetryAfter.With(time.Second),
		core.ReasonPhrase.With("far too many"))
	require.False(t, l.Acquired())
	require.Zero(t, l.Permits())
	rejection(t, l.Err(), "far too many", time.Second)
	var e *core.RejectedError
	require.ErrorAs(t, l.Err(), &e)
	require.Equal(t, "mine", e.Limiter)
	rejection(t, l.With(core.RetryAfter.With(time.Minute)).Err(), "far too many", time.Minute)
	rejection(t, core.Reject().Err(), "", 0)
	l.Release()
}

func TestFail(t *testing.T) {
	own := errors.New("mine")
	for _, err := range []error{core.ErrClosed, core.ErrPermitsExceedLimit, core.ErrNegativePermits, own} {
		l := core.Fail(err)
		require.False(t, l.Acquired())
		require.Zero(t, l.Permits())
		require.Equal(t, err, l.Err())
		require.Equal(t, err, l.With(core.LimiterName.With("x")).Err())
		l.Release()
	}
	require.Error(t, core.Fail(nil).Err())
	require.False(t, core.Fail(nil).Acquired())
}

// Must returns the value, and panics with the error itself, so that it can be matched.
func TestMust(t *testing.T) {
	require.Equal(t, 7, core.Must(7, nil))
	err := errors.New("no limit")
	require.PanicsWithValue(t, err, func() { core.Must(7, err) })
	require.Panics(t, func() { core.Must(core.NewTokenBucket(core.TokenBucketOptions{})) })
}

func TestReleaseAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := concurrency(t, 10, 10), concurrency(t, 10, 0)
		both := chain(t, a, b)
		rate := bucket(t, core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
		runs := 0
		leases := []core.Lease{
			takes(t, a, 1), takes(t, a, 2), takes(t, b, 3), takes(t, b, 1), takes(t, a, 3), takes(t, both, 1),
			takes(t, rate, 4), takes(t, a, 0), core.Grant(1, func() { runs++ }), core.Reject(),
			{},
			takes(t, a, 2).With(core.ReasonPhrase.With("")),
		}
		available(t, a, 1)
		available(t, b, 5)
		w, w2 := queues(t, a, 3), queues(t, a, 2)
		again := slices.Concat(leases, leases)
		core.ReleaseAll(again)
		core.ReleaseAll(leases)
		w.granted(t)
		w2.granted(t)
		available(t, a, 5)
		available(t, b, 10)
		available(t, rate, 6)
		require.Equal(t, 1, runs)
	})
}

func TestReleaseAllOfNothing(t *testing.T) {
	core.ReleaseAll(nil)
	l := concurrency(t, 10, 0)
	first, second := takes(t, l, 1), takes(t, l, 2)
	second.Release()
	core.ReleaseAll([]core.Lease{second, second})
	available(t, l, 9)
	third := takes(t, l, 4)
	core.ReleaseAll([]core.Lease{second, first, first})
	available(t, l, 6)
	core.ReleaseAll([]core.Lease{third})
	available(t, l, 10)
}

// No permit is held back while a later lease's release function runs, which may wait for it.
func TestReleaseAllHoldsNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, other := concurrency(t, 1, 1), concurrency(t, 1, 1)
		rate := bucket(t, core.Every(time.Hour, 5))
		release := func() {
			for _, of := range []core.Limiter{l, other} {
				lease, err := of.Acquire(t.Context(), 1)
				require.NoError(t, err)
				lease.Release()
			}
		}
		core.ReleaseAll([]core.Lease{
			takes(t, l, 1), takes(t, rate, 1), takes(t, other, 1), core.Grant(1, release), core.Grant(1, release).With(core.ReasonPhrase.With("x")),
		})
		available(t, l, 1)
		available(t, other, 1)
	})
}
