package core_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// These tests are about limiters, leases and contexts of other packages, which may get things wrong.

// counting is a limiter that embeds one of core's, and counts how its leases are settled.
type counting struct {
	*core.ConcurrencyLimiter
	settled []string
}

func (c *counting) TryAcquire(n int) core.Lease { return c.counted(c.ConcurrencyLimiter.TryAcquire(n)) }

func (c *counting) Acquire(ctx context.Context, n int) (core.Lease, error) {
	l, err := c.ConcurrencyLimiter.Acquire(ctx, n)
	return c.counted(l), err
}

func (c *counting) counted(l core.Lease) core.Lease {
	if !l.Acquired() {
		return l
	}
	return core.GrantFrom(&counted{c, l}, l.Permits())
}

type counted struct {
	*counting
	lease core.Lease
}

func (c *counted) Settle(had, now int) int {
	c.settled = append(c.settled, fmt.Sprintf("%d to %d", had, now))
	c.lease = c.lease.Settle(now)
	return c.lease.Permits()
}

func (c *counted) Release(permits int) {
	c.settled = append(c.settled, fmt.Sprintf("%d released", permits))
	c.lease.Release()
}

// theirs is another package's limiter.
type theirs struct {
	lease core.Lease
	err   error
	left  int
}

func (l theirs) TryAcquire(int) core.Lease                        { return l.lease }
func (l theirs) Available() int                                   { return l.left }
func (l theirs) Acquire(context.Context, int) (core.Lease, error) { return l.lease, l.err }

// A part of Grant keeps its permits, unless it has cost nothing.
func TestSettleAChainWithStrangers(t *testing.T) {
	slots, bare := concurrency(t, 9, 0), concurrency(t, 9, 0)
	grants := concurrency(t, 9, 0)
	l := chain(t, bareLimiter{bare}, slots, &stranger{Limiter: grants, try: func(n int) core.Lease {
		return core.Grant(n, grants.TryAcquire(n).Release)
	}})
	lease := takes(t, l, 3).Settle(2)
	require.Equal(t, []int{7, 7, 6}, []int{bare.Available(), slots.Available(), grants.Available()})
	lease = lease.Settle(5)
	require.Equal(t, []int{4, 4, 6}, []int{bare.Available(), slots.Available(), grants.Available()})
	lease.Settle(0)
	require.Equal(t, []int{9, 9, 9}, []int{bare.Available(), slots.Available(), grants.Available()})

	takes(t, l, 3).Settle(1).Release()
	require.Equal(t, []int{9, 9, 9}, []int{bare.Available(), slots.Available(), grants.Available()})
}

// bareLimiter is a limiter and nothing else.
type bareLimiter struct{ core.Limiter }

// Whoever granted a lease settles it, through whatever it was asked.
func TestSettleALeaseOfGrantFrom(t *testing.T) {
	for name, over := range map[string]func(core.Limiter) everything{
		"itself":           func(l core.Limiter) everything { return l.(everything) },
		"chain":            func(l core.Limiter) everything { return chain(t, l) },
		"chain of a chain": func(l core.Limiter) everything { return chain(t, core.Unlimited(), chain(t, l)) },
		"reason":           func(l core.Limiter) everything { return core.WithReason(l, "full").(everything) },
		"shadow":           func(l core.Limiter) everything { return core.Shadow(l).(everything) },
	} {
		t.Run(name, func(t *testing.T) {
			u := &counting{ConcurrencyLimiter: concurrency(t, 10, 0)}
			l := over(u)
			require.False(t, chain(t, l, core.Blocked()).TryAcquire(1).Acquired())
			takes(t, l, 2).Settle(0)
			lease := takes(t, l, 5)
			copied := lease.With(core.LimiterName.With("x"))
			lease = copied.Settle(2)
			require.Equal(t, 2, lease.Permits())
			available(t, u, 8)
			copied.Refund() // it has ended
			copied.Release()
			require.Equal(t, copied, copied.Settle(4))
			lease = lease.Settle(3)
			available(t, u, 7)
			lease.Refund()
			lease.Release()
			available(t, u, 10)
			takes(t, l, 4).Release()
			require.Equal(t, []string{"1 to 0", "2 to 0", "5 to 2", "2 to 3", "3 to 0", "4 released"}, u.settled)
		})
	}
}

