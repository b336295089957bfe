package core_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// fairly puts FairShare in force.
func fairly(tb testing.TB, l everything) everything {
	tb.Helper()
	return ordered(tb, l, core.FairShare)
}

func ordered(tb testing.TB, l everything, order core.QueueOrder) everything {
	tb.Helper()
	var err error
	switch l := l.(type) {
	case *core.ConcurrencyLimiter:
		o := l.Options()
		o.QueueOrder = order
		err = l.Update(o)
		require.Equal(tb, o, l.Options())
	case *core.TokenBucket:
		o := l.Options()
		o.QueueOrder = order
		err = l.Update(o)
		require.Equal(tb, o, l.Options())
	case *core.FixedWindow:
		o := l.Options()
		o.QueueOrder = order
		err = l.Update(o)
		require.Equal(tb, o, l.Options())
	case *core.SlidingWindow:
		o := l.Options()
		o.QueueOrder = order
		err = l.Update(o)
		require.Equal(tb, o, l.Options())
	}
	require.NoError(tb, err)
	return l
}

// as is a limiter whose requests are of a flow.
type as struct {
	core.Limiter
	flow core.Flow
}

func (a as) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	return a.Limiter.Acquire(core.WithFlow(ctx, a.flow), permits)
}

func key(l core.Limiter, name string) as { return as{l, core.Flow{Key: name}} }

func TestFlowOf(t *testing.T) {
	_, ok := core.FlowFromContext(t.Context())
	require.False(t, ok)
	for _, c := range []struct{ of, want core.Flow }{
		{core.Flow{}, core.Flow{}},
		{core.Flow{Key: "a", Weight: 7, Priority: -3}, core.Flow{Key: "a", Weight: 7, Priority: -3}},
		{core.Flow{Weight: -4, Priority: -101}, core.Flow{Weight: 1, Priority: -100}},
		{core.Flow{Weight: 1<<20 + 1, Priority: 101}, core.Flow{Weight: 1 << 20, Priority: 100}},
	} {
		got, ok := core.FlowFromContext(core.WithFlow(t.Context(), c.of))
		require.True(t, ok)
		require.Equal(t, c.want, got)
	}
	inner := core.WithFlow(core.WithFlow(t.Context(), core.Flow{Key: "outer"}), core.Flow{Key: "inner"})
	got, _ := core.FlowFromContext(inner)
	require.Equal(t, "inner", got.Key)
}

// flowless is a context that must not be asked for a flow.
type flowless struct{ context.Context }

func (flowless) Value(any) any { panic("asked for a value") }

func TestWhoDoesNotWaitIsNotAskedForAFlow(t *testing.T) {
	eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
		fairly(t, l)
		lease, err := l.Acquire(flowless{t.Context()}, 3)
		require.NoError(t, err)
		zero, err := l.Acquire(flowless{t.Context()}, 0)
		require.NoError(t, err)
		_, err = l.Acquire(flowless{t.Context()}, 6)
		require.ErrorIs(t, err, core.ErrPermitsExceedLimit)
		zero.Release()
		l.Refund(lease)
		// Under another order nobody is asked.
		takes(t, ordered(t, l, core.OldestFirst), 5)
		queues(t, key(l, "a"), 1)
		go func() { _, _ = l.Acquire(flowless{t.Context()}, 1) }()
		synctest.Wait()
		require.Equal(t, 2, l.Statistics().Queued)
		require.NoError(t, l.Close())
	})
}

// giveBack gives back what a lease has, or waits until it has come back.
func giveBack(l everything, lease core.Lease) {
	if _, ok := l.(*core.ConcurrencyLimiter); ok {
		lease.Release()
	} else {
		time.Sleep(time.Second)
	}
	synctest.Wait()
}

func TestFlowsTakeTurns(t *testing.T) {
	eachOfFour(t, 5, 50, func(t *testing.T, l everything) {
		fairly(t, l)
		held := takes(t, l, 5)
		greedy, modest := key(l, "greedy"), key(l, "modest")
		g1, g2, g3 := queues(t, greedy, 5), queues(t, greedy, 5), queues(t, greedy, 5)
		m1, m2 := queues(t, modest, 5), queues(t, modest, 5)
		require.False(t, l.TryAcquire(1).Acquired())
		for _, next := range []*acquire{g1, m1, g2, m2, g3} {
			next.waits(t)
			giveBack(l, held)
			held = next.granted(t)
		}
	})
}

