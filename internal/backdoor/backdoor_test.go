package backdoor_test

import (
	"context"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/partition"
)

var ways = backdoor.Core[core.Limiter, core.Lease]()

func limiter(tb testing.TB, permits, queue int) *core.ConcurrencyLimiter {
	tb.Helper()
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: queue})
	require.NoError(tb, err)
	return l
}

type embedding struct{ *core.ConcurrencyLimiter }

func TestOnlyTheVeryType(t *testing.T) {
	l := limiter(t, 1, 0)
	chain, err := core.Chain(l)
	require.NoError(t, err)
	bucket, err := core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: 1})
	require.NoError(t, err)
	for name, other := range map[string]core.Limiter{
		"embedding": embedding{l}, "pointer to embedding": &embedding{l}, "view": core.WithReason(l, "full"),
		"chain": chain, "bucket": bucket, "blocked": core.Blocked(), "zero": new(core.ConcurrencyLimiter),
		"nil pointer": (*core.ConcurrencyLimiter)(nil), "nil": nil,
		"zero bucket": new(core.TokenBucket), "nil bucket": (*core.TokenBucket)(nil), "nil fixed": (*core.FixedWindow)(nil),
		"nil sliding": (*core.SlidingWindow)(nil),
	} {
		_, ok := ways.Permits(other)
		require.False(t, ok, name)
		_, ok = ways.Watch(other, deaf)
		require.False(t, ok, name)
		require.Equal(t, other == core.Limiter(bucket), ways.Retire(other, 0), name)
	}
	require.True(t, l.TryAcquire(1).Acquired())
}

// hook is a function that is a hook.
type hook func(c backdoor.Cause, e backdoor.End)

func (h hook) Ended(c backdoor.Cause, e backdoor.End) { h(c, e) }

// deaf is a hook that does nothing.
var deaf = hook(func(backdoor.Cause, backdoor.End) {})

// ends keeps what a hook was told.
type ends struct {
	mu  sync.Mutex
	all []told
}

type told struct {
	backdoor.End

	cause backdoor.Cause
}

func (e *ends) Ended(c backdoor.Cause, end backdoor.End) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, told{end, c})
}

func (e *ends) take() []told {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.all
	e.all = nil
	return all
}

// Of the leases that follow each other each calls release once, and a copy of an earlier one does nothing.
func TestGrants(t *testing.T) {
	released := 0
	next := ways.Grants(func() { released++ })
	var earlier core.Lease
	for n := range 3 {
		lease := next()
		require.True(t, lease.Acquired())
		require.Zero(t, lease.Permits())
		for name := range lease.Metadata() {
			t.Error(name)
		}
		earlier.Release()
		require.Equal(t, n, released)
		lease.Release()
		lease.Release()
		require.Equal(t, n+1, released)
		earlier = lease
	}
	var again func()
	next = ways.Grants(func() { again() })
	first, second := next(), core.Lease{}
	again = func() { second = next() } // in release
	first.Release()
	again = func() { released++ }
	first.Release()
	require.Equal(t, 3, released)
	second.Release()
	require.Equal(t, 4, released)
	if !testkit.Race {
		require.Zero(t, testing.AllocsPerRun(100, func() { next().Release() }))
	}
}

// describer counts how often its metadata is asked for.
type describer struct{ asked int }

func (*describer) Settle(_, now int) int { return now }

func (d *describer) Metadata() []core.Metadata {
	d.asked++
	return []core.Metadata{core.LimiterName.With("d"), core.Remaining.With(3)}
}

