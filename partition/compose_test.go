package partition_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

func TestFor(t *testing.T) {
	asked := 0
	k := newKeyed(t, options{
		MaxPartitions: 1,
		Key:           func(s string) string { asked++; return s },
		New:           func(string) (core.Limiter, error) { return bucket(2, time.Hour), nil },
	})
	a, b := partition.For[string](k, "a"), partition.For[string](k, "b")
	require.Equal(t, 2, asked)
	require.Zero(t, k.Len())
	require.Equal(t, 2, a.Available(), "created when it is asked for anything")
	l := a.TryAcquire(1)
	require.Equal(t, core.Statistics{Limit: 2, Available: 1, Granted: 1}, a.(core.Reporter).Statistics())
	require.Zero(t, b.Available(), "no room")
	require.Equal(t, core.Statistics{}, b.(core.Reporter).Statistics())
	require.ErrorIs(t, b.TryAcquire(1).Err(), core.ErrRejected)
	require.ErrorIs(t, b.TryAcquire(-1).Err(), core.ErrNegativePermits)
	require.NoError(t, k.Close())
	require.ErrorIs(t, b.TryAcquire(1).Err(), core.ErrClosed)
	require.Zero(t, b.Available())
	l.Refund()
	require.Equal(t, 2, asked)
}

func TestForWithoutRoomReportsItsGroup(t *testing.T) {
	k := newKeyed(t, options{MaxPartitions: 1, Group: self, New: func(string) (core.Limiter, error) { return semaphore("", 5), nil }})
	takes(t, k, "a", 1)
	b := partition.For[string](k, "b")
	require.Equal(t, 5, b.Available())
	require.Equal(t, core.Statistics{Limit: 5, Available: 5}, b.(core.Reporter).Statistics())
	require.Zero(t, k.Counts().Overflowed, "no request")
	l := b.TryAcquire(2)
	require.Equal(t, 3, b.Available())
	l.Refund()
	require.Equal(t, 5, b.Available())
}

func TestForAsks(t *testing.T) {
	k := newKeyed(t, options{MaxPartitions: 1, Group: func(string) string { return "group" }})
	asks := func(key string) []core.Limiter {
		return partition.For[string](k, key).(interface{ Asks() []core.Limiter }).Asks()
	}
	require.Empty(t, asks("a"))
	require.Equal(t, partition.Counts{}, k.Counts(), "to look creates nothing")
	takes(t, k, "a", 1)
	a, _ := k.Get("a")
	require.Equal(t, []core.Limiter{a}, asks("a"))
	require.Empty(t, asks("b"))
	takes(t, k, "b", 1)
	require.Equal(t, asks("c"), asks("b"), "the limiter of their group")
	require.NotEqual(t, []core.Limiter{a}, asks("b"))
}

// own is a Limiter of a user.
type own struct{ l core.Limiter }

func (o own) TryAcquire(_ string, permits int) core.Lease { return o.l.TryAcquire(permits) }

func (o own) Acquire(ctx context.Context, _ string, permits int) (core.Lease, error) {
	return o.l.Acquire(ctx, permits)
}

func TestForOfAUsersLimiter(t *testing.T) {
	l := partition.For[string](own{semaphore("", 1)}, "a")
	lease, err := l.Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.False(t, l.TryAcquire(1).Acquired())
	lease.Refund()
	require.True(t, l.TryAcquire(1).Acquired())
	require.Zero(t, l.Available())
	require.Zero(t, l.(core.Reporter).Statistics())
}

// overriding is a user's Limiter that embeds a Keyed and counts the requests to it.
type overriding struct {
	*keyed

	asked int
}

func (o *overriding) TryAcquire(r string, permits int) core.Lease {
	o.asked++
	return o.keyed.TryAcquire(r, permits)
}

func (o *overriding) Acquire(ctx context.Context, r string, permits int) (core.Lease, error) {
	o.asked++
	return o.keyed.Acquire(ctx, r, permits)
}

// A type that embeds a Keyed and overrides its methods is asked by those.
func TestForOfAnEmbeddedKeyed(t *testing.T) {
	o := &overriding{keyed: newKeyed(t, options{})}
	for i, l := range []core.Limiter{
		partition.For[string](o, "a"),
		partition.For(must(partition.Chain[string](o)), "a"),
		partition.For(partition.Translate(partition.Limiter[string](o), self), "a"),
	} {
		l.TryAcquire(1).Release()
		must(l.Acquire(t.Context(), 1)).Release()
		require.Equal(t, 2*(i+1), o.asked)
	}
}

// The limiter of For outlives its partition, and finds the next one of its key.
func TestForOutlivesThePartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return bucket(2, time.Second), nil }})
		takes(t, k, "a", 2)
		a := partition.For[string](k, "a")
		time.Sleep(2 * time.Second)
		see(t, k)
		time.Sleep(time.Minute)
		require.Equal(t, 1, k.Sweep())
		require.True(t, a.TryAcquire(2).Acquired())
		require.False(t, a.TryAcquire(1).Acquired())
		refused(t, k, "a", 1, core.ErrRejected)
		require.Equal(t, uint64(2), k.Counts().Created)
	})
}