// denies embeds a limiter of core and overrides what grants.
type denies struct{ *core.ConcurrencyLimiter }

func (denies) TryAcquire(int) core.Lease { return core.Reject(core.ReasonPhrase.With("denied")) }

func (d denies) Acquire(context.Context, int) (core.Lease, error) {
	l := d.TryAcquire(1)
	return l, l.Err()
}

// deniesChain does so with a chain.
type deniesChain struct{ *core.ChainedLimiter }

func (deniesChain) TryAcquire(int) core.Lease { return core.Reject(core.ReasonPhrase.With("denied")) }

func (d deniesChain) Acquire(context.Context, int) (core.Lease, error) {
	l := d.TryAcquire(1)
	return l, l.Err()
}

func TestALimiterThatEmbedsOneIsAskedItself(t *testing.T) {
	for name, l := range map[string]core.Limiter{
		"limiter": denies{concurrency(t, 5, 0)},
		"pointer": &denies{concurrency(t, 5, 0)},
		"chain":   deniesChain{chain(t, concurrency(t, 5, 0))},
	} {
		t.Run(name, func(t *testing.T) {
			for _, outer := range []core.Limiter{chain(t, concurrency(t, 5, 0), l), chain(t, chain(t, l)), chain(t, core.WithReason(l, "denied"))} {
				rejection(t, outer.TryAcquire(1).Err(), "denied", 0)
				_, err := outer.Acquire(t.Context(), 1)
				rejection(t, err, "denied", 0)
				_, ok := core.TryQuietly(outer, 1)
				require.False(t, ok)
			}
			_, ok := core.TryQuietly(l, 1)
			require.False(t, ok)
		})
	}
}

// stranger is a limiter whose every method can be set.
type stranger struct {
	core.Limiter
	try     func(n int) core.Lease
	acquire func(ctx context.Context, n int) (core.Lease, error)
}

func (s *stranger) TryAcquire(n int) core.Lease {
	if s.try != nil {
		return s.try(n)
	}
	return s.Limiter.TryAcquire(n)
}

func (s *stranger) Acquire(ctx context.Context, n int) (core.Lease, error) {
	if s.acquire != nil {
		return s.acquire(ctx, n)
	}
	return s.Limiter.Acquire(ctx, n)
}

// A limiter that panics loses no permits of others, and is not hidden.
func TestAChainOutlivesAPanic(t *testing.T) {
	slots, rate := concurrency(t, 5, 5), bucket(t, core.Every(time.Hour, 5))
	bad := &stranger{
		Limiter: concurrency(t, 5, 0),
		try:     func(int) core.Lease { panic("no permits") },
		acquire: func(context.Context, int) (core.Lease, error) { panic("no permits") },
	}
	mend := func() core.Limiter { // one whose Settle panics
		l := concurrency(t, 5, 0)
		return &stranger{Limiter: l, try: func(n int) core.Lease {
			return core.GrantFrom(settles(func(int, int) int { panic("no refund") }), n)
		}}
	}
	for name, l := range map[string]core.Limiter{
		"last":            chain(t, slots, rate, bad),
		"in another":      chain(t, slots, chain(t, rate, bad)),
		"behind a reason": chain(t, slots, chain(t, rate, core.WithReason(bad, "why"))),
		"twice":           chain(t, slots, mend(), rate, mend(), bad),
	} {
		t.Run(name, func(t *testing.T) {
			require.Panics(t, func() { l.TryAcquire(2) })
			require.Panics(t, func() { _, _ = l.Acquire(t.Context(), 2) })
			available(t, slots, 5)
			available(t, rate, 5)
			s := l.(core.Reporter).Statistics()
			require.Equal(t, []uint64{0, 0}, []uint64{s.Granted, s.Rejected})
		})
	}
	t.Run("Goexit", func(t *testing.T) {
		l := chain(t, slots, rate, &stranger{try: func(int) core.Lease {
			runtime.Goexit()
			return core.Lease{}
		}})
		var wg sync.WaitGroup
		wg.Go(func() { l.TryAcquire(2) })
		wg.Wait()
		available(t, slots, 5)
		available(t, rate, 5)
	})
}

