package partition_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/partition"
)

func TestRefund(t *testing.T) {
	k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return bucket(2, time.Hour), nil }})
	l := takes(t, k, "a", 2)
	refused(t, k, "a", 1, core.ErrRejected)
	k.Refund("b", l)
	refused(t, k, "a", 1, core.ErrRejected)
	k.Refund("a", l)
	takes(t, k, "a", 2)
	require.Equal(t, 1, k.Len())
}

// A limiter that knows no refund gets its lease released.
func TestRefundOfNoRefunder(t *testing.T) {
	k := newKeyed(t, options{New: func(key string) (core.Limiter, error) { return bare{semaphore(key, 1)}, nil }})
	k.Refund("a", takes(t, k, "a", 1))
	takes(t, k, "a", 1)
}

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
	require.Equal(t, 2, a.Available(), "made when asked for anything")
	l := a.TryAcquire(2)
	require.True(t, l.Acquired())
	require.Equal(t, core.Statistics{Limit: 2, Granted: 1}, a.(core.Reporter).Statistics())
	a.(core.Refunder).Refund(l)
	l, err := a.Acquire(t.Context(), 1)
	require.NoError(t, err)
	k.Refund("a", l)

	a.TryAcquire(1)
	require.Zero(t, b.Available(), "no room")
	require.Equal(t, core.Statistics{}, b.(core.Reporter).Statistics())
	require.ErrorIs(t, b.TryAcquire(1).Err(), core.ErrRejected)
	require.ErrorIs(t, b.TryAcquire(-1).Err(), core.ErrNegativePermits)
	require.NoError(t, k.Close())
	require.ErrorIs(t, b.TryAcquire(1).Err(), core.ErrClosed)
	require.Zero(t, b.Available())
	b.(core.Refunder).Refund(l)
	require.Equal(t, 3, asked, "Refund of the Keyed asked once more")
}

func TestForWithoutRoomTellsOverflowsFigures(t *testing.T) {
	k := newKeyed(t, options{MaxPartitions: 1, Overflow: semaphore("", 5)})
	takes(t, k, "a", 1)
	b := partition.For[string](k, "b")
	require.Equal(t, 5, b.Available())
	require.Equal(t, core.Statistics{Limit: 5, Available: 5}, b.(core.Reporter).Statistics())
	require.Zero(t, k.Counts().Overflowed, "no request")
	l := b.TryAcquire(2)
	require.Equal(t, 3, b.Available())
	b.(core.Refunder).Refund(l)
	require.Equal(t, 5, b.Available())
}

// own is a Limiter that somebody wrote.
type own struct{ l core.Limiter }

func (o own) TryAcquire(_ string, permits int) core.Lease { return o.l.TryAcquire(permits) }

func (o own) Acquire(ctx context.Context, _ string, permits int) (core.Lease, error) {
	return o.l.Acquire(ctx, permits)
}

func TestForOfSomebodysLimiter(t *testing.T) {
	l := partition.For[string](own{semaphore("", 1)}, "a")
	lease, err := l.Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.False(t, l.TryAcquire(1).Acquired())
	l.(core.Refunder).Refund(lease) // released
	require.True(t, l.TryAcquire(1).Acquired())
	require.Zero(t, l.Available())
	require.Zero(t, l.(core.Reporter).Statistics())
}

// overriding is somebody's Limiter that embeds a Keyed and counts the requests to it.
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

// Who embeds a Keyed and overrides its methods is asked through those.
func TestForOfAnEmbeddedKeyed(t *testing.T) {
	k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return bucket(2, time.Hour), nil }})
	o := &overriding{keyed: k}
	chain, err := partition.Chain[string](o)
	require.NoError(t, err)
	for i, l := range []core.Limiter{
		partition.For[string](o, "a"),
		partition.For(chain, "a"),
		partition.For(partition.Translate(partition.Limiter[string](o), self), "a"),
	} {
		o.asked = 0
		first := l.TryAcquire(1)
		require.True(t, first.Acquired(), i)
		require.Equal(t, 1, o.asked, i)
		second, err := l.Acquire(t.Context(), 1)
		require.NoError(t, err, i)
		require.Equal(t, 2, o.asked, i)
		l.(core.Refunder).Refund(second)
		l.(core.Refunder).Refund(first)
		require.Equal(t, 2, l.Available(), i)
	}
}

// For of a key that is live takes nothing from the heap, whoever asks.
func TestForOfALiveKeyAllocatesNothing(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return semaphore("", 1), nil }})
	takes(t, k, "a", 1).Release()
	require.Zero(t, testing.AllocsPerRun(1000, func() { partition.For[string](k, "a").TryAcquire(1).Release() }))
}