func TestPrioritiesComeFirst(t *testing.T) {
	eachOfFour(t, 5, 50, func(t *testing.T, l everything) {
		fairly(t, l)
		held := takes(t, l, 5)
		low, plain, high := as{l, core.Flow{Priority: -1}}, as{l, core.Flow{}}, as{l, core.Flow{Priority: 1}}
		a, b, c, d := queues(t, low, 5), queues(t, plain, 5), queues(t, high, 5), queues(t, high, 5)
		for _, next := range []*acquire{c, d, b, a} {
			next.waits(t)
			giveBack(l, held)
			held = next.granted(t)
		}
	})
}

// The request that is next is not overtaken for being large, but by one that becomes next before it.
func TestWhoBecomesNext(t *testing.T) {
	eachOfFour(t, 5, 50, func(t *testing.T, l everything) {
		fairly(t, l)
		takes(t, l, 3)
		large := queues(t, key(l, "a"), 4)
		same := queues(t, key(l, "a"), 1)
		other := queues(t, key(l, "b"), 1)
		available(t, l, 2)
		acquires(t, as{l, core.Flow{Priority: 1}}, 1).granted(t)
		available(t, l, 1)
		next := queues(t, as{l, core.Flow{Priority: 2}}, 2)
		queues(t, as{l, core.Flow{Priority: 1}}, 1).cancelled(t)
		large.cancelled(t) // still nobody overtakes the one that is next
		same.waits(t)
		other.waits(t)
		next.cancelled(t)
		same.granted(t)
		other.waits(t)
	})
}

func TestAFlowWithASmallerTagBecomesNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fairly(t, concurrency(t, 10, 100))
		held, one := takes(t, l, 9), takes(t, l, 1)
		a1, a2, a3 := queues(t, key(l, "a"), 1), queues(t, key(l, "a"), 1), queues(t, key(l, "a"), 10)
		one.Release()
		one = a1.granted(t)
		one.Release()
		one = a2.granted(t)
		one.Release()
		a3.waits(t) // its tag is 2 and the virtual time is 1
		b := acquires(t, key(l, "b"), 1)
		b.granted(t)
		c := queues(t, key(l, "b"), 1) // both tags are 2, and a3 is older
		b.lease.Release()
		c.waits(t)
		held.Release()
		a3.granted(t).Release()
		c.granted(t)
	})
}

func TestAFullQueueEvictsTheLargestShare(t *testing.T) {
	eachOfFour(t, 10, 10, func(t *testing.T, l everything) {
		fairly(t, l)
		takes(t, l, 10)
		retry := time.Second // all comes back then
		if _, ok := l.(*core.ConcurrencyLimiter); ok {
			retry = 0
		}
		a, b, c := key(l, "a"), key(l, "b"), as{l, core.Flow{Key: "c", Weight: 4}}
		a1, a2, a3 := queues(t, a, 2), queues(t, a, 2), queues(t, a, 1)
		b1 := queues(t, b, 1)
		c1 := queues(t, c, 4) // 5, 1 and 1 by weight
		acquires(t, a, 1).rejected(t, "queue limit reached", retry)
		b2 := queues(t, b, 2) // a has 5, b would have 3
		a3.rejected(t, "evicted by a newer request", retry)
		a2.rejected(t, "evicted by a newer request", retry)
		acquires(t, b, 2).rejected(t, "queue limit reached", retry)
		acquires(t, a, 11).fails(t, core.ErrPermitsExceedLimit)
		require.Equal(t, 9, l.Statistics().Queued)
		b3 := queues(t, b, 1)
		acquires(t, b, 1).rejected(t, "queue limit reached", retry) // b's own turn
		acquires(t, key(l, "d"), 4).rejected(t, "queue limit reached", retry)

		// A higher priority evicts from the lowest; the lowest evicts nobody.
		acquires(t, as{l, core.Flow{Priority: -1}}, 1).rejected(t, "queue limit reached", retry)
		high := as{l, core.Flow{Priority: 1}}
		h := queues(t, high, 9)
		for _, gone := range []*acquire{a1, b2, b3, c1} {
			require.ErrorIs(t, gone.err, core.ErrRejected)
		}
		b1.waits(t) // as much by weight as c1, and older
		acquires(t, key(l, "a"), 2).rejected(t, "queue limit reached", retry)
		acquires(t, high, 2).rejected(t, "queue limit reached", map[bool]time.Duration{true: 0, false: 2 * time.Second}[retry == 0])
		h.waits(t)
	})
}