// A lease that is not acquired is a refusal, whatever stands beside it; a lease that is, is
// returned beside an error.
func TestAnInvalidAnswerIsMadeValid(t *testing.T) {
	mine := errors.New("mine")
	inner := concurrency(t, 5, 0)
	for name, c := range map[string]struct {
		acquire func(context.Context, int) (core.Lease, error)
		want    error
	}{
		"nothing, and no error":     {func(context.Context, int) (core.Lease, error) { return core.Lease{}, nil }, core.ErrRejected},
		"a refusal, and no error":   {func(context.Context, int) (core.Lease, error) { return core.Fail(mine), nil }, mine},
		"a rejection, and no error": {func(context.Context, int) (core.Lease, error) { return core.Reject(core.LimiterName.With("x")), nil }, core.ErrRejected},
		"a lease, and an error":     {func(context.Context, int) (core.Lease, error) { return inner.TryAcquire(1), mine }, mine},
		"another error":             {func(context.Context, int) (core.Lease, error) { return core.Fail(core.ErrClosed), mine }, mine},
	} {
		t.Run(name, func(t *testing.T) {
			slots := concurrency(t, 5, 0)
			liar := &stranger{Limiter: inner, acquire: c.acquire}
			for _, l := range []core.Limiter{chain(t, slots, liar), core.WithReason(liar, "why"), chain(t, slots, core.WithReason(liar, "why"))} {
				lease, err := l.Acquire(t.Context(), 1)
				require.ErrorIs(t, err, c.want)
				require.False(t, lease.Acquired())
				require.Equal(t, err, lease.Err())
				available(t, slots, 5)
				available(t, inner, 5)
			}
		})
	}
}

// The release of a part that panics keeps no other from its own, and is not hidden.
func TestAReleaseThatPanicsKeepsNoOther(t *testing.T) {
	slots, more := concurrency(t, 5, 0), concurrency(t, 5, 0)
	angry := &stranger{Limiter: concurrency(t, 5, 0), try: func(n int) core.Lease { return core.Grant(n, func() { panic("no") }) }}
	angrier := &stranger{Limiter: concurrency(t, 5, 0), try: angry.try}
	rate := bucket(t, core.Every(time.Hour, 100))
	for name, l := range map[string]*core.ChainedLimiter{
		"slots":      chain(t, slots, angry, more, angrier),
		"and rates":  chain(t, rate, slots, angry, more, angrier),
		"in another": chain(t, slots, chain(t, angry, more, angrier)),
	} {
		t.Run(name, func(t *testing.T) {
			lease := takes(t, l, 2)
			require.Panics(t, lease.Release)
			available(t, slots, 5)
			available(t, more, 5)
			lease.Release()

			lease = takes(t, l, 2)
			require.Panics(t, func() { lease.Refund() })
			lease.Refund()
			available(t, slots, 5)
			available(t, more, 5)
		})
	}
	t.Run("ReleaseAll", func(t *testing.T) {
		leases := []core.Lease{
			takes(t, slots, 1), takes(t, slots, 1), angry.TryAcquire(1), takes(t, slots, 1), angry.TryAcquire(1), takes(t, more, 2),
		}
		require.Panics(t, func() { core.ReleaseAll(leases) })
		available(t, slots, 5)
		available(t, more, 5)
		core.ReleaseAll(leases)
		available(t, slots, 5)
	})
}