// What is bound to a key outlives its partition, and finds the next.
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

// What is made of nil refuses everything, and says so.
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
		l.(core.Refunder).Refund(core.Grant(1, nil))
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
	a := s.TryAcquire("a", 1)
	b, err := s.Acquire(t.Context(), "b", 1)
	require.NoError(t, err)
	require.False(t, s.TryAcquire("c", 1).Acquired())
	s.(partition.Refunder[string]).Refund("a", a)
	b.Release()
	require.Equal(t, 2, inner.Available())
	require.Equal(t, core.Limiter(inner), partition.For(s, "a"))

	s = partition.Shared[string](bare{inner})
	a = s.TryAcquire("a", 2)
	require.Equal(t, core.Statistics{}, partition.For(s, "a").(core.Reporter).Statistics())
	s.(partition.Refunder[string]).Refund("a", a)
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
	l.(partition.Refunder[int]).Refund(0, first)
	takes(t, k, "a", 1)
	require.Equal(t, 3, asked)

	require.ErrorIs(t, l.TryAcquire(0, -1).Err(), core.ErrNegativePermits)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Acquire(done, 0, 1)
	require.Equal(t, context.Canceled, err)
	require.Equal(t, 3, asked, "the request is not looked at")

	bound := partition.For(l, 2)
	bound.TryAcquire(1)
	bound.TryAcquire(1)
	require.Equal(t, 4, asked)
	require.Equal(t, core.Statistics{Limit: 1, Granted: 1, Rejected: 1}, bound.(core.Reporter).Statistics())
}

// logged notes what is done to it.
type logged struct {
	core.Limiter
	name string
	log  *[]string
}

func (l logged) TryAcquire(permits int) core.Lease {
	got := l.Limiter.TryAcquire(permits)
	if !got.Acquired() {
		return got
	}
	return core.Grant(permits, func() { *l.log = append(*l.log, "release "+l.name) })
}

func (l logged) Acquire(_ context.Context, permits int) (core.Lease, error) {
	lease := l.TryAcquire(permits)
	return lease, lease.Err()
}

// refunding is a logged that knows refunds.
type refunding struct{ logged }

func (l refunding) Refund(core.Lease) { *l.log = append(*l.log, "refund "+l.name) }

func TestChain(t *testing.T) {
	var log []string
	refuse := false
	last := newFake(busy)
	last.try = func(n int) core.Lease {
		if refuse {
			return core.Reject(core.LimiterName.With("last"))
		}
		return core.Grant(n, func() { log = append(log, "release last") })
	}
	a := refunding{logged{core.Unlimited(), "a", &log}}
	b := logged{core.Unlimited(), "b", &log}
	chain, err := partition.Chain(partition.Shared[string](a), partition.Shared[string](b), partition.Shared[string](last))
	require.NoError(t, err)
	acquire := map[string]func() core.Lease{
		"TryAcquire":       func() core.Lease { return chain.TryAcquire("r", 2) },
		"Acquire":          func() core.Lease { l, _ := chain.Acquire(t.Context(), "r", 2); return l },
		"For's TryAcquire": func() core.Lease { return partition.For(chain, "r").TryAcquire(2) },
		"For's Acquire":    func() core.Lease { l, _ := partition.For(chain, "r").Acquire(t.Context(), 2); return l },
	}
	for name, f := range acquire {
		t.Run(name, func(t *testing.T) {
			log, refuse = nil, false
			l := f()
			require.True(t, l.Acquired())
			require.Equal(t, 2, l.Permits())
			l.Release()
			l.Release()
			require.Equal(t, []string{"release last", "release b", "release a"}, log)

			log = nil
			l = f()
			chain.(partition.Refunder[string]).Refund("r", l)
			require.Equal(t, []string{"release last", "release b", "refund a"}, log)
			partition.For(chain, "other").(core.Refunder).Refund(core.Grant(1, nil))

			log, refuse = nil, true
			l = f()
			require.False(t, l.Acquired())
			var rejected *core.RejectedError
			require.ErrorAs(t, l.Err(), &rejected)
			require.Equal(t, "last", rejected.Limiter, "the refuser's own")
			require.Equal(t, []string{"release b", "refund a"}, log)
		})
	}
	l, err := chain.Acquire(t.Context(), "r", 2)
	require.ErrorIs(t, err, core.ErrRejected)
	require.ErrorIs(t, l.Err(), core.ErrRejected)
}

