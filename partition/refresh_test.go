package partition_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// plan is the limits of all keys. They may change.
type plan struct {
	limits atomic.Pointer[spec.Limits]
	delay  time.Duration // of New and Update, after they have read the limits
}

func newPlan(text string) *plan {
	p := new(plan)
	p.set(text)
	return p
}

func (p *plan) set(text string) {
	limits := must(spec.ParseLimits(text))
	p.limits.Store(&limits)
}

func (p *plan) apply(key string, now core.Limiter) (core.Limiter, error) {
	limits := *p.limits.Load()
	if p.delay > 0 {
		time.Sleep(p.delay)
	}
	return limits.Apply(now, key)
}

// planned returns a Keyed whose keys follow the plan.
func planned(t *testing.T, p *plan, o options) *keyed {
	t.Helper()
	o.Key, o.Update = self, p.apply
	return must(partition.New(o))
}

func limitOf(k *keyed, key string) int {
	s, _ := k.Statistics(key)
	return s.Limit
}

// The limiter of a key is updated, or another takes its place. What was granted counts where a limiter stays, and leases of
// one that is gone are still released and settled.
func TestRefresh(t *testing.T) {
	p := newPlan("fixed 9/h")
	k := planned(t, p, options{})
	first := takes(t, k, "a", 1)
	old, _ := k.Get("a")

	p.set("fixed 10/h")
	require.NoError(t, k.Refresh("a", "no partition"))
	now, _ := k.Get("a")
	require.Same(t, old, now)
	require.Equal(t, 9, now.Available())
	require.Equal(t, 1, k.Len())

	p.set("concurrency 8, fixed 10/h")
	require.NoError(t, k.Refresh())
	require.Equal(t, 8, limitOf(k, "a"))
	first.Settle(4)
	require.Equal(t, 6, old.Available(), "it stays in the chain")
	both := takes(t, k, "a", 2)
	require.Equal(t, 4, old.Available())

	p.set("100/h, fixed 10/h") // in another order, and one part gone
	require.NoError(t, k.Refresh("a"))
	both.Settle(1)
	require.Equal(t, 5, old.Available())
	p.set("concurrency 3")
	require.NoError(t, k.Refresh("a"))
	require.Equal(t, 3, limitOf(k, "a"))
	refused(t, k, "a", 4, core.ErrPermitsExceedLimit)
	require.Equal(t, partition.Counts{Live: 1, Created: 1}, k.Counts(), "an exchange is no creation")
	require.True(t, old.TryAcquire(1).Acquired(), "a chain does not close its limiters")
}

// Without Update, New makes another limiter. The old one is closed.
func TestRefreshByNew(t *testing.T) {
	limit := 2
	k := newKeyed(t, options{New: func(key string) (core.Limiter, error) { return semaphore(key, limit), nil }})
	held := takes(t, k, "a", 1)
	old, _ := k.Get("a")
	limit = 5
	require.NoError(t, k.Refresh())
	require.Equal(t, 5, limitOf(k, "a"))
	require.ErrorIs(t, old.TryAcquire(1).Err(), core.ErrClosed)
	held.Release()
	require.Equal(t, 2, old.Available())
}

// A limiter that the new one asks is not closed, whatever is between them.
func TestRefreshClosesWhatIsNotAsked(t *testing.T) {
	for name, c := range map[string]struct {
		next   func(old core.Limiter) core.Limiter
		closed int32
	}{
		"another": {func(core.Limiter) core.Limiter { return newFake(busy) }, 1},
		"itself":  {func(old core.Limiter) core.Limiter { return old }, 0},
		"a view":  {func(old core.Limiter) core.Limiter { return core.WithReason(old, "no") }, 0},
		"a chain": {func(old core.Limiter) core.Limiter { return must(core.Chain(semaphore("", 1), old)) }, 0},
		"bound to a request": {func(old core.Limiter) core.Limiter {
			return partition.For(must(partition.Chain(partition.Shared[string](old))), "")
		}, 0},
		"a view of a chain":  {func(old core.Limiter) core.Limiter { return core.Shadow(must(core.Chain(core.WithReason(old, "no")))) }, 0},
		"a chain of another": {func(core.Limiter) core.Limiter { return must(core.Chain(newFake(busy))) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(busy)
			k := newKeyed(t, options{
				New:    func(string) (core.Limiter, error) { return core.WithReason(f, "yes"), nil },
				Update: func(_ string, now core.Limiter) (core.Limiter, error) { return c.next(now), nil },
			})
			takes(t, k, "a", 1)
			require.NoError(t, k.Refresh())
			require.Equal(t, c.closed, f.closed.Load())
			takes(t, k, "a", 1)
		})
	}
}