// If the request that was next is evicted, those that fit are served at once.
func TestEvictionOfTheNext(t *testing.T) {
	eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
		fairly(t, l)
		takes(t, l, 3)
		next := queues(t, key(l, "a"), 4)
		other := queues(t, key(l, "b"), 1)
		newcomer := acquires(t, as{l, core.Flow{Key: "c", Weight: 2}}, 1)
		synctest.Wait()
		require.ErrorIs(t, next.err, core.ErrRejected)
		other.granted(t)
		newcomer.granted(t)
	})
}

// RetryAfter and "deadline too soon" are by what the request lacks and its own flow's waiters
// wait for: those of other flows may be served later.
func TestWhatIsCertainOfATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fairly(t, bucket(t, core.TokenBucketOptions{
			TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 20,
		}))
		takes(t, l, 10)
		a := key(l, "a")
		queues(t, a, 5)
		queues(t, a, 5)
		rejected(t, l, 3, 3*time.Second)
		acquiresWithin(t, a, 1, 10*time.Second).rejected(t, "deadline too soon", 11*time.Second)
		fits := acquiresWithin(t, a, 1, 11*time.Second)
		fits.waits(t)
		b := acquiresWithin(t, key(l, "b"), 3, 3*time.Second)
		b.waits(t)
		acquiresWithin(t, key(l, "c"), 3, 3*time.Second-1).rejected(t, "deadline too soon", 3*time.Second)
		acquiresWithin(t, as{l, core.Flow{Priority: 1}}, 3, 3*time.Second).waits(t)
		time.Sleep(3 * time.Second)
		b.fails(t, context.DeadlineExceeded) // the higher priority came first
	})
}

func TestUpdateOfTheOrder(t *testing.T) {
	eachOfFour(t, 1, 50, func(t *testing.T, l everything) {
		held := takes(t, l, 1)
		a, b := key(l, "a"), key(l, "b")
		next := func(want *acquire) {
			t.Helper()
			want.waits(t)
			giveBack(l, held)
			held = want.granted(t)
		}
		// Those that waited before are of the zero Flow.
		old1, old2, old3 := queues(t, a, 1), queues(t, b, 1), queues(t, as{l, core.Flow{Priority: 100}}, 1)
		order := l.(interface{ QueueOrder() core.QueueOrder }).QueueOrder
		require.Equal(t, core.OldestFirst, order())
		fairly(t, l)
		require.Equal(t, core.FairShare, order())
		a1, b1, b2 := queues(t, a, 1), queues(t, b, 1), queues(t, b, 1)
		next(old1)
		next(a1)
		// From FairShare to FairShare the tags stay: it is b's turn.
		if k, ok := l.(*core.ConcurrencyLimiter); ok {
			o := k.Options()
			o.QueueLimit++
			require.NoError(t, k.Update(o))
		}
		next(b1)
		next(old2)
		// Away from it, those that wait are served by arrival.
		a2 := queues(t, a, 1)
		ordered(t, l, core.OldestFirst)
		next(old3)
		next(b2)
		next(a2)
	})
}

func TestAGrantThatIsGivenBackKeepsItsCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fairly(t, concurrency(t, 1, 50))
		held := takes(t, l, 1)
		a1, a2, b1 := queues(t, key(l, "a"), 1), queues(t, key(l, "a"), 1), queues(t, key(l, "b"), 1)
		held.Release()
		l.Refund(a1.granted(t))
		b1.granted(t)
		a2.waits(t)
	})
}

func TestAContextThatEndsFreesTheFlow(t *testing.T) {
	eachOfFour(t, 5, 50, func(t *testing.T, l everything) {
		fairly(t, l)
		takes(t, l, 3)
		large := queues(t, key(l, "a"), 5)
		small := queues(t, key(l, "b"), 2)
		large.cancelled(t)
		small.granted(t)
	})
}

// tenant is a flow of a test that measures shares.
type tenant struct {
	core.Flow

	requests []*acquire
	permits  int // that were asked for
	largest  int
}

func (k *tenant) ask(t *testing.T, l core.Limiter, n int) {
	t.Helper()
	k.requests = append(k.requests, queues(t, as{l, k.Flow}, n))
	k.permits += n
	k.largest = max(k.largest, n)
}

// granted returns the permits that were granted, and whether requests still wait.
func (k *tenant) granted() (permits int, waits bool) {
	for _, r := range k.requests {
		switch {
		case !r.done.Load():
			waits = true
		case r.err == nil:
			permits += r.permits
		}
	}
	return permits, waits
}