// The metadata of a described lease is made when somebody asks, goes along with copies, and gives way to what is added.
func TestDescribe(t *testing.T) {
	d := new(describer)
	l := core.GrantFrom(d, 2)
	ways.Describe(l, d)
	require.Zero(t, d.asked)
	described := func(l core.Lease, want map[string]any) {
		t.Helper()
		require.Equal(t, want, maps.Collect(l.Metadata()))
		for name, value := range want {
			if n, ok := value.(int); ok {
				got, ok := core.NewMetadataKey[int](name).From(l)
				require.True(t, ok)
				require.Equal(t, n, got)
			}
		}
	}
	described(l, map[string]any{"LIMITER_NAME": "d", "REMAINING": 3})
	l = l.With(core.Remaining.With(1), core.PermitLimit.With(5)).Settle(1)
	described(l, map[string]any{"LIMITER_NAME": "d", "REMAINING": 1, "PERMIT_LIMIT": 5})
	require.Equal(t, 1, l.Permits())
	described(l.Settle(0).Settle(2), map[string]any{"LIMITER_NAME": "d", "REMAINING": 1, "PERMIT_LIMIT": 5})

	failed := core.Fail(io.EOF)
	ways.Describe(failed, d)
	require.Equal(t, io.EOF, failed.Err())
	described(failed.With(core.RetryAfter.With(time.Second)), map[string]any{"LIMITER_NAME": "d", "REMAINING": 3, "RETRY_AFTER": time.Second})
}

func TestMain(m *testing.M) { testkit.Main(m) }

// observed is a limiter that is watched.
type observed struct {
	*core.ConcurrencyLimiter
	backdoor.Watched[core.Lease]
}

func watched(tb testing.TB, l *core.ConcurrencyLimiter, h backdoor.Hook) observed {
	tb.Helper()
	w, ok := ways.Watch(l, h)
	require.True(tb, ok)
	return observed{l, w}
}

func says(t *testing.T, l core.Lease, limit, left int) {
	t.Helper()
	got, ok := core.PermitLimit.From(l)
	assert.True(t, ok)
	assert.Equal(t, limit, got)
	got, _ = core.Remaining.From(l)
	assert.Equal(t, left, got)
	_, ok = core.RetryAfter.From(l)
	assert.False(t, ok)
}

func TestResize(t *testing.T) {
	for _, most := range []int{10, math.MaxInt} {
		synctest.Test(t, func(t *testing.T) {
			var all ends
			l := limiter(t, most, 20)
			w := watched(t, l, &all)
			w.Resize(4)
			assert.Equal(t, core.Statistics{Limit: 4, Available: 4}, l.Statistics())

			a := w.TryAcquire(3)
			says(t, a, 4, 1)
			says(t, w.TryAcquire(0), 4, 1)
			refused := w.TryAcquire(5)
			require.ErrorIs(t, refused.Err(), core.ErrRejected, "above the current limit, below the maximum")
			says(t, refused, 4, 1)
			if most < math.MaxInt {
				require.ErrorIs(t, w.TryAcquire(most+1).Err(), core.ErrPermitsExceedLimit)
			}

			var b core.Lease
			go func() { b, _ = w.Acquire(t.Context(), 5) }()
			synctest.Wait()
			assert.Equal(t, core.Statistics{Limit: 4, Available: 1, Queued: 5, Granted: 2, Rejected: 1}, l.Statistics())
			w.Resize(8)
			synctest.Wait()
			require.True(t, b.Acquired(), "a waiter that now fits is served immediately")
			says(t, b, 8, 0)

			w.Resize(2) // below what is held
			assert.Equal(t, 0, l.Available())
			a.Release()
			assert.Equal(t, 0, l.Available())
			b.Release()
			assert.Equal(t, 2, l.Available())
			assert.Equal(t, []int{8, 5}, inFlight(all.take()))
			_, idle := l.IdleFor()
			assert.True(t, idle)
			time.Sleep(time.Second)
			w.TryAcquire(2).Release()
			_, idle = l.IdleFor() // seen first
			assert.True(t, idle)
			time.Sleep(time.Second)
			d, idle := l.IdleFor()
			assert.True(t, idle)
			assert.Equal(t, time.Second, d)
			assert.Equal(t, []int{2}, inFlight(all.take()))
		})
	}
}