func TestAViewOfNilFails(t *testing.T) {
	var none *core.TokenBucket
	for _, nothing := range []core.Limiter{nil, none} {
		l := core.WithReason(nothing, "why")
		for _, n := range []int{0, 1, 1000} {
			lease := l.TryAcquire(n)
			require.False(t, lease.Acquired())
			require.ErrorContains(t, lease.Err(), "nil")
			require.NotErrorIs(t, lease.Err(), core.ErrRejected, "no other time will do")
			lease, err := l.Acquire(t.Context(), n)
			require.ErrorContains(t, err, "nil")
			require.Equal(t, err, lease.Err())
		}
		refused(t, l, -1, core.ErrNegativePermits)
		require.ErrorContains(t, l.(core.Reserver).Reserve(1).Err(), "core: WithReason of a nil Limiter")
		require.Equal(t, core.ErrNegativePermits, l.(core.Reserver).Reserve(-1).Err())
		done, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := l.Acquire(done, 1)
		require.Equal(t, context.Canceled, err)
		available(t, l, 0)
		_, idle := l.(core.Idler).IdleFor()
		require.False(t, idle)
	}
}

func TestAChainNamesALimiterOnce(t *testing.T) {
	l, other := concurrency(t, 5, 0), concurrency(t, 5, 0)
	for name, limiters := range map[string][]core.Limiter{
		"twice":           {l, other, l},
		"in a chain":      {l, chain(t, other, l)},
		"in two chains":   {chain(t, l), chain(t, chain(t, l))},
		"behind a reason": {core.WithReason(l, "why"), l},
		"in both":         {core.WithReason(chain(t, l), "why"), chain(t, core.WithReason(l, "why"))},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := core.Chain(limiters...)
			require.ErrorContains(t, err, "core: Chain limiter ")
			require.ErrorContains(t, err, " asks the same limiter as limiter 0")
			require.Nil(t, c)
		})
	}
	rate := bucket(t, core.Every(time.Second, 1))
	reasoned := core.WithReason(rate, "a")
	_, err := core.Chain(reasoned, core.WithReason(reasoned, "b"))
	require.Error(t, err)

	// Equal is not the same.
	a, b := theirs{left: 1}, theirs{left: 1}
	chain(t, a, b, core.Unlimited(), core.Unlimited(), &stranger{Limiter: l}, &stranger{Limiter: l}, core.WithReason(l, "x"), other)
	type empty struct{ core.Limiter }
	chain(t, empty{l}, empty{l}, chain(t, other))
}

// manyErrors cannot be compared: == of two panics.
type manyErrors []error

func (m manyErrors) Error() string { return errors.Join(m...).Error() }

// failing is a limiter that refuses with such an error.
type failing struct{ core.Limiter }

func (failing) Acquire(context.Context, int) (core.Lease, error) {
	err := manyErrors{errors.New("one"), errors.New("two")}
	return core.Fail(err), err
}

func TestAnErrorThatCannotBeCompared(t *testing.T) {
	l := concurrency(t, 1, 0)
	for name, over := range map[string]core.Limiter{
		"chain":  chain(t, l, failing{core.Unlimited()}),
		"reason": core.WithReason(failing{core.Unlimited()}, "busy"),
	} {
		t.Run(name, func(t *testing.T) {
			lease, err := over.Acquire(t.Context(), 1)
			require.Equal(t, "one\ntwo", err.Error())
			require.Equal(t, err, lease.Err())
			available(t, l, 1)
		})
	}
}

// looking is a context that looks at the limiter when it is asked for its deadline.
type looking struct {
	context.Context

	at everything
}

func (c looking) Deadline() (time.Time, bool) {
	c.at.IdleFor()
	return c.Context.Deadline()
}

// A user's own context is asked while no lock is held; else this never ends.
func TestAContextThatUsesTheLimiter(t *testing.T) {
	for name, l := range four(t, 1, 0) {
		t.Run(name, func(t *testing.T) {
			takes(t, l, 1)
			_, err := l.Acquire(looking{t.Context(), l}, 1)
			require.ErrorIs(t, err, core.ErrRejected)
		})
	}
}