// A New that fails under limits that were corrected meanwhile is called again.
func TestRefreshWhileNewFails(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		corrected := false
		k := newKeyed(t, options{New: func(string) (core.Limiter, error) {
			good := corrected
			time.Sleep(time.Second)
			if !good {
				return nil, errors.New("bad limits")
			}
			return semaphore("", 1), nil
		}})
		var got core.Lease
		go func() { got = k.TryAcquire("a", 1) }()
		synctest.Wait()
		corrected = true
		require.NoError(t, k.Refresh("a"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.NoError(t, got.Err())
	})
}

// A limiter that is made while the limits change has the new ones, for the request that makes it and for those that wait.
func TestRefreshWhileNewRuns(t *testing.T) {
	for name, keys := range map[string][]string{"keys": {"a", "b"}, "all": nil} {
		testkit.Bubble(t, name, func(t *testing.T) {
			p := newPlan("5/h")
			p.delay = time.Second
			k := planned(t, p, options{MaxPartitions: 2, Group: func(string) string { return "others" }})
			for _, key := range []string{"a", "a", "b", "c"} { // c has no room
				go k.TryAcquire(key, 1)
				synctest.Wait()
			}
			p.set("1000/h")
			require.NoError(t, k.Refresh(keys...))
			time.Sleep(1500 * time.Millisecond)
			go k.TryAcquire("a", 1) // made under the current limits, but not ready
			synctest.Wait()
			require.Zero(t, k.Len())
			time.Sleep(time.Second)
			s, _ := k.Statistics("a")
			require.Equal(t, core.Statistics{Limit: 1000, Available: 997, Granted: 3}, s)
			require.Equal(t, 1000, limitOf(k, "b"))
			want := 5
			if keys == nil {
				want = 1000
			}
			require.Equal(t, want, partition.For[string](k, "c").(core.Reporter).Statistics().Limit)
			require.Equal(t, uint64(3), k.Counts().Created)
		})
	}
}

// A request that waits moves at once when its limit is lifted, raised or of another kind, whatever the new QueueLimit.
func TestRefreshMovesWaiters(t *testing.T) {
	for _, from := range []string{"concurrency 1 queue 5", "concurrency 1 queue 5, fixed 1000/day tz Europe/Berlin", "1/h queue 5", "paused"} {
		for _, to := range []string{
			"unlimited", "1000/s", "concurrency 2", "concurrency 5, 1000/s", "fixed 1000/day tz Europe/Berlin", "sliding 5/s, concurrency 2",
		} {
			testkit.Bubble(t, from+" to "+to, func(t *testing.T) {
				p := newPlan(from)
				k := planned(t, p, options{})
				held := k.TryAcquire("a", 1)
				for _, acquire := range []func(context.Context, int) (core.Lease, error){
					func(ctx context.Context, n int) (core.Lease, error) { return k.Acquire(ctx, "a", n) },
					partition.For[string](k, "a").Acquire,
				} {
					p.set(from)
					require.NoError(t, k.Refresh())
					granted := make(chan time.Time, 1)
					go func() {
						lease, err := acquire(t.Context(), 1)
						if err != nil {
							t.Error(err)
						}
						lease.Release()
						granted <- time.Now()
					}()
					synctest.Wait()
					start := time.Now()
					p.set(to)
					require.NoError(t, k.Refresh("a"))
					require.LessOrEqual(t, (<-granted).Sub(start), time.Millisecond) // the first token of an updated bucket
				}
				held.Release()
			})
		}
	}
}