func TestChainFaults(t *testing.T) {
	_, err := partition.Chain[string]()
	require.ErrorContains(t, err, "at least 1")
	var none *keyed
	_, err = partition.Chain[string](nil, partition.Shared[string](core.Unlimited()), none)
	require.ErrorContains(t, err, "limiter 0 is nil")
	require.ErrorContains(t, err, "limiter 2 is nil")
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

		// A probe takes nothing.
		require.False(t, chain.TryAcquire("a", 0).Acquired())
		require.True(t, chain.TryAcquire("b", 0).Acquired())

		// all has 1 left: b's own permits come back.
		require.False(t, chain.TryAcquire("b", 2).Acquired())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = chain.Acquire(ctx, "b", 2)
		require.Equal(t, context.DeadlineExceeded, err)
		s, _ := k.Statistics("b")
		require.Equal(t, 2, s.Available)

		bound := partition.For(chain, "b")
		require.Equal(t, core.Statistics{Limit: 2, Available: 1}, bound.(core.Reporter).Statistics())
		require.Equal(t, 1, bound.Available())
		b := bound.TryAcquire(1)
		require.False(t, bound.TryAcquire(1).Acquired())
		require.Equal(t, core.Statistics{Limit: 2, Granted: 1, Rejected: 1}, bound.(core.Reporter).Statistics())
		bound.(core.Refunder).Refund(b)
		chain.(partition.Refunder[string]).Refund("a", a)
		s, _ = k.Statistics("a")
		require.Equal(t, 2, s.Available)
		require.Equal(t, 3, all.Available())

		// A chain may be in another, and a core.Chain may hold what For returns.
		outer, err := partition.Chain(chain, partition.Shared[string](semaphore("", 1)))
		require.NoError(t, err)
		l := outer.TryAcquire("a", 1)
		require.True(t, l.Acquired())
		require.Equal(t, 2, all.Available())
		require.False(t, outer.TryAcquire("a", 1).Acquired())
		outer.(partition.Refunder[string]).Refund("a", l)
		require.Equal(t, 3, all.Available())
		s, _ = k.Statistics("a")
		require.Equal(t, 2, s.Available)
		joined, err := core.Chain(partition.For(outer, "a"), semaphore("", 1))
		require.NoError(t, err)
		joined.Refund(joined.TryAcquire(1))
		s, _ = k.Statistics("a")
		require.Equal(t, 2, s.Available)
	})
}

// Limiters that panic, or answer carelessly, lose no permits of the others.
func TestChainWithCarelessLimiters(t *testing.T) {
	odd := errors.New("odd")
	for name, f := range map[string]func(*fake){
		"panic":                  func(f *fake) { f.try = func(int) core.Lease { panic("odd") } },
		"error":                  func(f *fake) { f.acquire = func(context.Context, int) (core.Lease, error) { return core.Lease{}, odd } },
		"no error, not acquired": func(f *fake) { f.acquire = func(context.Context, int) (core.Lease, error) { return core.Lease{}, nil } },
		"error, acquired": func(f *fake) {
			f.acquire = func(_ context.Context, n int) (core.Lease, error) { return core.Grant(n, nil), odd }
		},
	} {
		t.Run(name, func(t *testing.T) {
			all, careless := semaphore("", 1), newFake(busy)
			f(careless)
			chain, err := partition.Chain(partition.Shared[string](all), partition.Shared[string](careless))
			require.NoError(t, err)
			func() {
				defer func() { _ = recover() }()
				l, err := chain.Acquire(t.Context(), "a", 1)
				require.Error(t, err)
				require.False(t, l.Acquired())
				require.ErrorIs(t, l.Err(), err)
			}()
			require.Equal(t, 1, all.Available())
		})
	}
}

// panics is a limiter all of whose methods panic but those of core.Limiter.
type panics struct{ *fake }

func (panics) TryQuietly(int) (core.Lease, bool) { panic("odd") }
func (panics) Settle(core.Lease, int) core.Lease { panic("odd") }

// A quiet try or a settlement that panics loses no permits either.
func TestChainWhoseLimitersPanicLater(t *testing.T) {
	first, last := semaphore("", 2), semaphore("", 2)
	chain, err := partition.Chain(partition.Shared[string](first), partition.Shared[string](panics{newFake(busy)}), partition.Shared[string](last))
	require.NoError(t, err)
	bound := partition.For(chain, "a")
	require.Panics(t, func() { core.TryQuietly(bound, 1) })
	require.Equal(t, 2, first.Available())
	for _, cost := range []int{0, 2} {
		lease := bound.TryAcquire(1)
		require.NoError(t, lease.Err())
		require.Panics(t, func() { bound.(core.Settler).Settle(lease, cost) })
		lease.Release()
		require.Equal(t, 2, first.Available())
		require.Equal(t, 2, last.Available())
	}
	lease := bound.TryAcquire(1)
	require.Panics(t, func() { bound.(core.Refunder).Refund(lease) })
	require.Equal(t, 2, first.Available())
	require.Equal(t, 2, last.Available())
}