// A limit of 0 grants nothing, and a request of zero permits waits, too.
func TestResizeToZero(t *testing.T) {
	const most = math.MaxInt
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, most, most)
		w := watched(t, l, deaf)
		w.Resize(0)
		var served []int
		for _, n := range []int{most, 0} {
			require.ErrorIs(t, w.TryAcquire(n).Err(), core.ErrRejected)
			go func() {
				lease, err := w.Acquire(t.Context(), n)
				assert.NoError(t, err)
				served = append(served, n)
				lease.Release()
			}()
			synctest.Wait()
		}
		assert.Equal(t, core.Statistics{Queued: most, Rejected: 2}, l.Statistics())
		w.Resize(most)
		synctest.Wait()
		assert.Equal(t, []int{most, 0}, served)
		assert.Equal(t, core.Statistics{Limit: most, Available: most, Granted: 2, Rejected: 2}, l.Statistics())
	})
}

func inFlight(ends []told) (all []int) {
	for _, e := range ends {
		all = append(all, e.InFlight)
	}
	return all
}

// known is a watched lease with its expected end.
type known struct {
	core.Lease

	n     int
	since time.Duration
}

// ledger does at random what can be done with watched leases, one thing at a time in virtual
// time, and knows what the hook has to be told of it.
type ledger struct {
	*testing.T

	r       *rand.Rand
	l       *core.ConcurrencyLimiter
	w       observed
	began   time.Time
	told    ends
	held    []known
	ended   []core.Lease // released before
	granted chan known   // those that waited
}

const ledgerMost = 60

func newLedger(t *testing.T, seed uint64) *ledger {
	t.Helper()
	g := &ledger{T: t, r: rand.New(rand.NewPCG(seed, 1)), l: limiter(t, ledgerMost, 50), began: time.Now(), granted: make(chan known, 50)}
	g.w = watched(t, g.l, &g.told)
	return g
}

func (g *ledger) now() time.Duration { return time.Since(g.began) }

// out returns the permits that are held.
func (g *ledger) out() (n int) {
	for _, k := range g.held {
		n += k.n
	}
	return n
}

func (g *ledger) keep(l core.Lease) {
	if l.Acquired() && l.Permits() > 0 {
		g.held = append(g.held, known{l, l.Permits(), g.now()})
	}
}

// wait starts a request for n permits, or get them.
func (g *ledger) wait(n int) {
	go func() {
		if l, err := g.w.Acquire(g.Context(), n); err == nil {
			g.granted <- known{l, n, g.now()}
		}
	}()
	g.settle()
}

// settle takes note of those whose wait has ended.
func (g *ledger) settle() {
	synctest.Wait()
	for {
		select {
		case k := <-g.granted:
			g.held = append(g.held, k)
		default:
			return
		}
	}
}

// end ends the lease at i, by one copy or by several together, and compares what the hook is
// told.
func (g *ledger) end(i int) {
	k, before := g.held[i], g.out()
	g.held = append(g.held[:i], g.held[i+1:]...)
	cause := backdoor.Cause(g.r.IntN(4))
	end := func() { g.w.End(k.Lease, cause) }
	switch g.r.IntN(5) {
	case 0:
		cause, end = backdoor.Released, k.Release
	case 1:
		cause, end = backdoor.Released, func() { core.ReleaseAll([]core.Lease{k.Lease, k.Lease}) }
	case 2:
		cause, end = backdoor.Refunded, func() { k.With(core.ReasonPhrase.With("copy")).Refund() }
	case 3:
		cause, end = backdoor.Released, func() {
			var copies sync.WaitGroup
			for range 3 {
				copies.Go(k.Release)
			}
			copies.Wait()
		}
	}
	end()
	require.Equal(g, []told{{backdoor.End{Granted: k.since, Held: g.now() - k.since, Permits: k.n, InFlight: before}, cause}}, g.told.take())
	g.ended = append(g.ended, k.Lease)
	g.settle()
}