// A limiter that is composed of nil refuses everything, with an error that says so.
func TestOfNil(t *testing.T) {
	var none *keyed
	var noBucket *core.TokenBucket
	inner := partition.Shared[string](core.Unlimited())
	for name, l := range map[string]core.Limiter{
		"For of a nil limiter":          partition.For[string](nil, "a"),
		"For of a nil limiter ":         partition.For[string](none, "a"),
		"Shared of a nil limiter":       partition.For(partition.Shared[string](nil), "a"),
		"Shared of a nil limiter ":      partition.For(partition.Shared[string](noBucket), "a"),
		"Translate of a nil limiter":    partition.For(partition.Translate[string, string](nil, self), "a"),
		"Translate of a nil limiter ":   partition.For(partition.Translate[string, string](none, self), "a"),
		"Translate with a nil function": partition.For(partition.Translate[string](inner, nil), "a"),
	} {
		name = strings.TrimSpace(name)
		require.ErrorContains(t, l.TryAcquire(0).Err(), name)
		lease, err := l.Acquire(t.Context(), 1)
		require.ErrorContains(t, err, name)
		require.Equal(t, err, lease.Err())
		require.Zero(t, l.Available())
		require.Zero(t, l.(core.Reporter).Statistics())
		require.ErrorIs(t, l.TryAcquire(-1).Err(), core.ErrNegativePermits)
		done, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = l.Acquire(done, 1)
		require.Equal(t, context.Canceled, err)
	}
	require.ErrorContains(t, partition.Shared[string](nil).TryAcquire("a", 1).Err(), "Shared of a nil limiter")
}

func TestShared(t *testing.T) {
	inner := semaphore("all", 2)
	s := partition.Shared[string](inner)
	a, b := s.TryAcquire("a", 1), must(s.Acquire(t.Context(), "b", 1))
	require.False(t, s.TryAcquire("c", 1).Acquired())
	a.Refund()
	b = b.Settle(2)
	require.Zero(t, inner.Available())
	b.Release()
	require.Equal(t, core.Limiter(inner), partition.For(s, "a"))

	s = partition.Shared[string](bare{inner})
	a = s.TryAcquire("a", 2)
	require.Equal(t, core.Statistics{}, partition.For(s, "a").(core.Reporter).Statistics())
	a.Refund()
	require.Equal(t, core.Statistics{Available: 2}, partition.For(s, "a").(core.Reporter).Statistics())
}

func TestTranslate(t *testing.T) {
	k := newKeyed(t, options{})
	asked := 0
	l := partition.Translate(k, func(n int) string { asked++; return string(rune('a' + n)) })
	first := l.TryAcquire(0, 1)
	require.True(t, first.Acquired())
	_, err := l.Acquire(t.Context(), 1, 1)
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"a": true, "b": true}, live(k))
	first.Refund()
	takes(t, k, "a", 1)
	require.Equal(t, 2, asked)

	require.ErrorIs(t, l.TryAcquire(0, -1).Err(), core.ErrNegativePermits)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Acquire(done, 0, 1)
	require.Equal(t, context.Canceled, err)
	require.Equal(t, 2, asked, "the request is not looked at")

	bound := partition.For(l, 2)
	bound.TryAcquire(1)
	bound.TryAcquire(1)
	require.Equal(t, 3, asked)
	require.Equal(t, core.Statistics{Limit: 1, Granted: 1, Rejected: 1}, bound.(core.Reporter).Statistics())
}

// A chain of a Keyed and what all share: the whole of it, all or nothing.
func TestChainOfKeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t, options{New: func(key string) (core.Limiter, error) {
			return core.NewTokenBucket(core.TokenBucketOptions{
				Name: key, TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour,
			})
		}})
		all := semaphore("all", 3)
		chain, err := partition.Chain(k, partition.Shared[string](all))
		require.NoError(t, err)
		a := chain.TryAcquire("a", 2)
		require.True(t, a.Acquired())
		name, _ := core.LimiterName.From(a)
		require.Equal(t, "a", name, "the first limiter's value wins")
		limit, _ := core.PermitLimit.From(a)
		require.Equal(t, 2, limit)

		// all has 1 left: b's own permits come back.
		require.False(t, chain.TryAcquire("b", 2).Acquired())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = chain.Acquire(ctx, "b", 2)
		require.Equal(t, context.DeadlineExceeded, err)
		bound := partition.For(chain, "b")
		require.Equal(t, core.Statistics{Limit: 2, Available: 1}, bound.(core.Reporter).Statistics())

		// A core.Chain may hold what For returns.
		joined, err := core.Chain(partition.For(chain, "b"), semaphore("", 1))
		require.NoError(t, err)
		joined.TryAcquire(1).Refund()
		require.Equal(t, 1, all.Available())

		// The limiter that For returned stays bound to its key, however it is asked.
		other := must(partition.Chain(k, partition.Shared[string](all)))
		bound = partition.For(other, "b")
		require.True(t, partition.Shared[string](bound).TryAcquire("", 0).Acquired())
		require.False(t, other.TryAcquire("a", 1).Acquired())
		require.Equal(t, 1, bound.Available())
	})
}