// A request that waits for permits that the new limits do not have waits there, in the queue that it had no room in.
func TestRefreshMovesWaitersIntoAQueue(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		p := newPlan("concurrency 1 queue 5")
		k := planned(t, p, options{})
		first := takes(t, k, "a", 1)
		waited := make(chan core.Lease)
		go func() { waited <- must(k.Acquire(t.Context(), "a", 1)) }()
		synctest.Wait()
		p.set("fixed 1/h")
		require.NoError(t, k.Refresh())
		(<-waited).Release()
		start := time.Now()
		go func() { waited <- must(k.Acquire(t.Context(), "b", 1)) }() // the window's first
		(<-waited).Release()
		p.set("concurrency 1 queue 1")
		require.NoError(t, k.Refresh())
		held := takes(t, k, "b", 1)
		go func() { waited <- must(k.Acquire(t.Context(), "b", 1)) }()
		synctest.Wait()
		p.set("sliding 1/h")
		require.NoError(t, k.Refresh("b"))
		(<-waited).Release()
		refused(t, k, "b", 1, core.ErrRejected)
		p.set("concurrency 1 queue 1")
		require.NoError(t, k.Refresh("b"))
		again := takes(t, k, "b", 1)
		go func() { waited <- must(k.Acquire(t.Context(), "b", 1)) }()
		synctest.Wait()
		p.set("concurrency 1, 100/h")
		require.NoError(t, k.Refresh("b"))
		synctest.Wait()
		s, _ := k.Statistics("b")
		require.Equal(t, 1, s.Queued)
		again.Release()
		(<-waited).Release()
		held.Release()
		first.Release()
		require.Equal(t, start, time.Now())
	})
}

// A request that waits in a limiter which is no io.Closer moves too.
func TestRefreshMovesWaitersOfALimiterWithoutClose(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		inner := semaphore("", 1)
		k := newKeyed(t, options{
			New:    func(string) (core.Limiter, error) { return bare{inner}, nil },
			Update: func(string, core.Limiter) (core.Limiter, error) { return core.Unlimited(), nil },
		})
		held := takes(t, k, "a", 1)
		go func() { must(k.Acquire(t.Context(), "a", 1)).Release() }()
		synctest.Wait()
		require.Equal(t, 1, inner.Statistics().Queued)
		require.NoError(t, k.Refresh())
		synctest.Wait()
		require.Zero(t, inner.Statistics().Queued)
		require.Equal(t, uint64(1), must2(k.Statistics("a")).Granted)
		held.Release()
	})
}

// A request that waits in a limiter which the new one asks waits in the new one from then on. So it stays there when
// that is replaced in turn, and Close ends the wait.
func TestRefreshMovesWaitersOfALimiterThatStays(t *testing.T) {
	for name, next := range map[string]string{
		"close": "", "replaced": "concurrency 1", "asked again": "concurrency 1 queue 5, concurrency 1",
	} {
		testkit.Bubble(t, name, func(t *testing.T) {
			p := newPlan("fixed 1/h queue 5")
			k := planned(t, p, options{})
			takes(t, k, "a", 1)
			old, _ := k.Get("a")
			waited := make(chan error, 1)
			go func() {
				_, err := k.Acquire(t.Context(), "a", 1)
				waited <- err
			}()
			synctest.Wait()
			p.set("fixed 1/h queue 5, concurrency 1")
			require.NoError(t, k.Refresh())
			synctest.Wait()
			require.Equal(t, 1, old.(core.Reporter).Statistics().Queued, "it stands in the chain")
			require.Empty(t, waited)
			if next == "" {
				require.NoError(t, k.Close())
				synctest.Wait()
				require.Len(t, waited, 1)
				require.ErrorIs(t, <-waited, core.ErrClosed)
				return
			}
			p.set(next)
			require.NoError(t, k.Refresh())
			synctest.Wait()
			require.Len(t, waited, 1)
			require.NoError(t, <-waited)
			require.Zero(t, old.(core.Reporter).Statistics().Queued)
		})
	}
}