func (g *ledger) step() {
	switch p := g.r.IntN(100); {
	case p < 40:
		g.keep(g.w.TryAcquire(g.r.IntN(4)))
	case p < 45:
		g.wait(1 + g.r.IntN(6))
	case p < 80 && len(g.held) > 0:
		// Mostly the last, so that some are held for very long.
		g.end(max(g.r.IntN(len(g.held)), g.r.IntN(len(g.held))))
	case p < 90:
		time.Sleep(time.Duration(g.r.IntN(5000)))
	case p < 93:
		g.w.Resize(1 + g.r.IntN(ledgerMost))
		g.settle()
	case p < 94:
		g.l.IdleFor() // from here on the instants of releases are kept again
	case len(g.ended) > 0:
		// Whatever its handle is used for by now, a lease that has ended ends no other.
		old := g.ended[g.r.IntN(len(g.ended))]
		old.Release()
		g.w.End(old, backdoor.Dropped)
		require.Empty(g, g.told.take())
	}
}

// The hook gets the true end of each lease: from when to when it was held, how many
// permits were out, and how it ended.
func TestEndsAreTrue(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newLedger(t, seed)
				for range 2000 {
					g.step()
				}
				g.w.Resize(ledgerMost) // so that no request waits forever
				g.settle()
				for len(g.held) > 0 {
					g.end(0)
				}
				require.Equal(t, ledgerMost, g.l.Available())
			})
		})
	}
}

// foreign is a limiter of another package over one of core's.
type foreign struct {
	core.Limiter

	asked int
}

func (f *foreign) Acquire(ctx context.Context, n int) (core.Lease, error) {
	f.asked++
	return f.Limiter.Acquire(ctx, n)
}

// overriding embeds one of core's and overrides Acquire.
type overriding struct {
	*core.ConcurrencyLimiter

	asked int
}

func (o *overriding) Acquire(ctx context.Context, n int) (core.Lease, error) {
	o.asked++
	return o.ConcurrencyLimiter.Acquire(ctx, n)
}

func TestWaitingPassesThroughOurs(t *testing.T) {
	keyed := func(o partition.Options[string, string]) *partition.Keyed[string, string] {
		o.Key = func(s string) string { return s }
		return core.Must(partition.New(o))
	}
	for name, over := range map[string]func(l core.Limiter) core.Limiter{
		"itself": func(l core.Limiter) core.Limiter { return l },
		"chain":  func(l core.Limiter) core.Limiter { return core.Must(core.Chain(core.Unlimited(), l)) },
		"view in a chain in a view": func(l core.Limiter) core.Limiter {
			return core.WithReason(core.Must(core.Chain(core.WithReason(l, "full"), core.Unlimited())), "busy")
		},
		"partition": func(l core.Limiter) core.Limiter {
			return partition.For(keyed(partition.Options[string, string]{New: func(string) (core.Limiter, error) { return l, nil }}), "key")
		},
		"group of partitions": func(l core.Limiter) core.Limiter {
			k := keyed(partition.Options[string, string]{
				New: func(key string) (core.Limiter, error) {
					if key == "group" {
						return core.WithReason(l, "full"), nil
					}
					return limiter(t, 1, 0), nil
				},
				MaxPartitions: 1, Group: func(string) string { return "group" },
			})
			k.TryAcquire("other", 1)
			return partition.For(k, "key")
		},
		"chain of partitions": func(l core.Limiter) core.Limiter {
			k := keyed(partition.Options[string, string]{New: func(string) (core.Limiter, error) { return core.WithReason(l, "full"), nil }})
			translated := partition.Translate(k, func(string) string { return "" })
			return partition.For(core.Must(partition.Chain(partition.Shared[string](core.Unlimited()), translated)), "key")
		},
	} {
		testkit.Bubble(t, name, func(t *testing.T) {
			l := limiter(t, 1, 0)
			v := over(l)
			held, err := waiting(t.Context(), v, 1)
			require.NoError(t, err)
			_, err = v.Acquire(t.Context(), 1)
			require.ErrorIs(t, err, core.ErrRejected)
			time.AfterFunc(time.Second, held.Release)
			start := time.Now()
			lease, err := waiting(t.Context(), v, 1)
			require.NoError(t, err)
			require.Equal(t, time.Second, time.Since(start))
			lease.Release()
			require.Equal(t, 1, l.Available())
		})
	}
}