// deaf is a user's limiter that grants although the context ends meanwhile.
type deaf struct {
	own

	end func()
}

func (d deaf) Acquire(ctx context.Context, r string, permits int) (core.Lease, error) {
	l, err := d.own.Acquire(ctx, r, permits)
	d.end()
	return l, err
}

func TestAChainEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	first, last := semaphore("", 1), semaphore("", 1)
	_, err := must(partition.Chain[string](partition.Shared[string](first), deaf{own{last}, cancel})).Acquire(ctx, "a", 1)
	require.Equal(t, context.Canceled, err)
	require.Equal(t, 1, first.Available())
	require.Equal(t, 1, last.Available())
}

// A channel or a reader asks quietly before it waits. A rejection leaves no trace, also where there is no room.
func TestForIsAskedQuietly(t *testing.T) {
	two := func(string) (core.Limiter, error) { return semaphore("", 2), nil }
	k := newKeyed(t, options{New: two, MaxPartitions: 1, Group: self})
	takes(t, k, "a", 1)
	takes(t, k, "no room", 1)
	chain := must(partition.Chain(k, partition.Shared[string](semaphore("", 1))))
	for _, l := range []core.Limiter{partition.For[string](k, "a"), partition.For[string](k, "no room"), partition.For(chain, "a")} {
		lease, ok := core.TryQuietly(l, 1)
		require.True(t, ok)
		for _, n := range []int{1, 3, -1} {
			_, ok = core.TryQuietly(l, n)
			require.False(t, ok)
		}
		require.Zero(t, l.(core.Reporter).Statistics().Rejected)
		lease.Release()
	}
	require.Equal(t, uint64(2), k.Counts().Overflowed)
	require.NoError(t, k.Close())
	_, ok := core.TryQuietly(partition.For[string](k, "a"), 1)
	require.False(t, ok)
}

func TestChainErrors(t *testing.T) {
	_, err := partition.Chain[string]()
	require.ErrorContains(t, err, "at least 1")
	var none *keyed
	_, err = partition.Chain[string](nil, partition.Shared[string](core.Unlimited()), none)
	require.ErrorContains(t, err, "limiter 0 is nil")
	require.ErrorContains(t, err, "limiter 2 is nil")

	// A limiter that is in a chain twice would wait for itself.
	l := semaphore("all", 1)
	k := newKeyed(t, options{})
	shared := partition.Shared[string](l)
	for _, second := range []partition.Limiter[string]{
		shared, partition.Shared[string](l), partition.Shared[string](core.WithReason(l, "busy")),
		partition.Shared[string](must(core.Chain(l))), must(partition.Chain(shared)),
	} {
		_, err := partition.Chain(shared, second)
		require.ErrorContains(t, err, "partition: Chain limiter 1 asks the same limiter as limiter 0, ")
	}
	_, err = partition.Chain[string](k, shared, k)
	require.ErrorContains(t, err, "partition: Chain limiter 2 asks the same limiter as limiter 0, ")
	translated := func() partition.Limiter[string] { return partition.Translate(partition.Limiter[string](k), self) }
	_, err = partition.Chain(translated(), translated(), shared, partition.Shared[string](semaphore("all", 1)))
	require.NoError(t, err, "two translations may be for two keys")
}

// For and Chain pass reservations on.
func TestForReserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return core.WithReason(bucket(2, time.Minute), "busy"), nil }})
		shared := partition.Shared[string](bucket(2, time.Hour))
		for l, want := range map[partition.Limiter[string]]time.Duration{
			k: time.Minute, shared: time.Hour, must(partition.Chain(k, partition.Shared[string](bucket(2, time.Hour)))): time.Hour,
		} {
			bound := partition.For(l, "a")
			first := bound.(core.Reserver).Reserve(2)
			second := bound.(core.Reserver).Reserve(1)
			delay, _ := core.Delay.From(second)
			require.Equal(t, want, delay)
			require.Positive(t, bound.(core.Reporter).Statistics().Queued)
			second.Refund()
			first.Refund()
			require.Zero(t, bound.(core.Reporter).Statistics().Queued)
		}
		slots := newKeyed(t, options{})
		require.ErrorContains(t, partition.For[string](slots, "a").(core.Reserver).Reserve(1).Err(), "no Reserver")
	})
}
