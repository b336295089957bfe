package core_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

func TestTheZeroLease(t *testing.T) {
	var l core.Lease
	require.False(t, l.Acquired())
	require.Zero(t, l.Permits())
	require.ErrorIs(t, l.Err(), core.ErrRejected)
	for range l.Metadata() {
		require.Fail(t, "metadata of nothing")
	}
	l.Release()
	l.With(core.ReasonPhrase.With("why")).Release()
}

func TestReleaseIsOnceWhicheverCopy(t *testing.T) {
	l := concurrency(t, 10, 0)
	lease := takes(t, l, 3)
	takes(t, l, 4)
	copies := []core.Lease{lease, lease, lease.With(), lease.With(core.ReasonPhrase.With("x")).With(core.LimiterName.With("y"))}
	for range 3 {
		for i := range copies {
			copies[len(copies)-1-i].Release()
			available(t, l, 6)
		}
	}
	require.True(t, lease.Acquired(), "released, and still what was granted")
	require.Equal(t, 3, lease.Permits())
	require.NoError(t, lease.Err())
}

// A lease from long ago releases nothing that somebody else holds now.
func TestAStaleLeaseReleasesNothing(t *testing.T) {
	l := concurrency(t, 4, 0)
	var old []core.Lease
	for round := range 1000 {
		now := []core.Lease{takes(t, l, 1), takes(t, l, 1), takes(t, l, 1)}
		for _, lease := range old {
			lease.Release()
			l.Refund(lease)
		}
		require.Equal(t, 1, l.Available(), round)
		for i := range now {
			now[(i+round)%3].Release()
		}
		if old = append(old, now...); len(old) > 60 {
			old = old[30:]
		}
	}
	available(t, l, 4)
}

// More leases than any counter of few bits has numbers for.
func TestAMillionLeases(t *testing.T) {
	l := concurrency(t, 4, 0)
	first := takes(t, l, 1)
	first.Release()
	hot := l.TryAcquire(1)
	var early []core.Lease
	n := testkit.Rounds(3 << 20)
	for i := range n {
		lease := l.TryAcquire(1)
		if i < 5 {
			early = append(early, lease)
		}
		lease.Release()
		hot.Release()
		hot = l.TryAcquire(1)
	}
	held := takes(t, l, 3)
	first.Release()
	for _, e := range early {
		e.Release()
	}
	available(t, l, 0)
	hot.Release()
	held.Release()
	available(t, l, 4)
	require.Equal(t, uint64(2*n+3), l.Statistics().Granted)
}

func TestALeaseMayBeReleasedElsewhere(t *testing.T) {
	l := concurrency(t, 1, 0)
	leases := make(chan core.Lease)
	var all sync.WaitGroup
	all.Go(func() {
		for lease := range leases {
			lease.Release()
		}
	})
	leases <- takes(t, l, 1)
	close(leases)
	all.Wait()
	available(t, l, 1)
}

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

// A release function may do what it likes, release the lease again included.
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

func TestRefuse(t *testing.T) {
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

// With on a refusal keeps what it was.
func TestWithKeepsTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1, 0)
		takes(t, l, 1)
		more := core.LimiterName.With("more")
		rejection(t, l.TryAcquire(1).With(more).Err(), "permits exhausted", 0)
		failed(t, core.ErrPermitsExceedLimit, l.TryAcquire(2).With(more).Err(), 2)
		require.Equal(t, core.ErrNegativePermits, l.TryAcquire(-2).With(more).Err())
		lease, err := l.Acquire(t.Context(), 1)
		require.Same(t, err, lease.Err())
		rejection(t, lease.With(more).Err(), "queue limit reached", 0)
		require.NoError(t, l.Close())
		require.Equal(t, core.ErrClosed, l.TryAcquire(1).With(more).Err())
	})
}