// limits are limiters of exported types of this module that pass a request on. A user may embed one and override Acquire.
type (
	limits     = adaptive.Concurrency
	overridden struct {
		*limits

		asked int
	}
)

func (o *overridden) Acquire(ctx context.Context, n int) (core.Lease, error) {
	o.asked++
	return o.limits.Acquire(ctx, n)
}

func (o *overridden) TryAcquire(n int) core.Lease {
	o.asked++
	return o.limits.TryAcquire(n)
}

// A quiet try of a type that overrides TryAcquire would bypass it, so the request goes to Acquire.
func TestWhatOverridesTryAcquireIsNotTriedQuietly(t *testing.T) {
	l := core.Must(adaptive.New(adaptive.Options{Initial: 3, Min: 3, Max: 3}))
	o := &overridden{limits: l}
	_, ok := core.TryQuietly(o, 1)
	require.False(t, ok)
	require.Equal(t, 3, l.Available())
	for i, over := range []core.Limiter{core.Must(core.Chain(o)), core.NewSwitch(o), core.WithReason(o, "full")} {
		_, err := over.Acquire(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, i+1, o.asked)
	}
}

func TestWaitingAsksWhatOverridesAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(adaptive.New(adaptive.Options{Initial: 1, Min: 1, Max: 1}))
		o := &overridden{limits: l}
		held := l.TryAcquire(1)
		for range 2 {
			_, err := waiting(t.Context(), o, 1)
			require.ErrorIs(t, err, core.ErrRejected, "the embedded one's QueueLimit is 0")
		}
		require.Equal(t, 2, o.asked)
		time.AfterFunc(time.Second, held.Release)
		lease, err := waiting(t.Context(), l, 1)
		require.NoError(t, err)
		lease.Release()
	})
}

// A limiter of another package is asked once, and its answer is the answer.
func TestWaitingAsksOthersOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, 1, 0)
		held := l.TryAcquire(1)
		f, o := &foreign{Limiter: l}, &overriding{ConcurrencyLimiter: l}
		c, err := core.Chain(f)
		require.NoError(t, err)
		for _, other := range []core.Limiter{f, o, c} {
			_, err := waiting(t.Context(), other, 1)
			require.ErrorIs(t, err, core.ErrRejected)
		}
		require.Equal(t, 2, f.asked)
		require.Equal(t, 1, o.asked)
		held.Release()
		_, err = waiting(t.Context(), o, 1)
		require.NoError(t, err)
		require.Equal(t, 2, o.asked)
	})
}

// A limiter is retired only if it has been idle for so long by its own IdleFor. It grants nothing more.
func TestRetire(t *testing.T) {
	for name, l := range map[string]core.Limiter{
		"concurrency": limiter(t, 4, 100),
		"bucket":      core.Must(core.NewTokenBucket(core.PerSecond(4, 4))),
		"fixed":       core.Must(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 4, Window: time.Second})),
		"sliding":     core.Must(core.NewSlidingWindow(core.SlidingWindowOptions{PermitLimit: 4, Window: time.Second, SegmentsPerWindow: 2})),
	} {
		testkit.Bubble(t, name, func(t *testing.T) {
			lease := l.TryAcquire(3)
			require.False(t, ways.Retire(l, 0), "permits are taken")
			lease.Refund()
			l.(core.Idler).IdleFor()
			time.Sleep(time.Second - 1)
			require.False(t, ways.Retire(l, time.Second))
			time.Sleep(1)
			require.True(t, ways.Retire(l, time.Second))
			require.Equal(t, core.ErrClosed, l.TryAcquire(1).Err())
			lease.Refund()
			require.True(t, ways.Retire(l, time.Second), "it is as idle as before")
		})
	}
}

// waiting is Acquire of a request that waits beyond QueueLimit.
func waiting(ctx context.Context, l core.Limiter, n int) (core.Lease, error) {
	lease, _, err := ways.Acquire(ctx, l, n, nil, backdoor.Beyond)
	return lease, err
}