// maxMin returns the shares by weight of what is there, by raising the level of all until it is used up
// (internal/fair has a test of the same model).
func maxMin(there float64, tenants []*tenant) []float64 {
	given := func(level float64) (shares []float64, sum float64) {
		for _, k := range tenants {
			s := min(float64(k.permits), level*float64(k.Weight))
			shares, sum = append(shares, s), sum+s
		}
		return shares, sum
	}
	low, high := 0.0, there+1
	for range 200 {
		if _, sum := given((low + high) / 2); sum < there {
			low = (low + high) / 2
		} else {
			high = (low + high) / 2
		}
	}
	shares, _ := given(high)
	return shares
}

func TestMaxMinByLevels(t *testing.T) {
	tenants := []*tenant{{Flow: core.Flow{Weight: 2}, permits: 100}, {Flow: core.Flow{Weight: 5}, permits: 30}}
	require.InDeltaSlice(t, []float64{40, 30}, maxMin(70, tenants), 1e-6)
	require.InDeltaSlice(t, []float64{10, 25}, maxMin(35, tenants), 1e-6)
	require.InDeltaSlice(t, []float64{100, 30}, maxMin(130, tenants), 1e-6)
}

// Over each of the four limiters, with weights 2 and 5, requests of 1 to 50 permits, and a flow that comes later and
// one that leaves: whatever has been granted at an instant is shared as the model says, but for
// the largest requests; and while two flows wait, they differ by no more than one of each.
func TestSharesOverAllLimiters(t *testing.T) {
	eachOfFour(t, 100, math.MaxInt, func(t *testing.T, l everything) {
		fairly(t, l)
		random := rand.New(rand.NewPCG(9, 10))
		held := takes(t, l, 100)
		tenants := []*tenant{
			{Flow: core.Flow{Key: "two", Weight: 2}},
			{Flow: core.Flow{Key: "five", Weight: 5}},
			{Flow: core.Flow{Key: "modest", Weight: 5}},
			{Flow: core.Flow{Key: "large", Weight: 2}},
		}
		for i := range 80 {
			tenants[0].ask(t, l, 1+random.IntN(50))
			tenants[1].ask(t, l, 1+random.IntN(50))
			if i%10 == 0 {
				tenants[2].ask(t, l, 1+random.IntN(5))
				tenants[3].ask(t, l, 50)
			}
		}
		later := &tenant{Flow: core.Flow{Key: "later", Weight: 5}}
		leaver := &tenant{Flow: core.Flow{Key: "leaver", Weight: 5}}
		for range 20 {
			leaver.ask(t, l, 1+random.IntN(50))
		}
		l.Refund(held)

		began := make([]int, 3) // what the three had when the later flow came
		for round := 0; ; round++ {
			synctest.Wait()
			if round == 3 {
				for range 60 {
					later.ask(t, l, 1+random.IntN(50))
				}
				for _, r := range leaver.requests {
					r.cancel()
				}
				synctest.Wait()
				for i, k := range []*tenant{tenants[0], tenants[1], later} {
					began[i], _ = k.granted()
				}
			}
			// The early ones by the model, while nobody else has been served.
			if _, leaving := leaver.granted(); round < 3 && leaving {
				sum, bound := 0, 0.0
				all := append([]*tenant{leaver}, tenants...)
				for _, k := range all {
					n, _ := k.granted()
					sum += n
					bound = max(bound, 2*float64(k.largest)/float64(k.Weight))
				}
				for i, share := range maxMin(float64(sum), all) {
					n, _ := all[i].granted()
					require.InDelta(t, share/float64(all[i].Weight), float64(n)/float64(all[i].Weight), bound+1e-6)
				}
			}
			// The three that want all, two by two.
			waiting := 0
			three := []*tenant{tenants[0], tenants[1], later}
			for i, a := range three {
				n, waits := a.granted()
				if waits {
					waiting++
				}
				for j, b := range three[:i] {
					m, both := b.granted()
					if waits && both {
						d := math.Abs(float64(n-began[i])/float64(a.Weight) - float64(m-began[j])/float64(b.Weight))
						require.LessOrEqual(t, d, float64(a.largest)/float64(a.Weight)+float64(b.largest)/float64(b.Weight)+1e-9)
					}
				}
			}
			if waiting == 0 && round > 3 {
				break
			}
			if _, ok := l.(*core.ConcurrencyLimiter); ok {
				var ended []core.Lease
				for _, k := range append([]*tenant{later, leaver}, tenants...) {
					for _, r := range k.requests {
						if r.done.Load() && r.err == nil && random.IntN(3) > 0 {
							ended = append(ended, r.lease)
						}
					}
				}
				for _, l := range ended { // not above, where those that it serves would be found done by chance
					l.Release()
				}
			}
			time.Sleep(250 * time.Millisecond)
		}
		for _, k := range append([]*tenant{later}, tenants...) {
			n, waits := k.granted()
			require.False(t, waits)
			require.Equal(t, k.permits, n)
		}
	})
}