// closedWith is a limiter with an error of its own after Close.
type closedWith struct{ *core.ConcurrencyLimiter }

func (c closedWith) Acquire(ctx context.Context, n int) (core.Lease, error) {
	l, err := c.ConcurrencyLimiter.Acquire(ctx, n)
	if errors.Is(err, core.ErrClosed) {
		err = fmt.Errorf("mine: %w", err)
		return core.Fail(err), err
	}
	return l, err
}

// A request that waits in a limiter which says in its own words that it is closed moves too.
func TestRefreshMovesWaitersOfAUsersLimiter(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		k := newKeyed(t, options{
			New:    func(string) (core.Limiter, error) { return closedWith{semaphore("", 1)}, nil },
			Update: func(string, core.Limiter) (core.Limiter, error) { return core.Unlimited(), nil },
		})
		takes(t, k, "a", 1)
		go func() { must(k.Acquire(t.Context(), "a", 1)).Release() }()
		synctest.Wait()
		require.NoError(t, k.Refresh())
		synctest.Wait()
		require.Equal(t, uint64(1), must2(k.Statistics("a")).Granted)
	})
}

func must2[T any](v T, _ bool) T { return v }

// Refresh calls Update once per key and group, and allocates little: 100,000 keys take a fraction of a second.
func TestRefreshIsLinear(t *testing.T) {
	const keys = 1000
	var updates atomic.Int64
	p := newPlan("100/day") // of which no token comes back meanwhile
	k := must(partition.New(options{
		Key: self, MaxPartitions: keys, Group: func(string) string { return "group" },
		Update: func(key string, now core.Limiter) (core.Limiter, error) {
			updates.Add(1)
			return p.apply("plan", now)
		},
	}))
	for i := range keys + 1 {
		takes(t, k, strconv.Itoa(i), 1)
	}
	updates.Store(0)
	i := 0
	objects := testing.AllocsPerRun(1, func() {
		i++
		p.set([]string{"200/day", "300/day"}[i%2])
		require.NoError(t, k.Refresh())
	})
	require.Equal(t, int64(2*(keys+1)), updates.Load())
	require.Equal(t, 200, limitOf(k, "7"))
	if !testkit.Race {
		require.LessOrEqual(t, objects/keys, 12.0)
	}
	updates.Store(0)
	require.NoError(t, k.Refresh("1", "2", "nosuch"))
	require.Equal(t, int64(2), updates.Load())
}

// The answer of a limiter that was replaced meanwhile does not count, be it a grant, a rejection or an error. A request that has not
// waited there does not wait in the new one either if that has no queue.
func TestAnswersOfAReplacedLimiter(t *testing.T) {
	refunded := 0
	for name, answer := range map[string]core.Lease{
		"grant": core.Grant(1, func() { refunded++ }), "rejection": core.Reject(), "error": core.Fail(errors.New("odd")),
	} {
		testkit.Bubble(t, name, func(t *testing.T) {
			var k *keyed
			next := must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "new", PermitLimit: 1}))
			f := newFake(busy)
			f.try = func(int) core.Lease {
				require.NoError(t, k.Refresh())
				return answer
			}
			k = newKeyed(t, options{
				New:    func(string) (core.Limiter, error) { return f, nil },
				Update: func(string, core.Limiter) (core.Limiter, error) { return next, nil },
			})
			lease := must(k.Acquire(t.Context(), "a", 1))
			require.Equal(t, 0, next.Available())
			refused(t, k, "a", 1, core.ErrRejected)
			lease.Release()

			f = newFake(busy)
			f.acquire = func(context.Context, int) (core.Lease, error) {
				require.NoError(t, k.Refresh())
				return answer, answer.Err()
			}
			held := next.TryAcquire(1)
			k = newKeyed(t, options{
				New:    func(string) (core.Limiter, error) { return bare{f}, nil },
				Update: func(string, core.Limiter) (core.Limiter, error) { return next, nil },
			})
			_, err := k.Acquire(t.Context(), "a", 1)
			var rejected *core.RejectedError
			require.ErrorAs(t, err, &rejected)
			require.Equal(t, "new", rejected.Limiter)
			held.Release()
		})
	}
	require.Equal(t, 1, refunded)
}