// listed is an error that looks comparable until it is compared.
type listed struct{ list any }

func (listed) Error() string { return "listed" }

func TestErrorsThatCannotBeCompared(t *testing.T) {
	bad := newFake(busy)
	bad.acquire = func(context.Context, int) (core.Lease, error) {
		err := listed{[]int{1}}
		return core.Fail(err), err
	}
	k := newKeyed(t, options{Key: self, New: func(string) (core.Limiter, error) { return bad, nil }})
	chain, err := partition.Chain[string](k)
	require.NoError(t, err)
	for _, l := range []partition.Limiter[string]{k, chain} {
		lease, err := l.Acquire(t.Context(), "a", 1)
		require.Equal(t, listed{[]int{1}}, err)
		require.Equal(t, err, lease.Err())
	}
}

// A limiter that tells no figures hides those of others as little as core.Chain lets it.
func TestChainTellsTheLimitThatIsKnown(t *testing.T) {
	for _, order := range []string{"first", "last"} {
		t.Run(order, func(t *testing.T) {
			ls := []partition.Limiter[string]{own{semaphore("", 1)}, partition.Shared[string](semaphore("", 5))}
			if order == "last" {
				ls[0], ls[1] = ls[1], ls[0]
			}
			chain, err := partition.Chain(ls...)
			require.NoError(t, err)
			require.Equal(t, 5, partition.For(chain, "a").(core.Reporter).Statistics().Limit)
		})
	}
}

func TestChainAllocatesNothing(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	k := newKeyed(t, options{New: func(key string) (core.Limiter, error) { return semaphore(key, 5), nil }})
	chain, err := partition.Chain(k, partition.Shared[string](semaphore("", 5)))
	require.NoError(t, err)
	r, s := chain.(partition.Refunder[string]), chain.(partition.Settler[string])
	zero := func(what string, f func()) {
		t.Helper()
		require.Zero(t, testing.AllocsPerRun(1000, f), what)
	}
	zero("release", func() { chain.TryAcquire("a", 1).Release() })
	zero("refund", func() { r.Refund("a", chain.TryAcquire("a", 1)) })
	zero("refusal", func() { chain.TryAcquire("a", 6) })
	zero("settle", func() { s.Settle("a", chain.TryAcquire("a", 3), 2).Release() })
	zero("settle to nothing", func() { s.Settle("a", chain.TryAcquire("a", 3), 0) })

	// A lease tells the name of its key's limiter: keys that take turns allocate once each.
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		chain.TryAcquire("a", 1).Release()
		chain.TryAcquire("b", 1).Release()
	}), 2.0)
	zero("one key again", func() { chain.TryAcquire("b", 1).Release() })
}

// What asks quietly before it waits, as a channel does, allocates nothing through For.
func TestForIsAskedQuietly(t *testing.T) {
	k := newKeyed(t, options{MaxPartitions: 3, Overflow: semaphore("", 5), New: func(key string) (core.Limiter, error) {
		if key == "theirs" {
			return core.WithReason(semaphore(key, 5), "busy"), nil
		}
		return semaphore(key, 5), nil
	}})
	for _, key := range []string{"a", "theirs", "b", "no room"} {
		if key != "no room" {
			takes(t, k, key, 1)
		}
		translated := partition.Translate(partition.Limiter[string](k), func(string) string { return key })
		chain := must(partition.Chain(k, partition.Shared[string](semaphore("", 5))))
		for _, l := range []core.Limiter{partition.For[string](k, key), partition.For(translated, "x"), partition.For(chain, key)} {
			q := l.(core.QuietTrier)
			lease, ok := q.TryQuietly(2)
			require.True(t, ok, key)
			require.Equal(t, 2, lease.Permits())
			lease.Release()
			if !testkit.Race {
				require.Zero(t, testing.AllocsPerRun(1000, func() {
					lease, _ := core.TryQuietly(l, 1)
					lease.Release()
				}), key)
			}
			rejected := l.(core.Reporter).Statistics().Rejected
			_, ok = q.TryQuietly(6)
			require.False(t, ok)
			_, ok = q.TryQuietly(-1)
			require.False(t, ok)
			require.Equal(t, rejected, l.(core.Reporter).Statistics().Rejected, "no trace")
		}
	}
	require.NoError(t, k.Close())
	_, ok := partition.For[string](k, "a").(core.QuietTrier).TryQuietly(1)
	require.False(t, ok)
}