// Flows that ask for one large request at a time, with weights 2 and 5, get their shares while others
// wait, whether they hold them for long or not.
func TestClosedLoopsOverAllLimiters(t *testing.T) {
	eachOfFour(t, 100, math.MaxInt, func(t *testing.T, l everything) {
		fairly(t, l)
		granted := map[string]int{}
		results := make(chan string)
		loop := func(f core.Flow, n int, hold time.Duration) {
			go func() {
				for {
					lease, err := as{l, f}.Acquire(t.Context(), n)
					if err != nil {
						results <- ""
						return
					}
					results <- f.Key
					time.Sleep(hold)
					lease.Release()
				}
			}()
		}
		large := core.Flow{Key: "large", Weight: 2}
		small := core.Flow{Key: "small", Weight: 5}
		loop(large, 50, 100*time.Millisecond)
		for range 200 {
			loop(small, 1, 100*time.Millisecond)
		}
		go func() {
			time.Sleep(20 * time.Second)
			_ = l.Close()
		}()
		for ended := 0; ended < 201; {
			switch k := <-results; k {
			case "":
				ended++
			case "large":
				granted[k] += 50
			default:
				granted[k]++
			}
		}
		require.NotZero(t, granted["large"])
		// Between its requests a flow does not wait, and so it may get less; it never gets more.
		require.LessOrEqual(t, float64(granted["large"])/2, float64(granted["small"])/5+50/2.0+200/5.0)
	})
}

// BenchmarkWait is a release, the grant to a waiter and the beginning of another wait, among 100,000
// waiters.
func BenchmarkWait(b *testing.B) {
	for _, order := range []core.QueueOrder{core.OldestFirst, core.NewestFirst, core.FairShare} {
		for _, flows := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("order=%s/flows=%d", order, flows), func(b *testing.B) {
				const waiting = 100_000
				l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
					PermitLimit: 1, QueueLimit: waiting + 1, QueueOrder: order,
				})
				require.NoError(b, err)
				contexts := make([]context.Context, flows)
				for i := range contexts {
					f := core.Flow{Key: strconv.Itoa(i), Weight: 1 + i%7}
					contexts[i] = core.WithFlow(b.Context(), f) //nolint:fatcontext // each is of its own
				}
				lease := l.TryAcquire(1)
				leases := make(chan core.Lease)
				stop := make(chan struct{})
				wait := func(i int) {
					for {
						k, err := l.Acquire(contexts[i%flows], 1)
						if err != nil {
							return
						}
						select {
						case leases <- k:
						case <-stop:
							return
						}
					}
				}
				for i := range waiting {
					go wait(i)
				}
				for l.Statistics().Queued < waiting {
					time.Sleep(time.Millisecond)
				}
				b.ReportAllocs()
				for b.Loop() {
					lease.Release()
					lease = <-leases
				}
				close(stop)
				_ = l.Close()
			})
		}
	}
}

// A request keeps its flow through Updates to another order and back.
func TestFlowsSurviveAnotherOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 10, QueueOrder: core.FairShare}
		l, err := core.NewConcurrencyLimiter(o)
		require.NoError(t, err)
		lease := takes(t, l, 1)
		served := make(chan string, 10)
		for i, key := range []string{"a", "a", "a", "b", "a", "b"} {
			go func() {
				k, err := l.Acquire(core.WithFlow(t.Context(), core.Flow{Key: key}), 1)
				if err != nil {
					t.Error(err)
				}
				served <- key
				k.Release()
			}()
			synctest.Wait()
			if i == 4 { // the last one waits from the beginning under another order
				o.QueueOrder = core.OldestFirst
				require.NoError(t, l.Update(o))
			}
		}
		o.QueueOrder = core.FairShare
		require.NoError(t, l.Update(o))
		lease.Release()
		require.Equal(t, []string{"a", "b"}, []string{<-served, <-served})
		for range 4 {
			<-served
		}
	})
}