// If Update fails for a key, its limiter stays. The others are refreshed, and the errors are joined.
func TestRefreshFails(t *testing.T) {
	odd, even := errors.New("odd"), errors.New("even")
	limit := 1
	var noBucket *core.TokenBucket
	k := newKeyed(t, options{
		Name: "api",
		New:  func(key string) (core.Limiter, error) { return semaphore(key, limit), nil },
		Update: func(key string, now core.Limiter) (core.Limiter, error) {
			switch key {
			case "1":
				return nil, odd
			case "2":
				return semaphore("", 1), even
			case "3":
				return noBucket, nil
			}
			return now, spec.Limit{Kind: spec.Concurrency, Permits: limit}.Update(now)
		},
	})
	for i := range 5 {
		takes(t, k, strconv.Itoa(i), 1).Release()
	}
	limit = 7
	err := k.Refresh()
	require.ErrorIs(t, err, odd)
	require.ErrorIs(t, err, even)
	require.ErrorContains(t, err, "nil limiter")
	require.ErrorContains(t, err, `"api"`)
	for i, want := range []int{7, 1, 1, 1, 7} {
		require.Equal(t, want, limitOf(k, strconv.Itoa(i)))
		takes(t, k, strconv.Itoa(i), 1).Release()
	}
	require.NoError(t, k.Refresh("0", "4"))
	require.NoError(t, k.Close())
	require.ErrorIs(t, k.Refresh(), core.ErrClosed)
	require.ErrorIs(t, new(keyed).Refresh("a"), core.ErrClosed)
}

// Refreshes run one at a time, and a panic of Update ends one.
func TestRefreshesTakeTurns(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		running, fail := 0, false
		k := newKeyed(t, options{Update: func(_ string, now core.Limiter) (core.Limiter, error) {
			running++
			defer func() { running-- }()
			if running > 1 {
				t.Error("two at a time")
			}
			if fail {
				panic("odd")
			}
			time.Sleep(time.Second)
			return now, nil
		}})
		takes(t, k, "a", 1)
		start := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := k.Refresh(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 3*time.Second, time.Since(start))
		fail = true
		require.Panics(t, func() { _ = k.Refresh() })
		fail = false
		require.NoError(t, k.Refresh())
	})
}

// A key that is dropped while Update runs gets a limiter under the current limits at its next request.
func TestRefreshOfADroppedKey(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		p := newPlan("5/s")
		k := planned(t, p, options{IdleTimeout: time.Second})
		takes(t, k, "a", 1)
		time.Sleep(time.Minute)
		p.set("fixed 9/h")
		p.delay = time.Second
		refreshed := make(chan error)
		go func() { refreshed <- k.Refresh() }()
		synctest.Wait()
		require.Equal(t, 1, k.Sweep())
		require.NoError(t, <-refreshed)
		require.Zero(t, k.Len())
		takes(t, k, "a", 1)
		require.Equal(t, 9, limitOf(k, "a"))
	})
}

// Groups follow with all partitions.
func TestRefreshOfGroups(t *testing.T) {
	p := newPlan("concurrency 2")
	k := planned(t, p, options{MaxPartitions: 1, Group: func(string) string { return "group" }})
	takes(t, k, "a", 1)
	takes(t, k, "b", 2)
	p.set("concurrency 3")
	require.NoError(t, k.Refresh("b", "group"))
	refused(t, k, "c", 1, core.ErrRejected)
	require.NoError(t, k.Refresh())
	takes(t, k, "c", 1)
}

// A reservation stays with the limiter that granted it.
func TestKeyedReserves(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		p := newPlan("1/min queue 5")
		k := planned(t, p, options{})
		require.True(t, k.Reserve("a", 1).Acquired())
		second := k.Reserve("a", 1)
		delay, _ := core.Delay.From(second)
		require.Equal(t, time.Minute, delay)
		require.ErrorIs(t, k.Reserve("a", -1).Err(), core.ErrNegativePermits)
		second.Refund()
		delay, _ = core.Delay.From(k.Reserve("a", 1))
		require.Equal(t, time.Minute, delay)
		p.set("concurrency 1")
		require.NoError(t, k.Refresh())
		require.ErrorContains(t, k.Reserve("a", 1).Err(), "no Reserver")
		require.NoError(t, k.Close())
		require.ErrorIs(t, k.Reserve("a", 1).Err(), core.ErrClosed)
	})
}

// Limits change at random under requests, settlements and drops. No permit is lost, no more are held than the largest
// limit allows, and no request learns of a change.
func TestStressRefresh(t *testing.T) {
	const keys, most = 3, 4
	texts := []string{
		"concurrency 3", "concurrency 4 queue 8", "concurrency 4 queue 8, 100M/s", "100M/s, concurrency 3 queue 8",
		"fixed 100M/day tz UTC, concurrency 2 queue 16",
	}
	p := newPlan(texts[0])
	k := planned(t, p, options{IdleTimeout: time.Nanosecond})
	var held [keys]atomic.Int64
	var granted atomic.Int64
	var workers, refreshers sync.WaitGroup
	for w := range 16 {
		workers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for range testkit.Rounds(2_000) {
				at := random.IntN(keys)
				key := strconv.Itoa(at)
				ctx, cancel := context.WithCancel(t.Context())
				var lease core.Lease
				var err error
				switch random.IntN(4) {
				case 0:
					lease = k.TryAcquire(key, 1)
					err = lease.Err()
				case 1:
					go cancel()
					lease, err = k.Acquire(ctx, key, 1)
				case 2:
					lease, err = partition.For[string](k, key).Acquire(ctx, 1)
				case 3:
					lease, err = k.Acquire(ctx, key, 1)
				}
				if err == nil {
					granted.Add(1)
					if n := held[at].Add(1); n > most {
						t.Errorf("%d are held", n)
					}
					if random.IntN(4) == 0 {
						runtime.Gosched()
					}
					held[at].Add(-1)
					switch random.IntN(3) {
					case 0:
						lease.Refund()
					case 1:
						lease = lease.Settle(random.IntN(2))
					}
					lease.Release()
				} else if !isRejected(err) && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	stop := make(chan struct{})
	for r := range 2 {
		refreshers.Go(func() {
			for i := r; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				p.set(texts[i%len(texts)])
				var err error
				if i%3 == 0 {
					err = k.Refresh(strconv.Itoa(i % keys))
				} else {
					err = k.Refresh()
				}
				if err != nil {
					t.Error(err)
				}
				if i%7 == 0 {
					k.Sweep()
				}
				runtime.Gosched()
			}
		})
	}
	workers.Wait()
	close(stop)
	refreshers.Wait()
	require.NotZero(t, granted.Load())
	for key, l := range k.All() {
		parts := []core.Limiter{l}
		if c, ok := l.(*core.ChainedLimiter); ok {
			parts = c.Limiters()
		}
		for _, part := range parts {
			if c, ok := part.(*core.ConcurrencyLimiter); ok {
				require.Equal(t, c.Options().PermitLimit, c.Available(), key)
				require.Zero(t, c.Statistics().Queued)
			}
		}
	}
}
