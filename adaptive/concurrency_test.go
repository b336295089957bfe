package adaptive_test

import (
	"cmp"
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/limitertest"
)

func newConcurrency(t *testing.T, o adaptive.Options) *adaptive.Concurrency {
	t.Helper()
	return core.Must(adaptive.New(o))
}

// script is an algorithm that wants what it is told, and keeps the windows.
type script struct {
	mu      sync.Mutex
	next    func(limit int, w adaptive.Sample) float64
	windows []adaptive.Sample
	running bool
	overlap bool
}

func (a *script) Next(limit int, w adaptive.Sample) float64 {
	a.mu.Lock()
	a.windows = append(a.windows, w)
	a.overlap = a.overlap || a.running
	a.running = true
	next := a.next
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.running = false
		a.mu.Unlock()
	}()
	if next == nil {
		return math.NaN()
	}
	return next(limit, w)
}

func (a *script) take() []adaptive.Sample {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.windows
	a.windows = nil
	return all
}

// wants returns a script that always wants the same limit.
func wants(want float64) *script {
	return &script{next: func(int, adaptive.Sample) float64 { return want }}
}

// window has the limiter see n leases of so many permits, one after the other.
func window(l *adaptive.Concurrency, n, permits int) {
	for range n {
		l.TryAcquire(permits).Release()
	}
}

// learn has the limiter see enough leases for a window, after those that do not count.
func learn(l *adaptive.Concurrency, permits int) { window(l, 5*permits+20, permits) }

func TestConcurrencyKeepsTheRules(t *testing.T) {
	for name, o := range map[string]adaptive.Options{
		"no queue":     {Name: "adaptive"},
		"oldest first": {QueueLimit: 8},
		"newest first": {QueueLimit: 8, QueueOrder: core.NewestFirst},
		"fair share":   {QueueLimit: 30, QueueOrder: core.FairShare},
		"aimd":         {QueueLimit: 8, Algorithm: adaptive.AIMD{}},
		"unbounded":    {QueueLimit: math.MaxInt, Algorithm: wants(math.NaN())},
		"limit of one": {QueueLimit: 4, Max: 1},
	} {
		t.Run(name, func(t *testing.T) {
			o.Max = cmp.Or(o.Max, 5)
			o.Min = o.Max
			limitertest.Run(t, limitertest.Config{
				New: func() core.Limiter { return newConcurrency(t, o) }, Limit: o.Max, QueueLimit: o.QueueLimit, QueueOrder: o.QueueOrder,
			})
		})
	}
}

func TestDefaults(t *testing.T) {
	for name, c := range map[string]struct {
		o    adaptive.Options
		want int
	}{
		"zero":          {adaptive.Options{}, 20},
		"moved up":      {adaptive.Options{Min: 30}, 30},
		"moved down":    {adaptive.Options{Max: 10}, 10},
		"said":          {adaptive.Options{Initial: 7}, 7},
		"the very most": {adaptive.Options{Max: math.MaxInt, Initial: math.MaxInt}, math.MaxInt},
	} {
		t.Run(name, func(t *testing.T) {
			l := newConcurrency(t, c.o)
			assert.Equal(t, c.want, l.Limit())
			assert.Equal(t, core.Statistics{Limit: c.want, Available: c.want}, l.Statistics())
			most := c.o.Max
			if most == 0 {
				most = 1000
			}
			if most < math.MaxInt {
				assert.ErrorIs(t, l.TryAcquire(most+1).Err(), core.ErrPermitsExceedLimit)
			}
			if c.want < most {
				assert.ErrorIs(t, l.TryAcquire(most).Err(), core.ErrRejected)
			}
		})
	}
}

func TestBadOptions(t *testing.T) {
	for name, c := range map[string]struct {
		o    adaptive.Options
		says []string
	}{
		"all":         {adaptive.Options{Min: -1, Max: -1, QueueLimit: -1, QueueOrder: 7}, []string{"Options.Min = -1, want at least 0", "Options.Max = -1", "Options.QueueLimit = -1, want at least 0", "Options.QueueOrder"}},
		"crossed":     {adaptive.Options{Min: 5, Max: 4}, []string{"Options.Min = 5, want at most Max, which is 4"}},
		"below":       {adaptive.Options{Min: 5, Initial: 4}, []string{"Options.Initial = 4, want from Min to Max, 5 to 1000"}},
		"above":       {adaptive.Options{Max: 5, Initial: 6}, []string{"Options.Initial = 6"}},
		"negative":    {adaptive.Options{Initial: -1}, []string{"Options.Initial = -1"}},
		"gradient":    {adaptive.Options{Algorithm: adaptive.Gradient{Tolerance: 0.9, Smoothing: 2, LongWindow: -1}}, []string{"Gradient.Tolerance = 0.9, want at least 1", "Gradient.Smoothing = 2", "Gradient.LongWindow = -1"}},
		"not numbers": {adaptive.Options{Algorithm: &adaptive.Gradient{Tolerance: math.NaN(), Smoothing: math.NaN()}}, []string{"Gradient.Tolerance = NaN", "Gradient.Smoothing = NaN"}},
		"aimd":        {adaptive.Options{Algorithm: adaptive.AIMD{Timeout: -1, Backoff: 1}}, []string{"AIMD.Timeout = -1ns", "AIMD.Backoff = 1, want"}},
		"typed nil":   {adaptive.Options{Algorithm: (*script)(nil)}, []string{"Options.Algorithm = (*adaptive_test.script)(nil)"}},
		"makes nil":   {adaptive.Options{Algorithm: maker{}}, []string{"Options.Algorithm"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := adaptive.New(c.o)
			assert.Nil(t, l)
			for _, want := range c.says {
				assert.ErrorContains(t, err, want)
			}
		})
	}
}

// maker is a configuration; it makes what it holds.
type maker struct{ adaptive.Algorithm }

func (m maker) New() adaptive.Algorithm { return m.Algorithm }

func TestAlgorithmOfItsOwn(t *testing.T) {
	made := wants(3)
	l := newConcurrency(t, adaptive.Options{Initial: 4, Algorithm: maker{made}})
	learn(l, 2)
	assert.Len(t, made.take(), 1)
	assert.Equal(t, 3, l.Limit())
}

func TestZeroConcurrencyRefuses(t *testing.T) {
	var l adaptive.Concurrency
	assert.Equal(t, core.ErrClosed, l.TryAcquire(1).Err())
	_, err := l.Acquire(t.Context(), 1)
	assert.Equal(t, core.ErrClosed, err)
	l.Drop(core.Lease{})
	l.Ignore(core.Lease{})
	assert.Zero(t, l.Statistics())
	assert.Zero(t, l.Limit())
	_, idle := l.IdleFor()
	assert.False(t, idle)
	assert.NoError(t, l.Close())
	assert.NotEmpty(t, l.String())
}

func TestWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := wants(math.NaN())
		l := newConcurrency(t, adaptive.Options{Name: "x", Initial: 10, Algorithm: a})
		time.Sleep(time.Minute)
		release := func(held time.Duration) {
			lease := l.TryAcquire(1)
			time.Sleep(held)
			lease.Release()
			lease.Release()
			l.Drop(lease)
		}
		for range 5 {
			release(time.Hour) // the server fills: these do not count
		}
		for range 10 {
			release(time.Second)
			l.TryAcquire(0).Release() // neither do zero-permit requests
			l.Ignore(l.TryAcquire(1))
			l.TryAcquire(1).Refund()
			release(3 * time.Second)
		}
		assert.Equal(t, []adaptive.Sample{{N: 20, Mean: 2 * time.Second, StdErr: 223606797, InFlight: 1}}, a.take())

		others := l.TryAcquire(5)
		release(time.Second)
		l.Ignore(others)
		l.Drop(l.TryAcquire(1))
		assert.Equal(t, []adaptive.Sample{{N: 1, Dropped: 1, Mean: time.Second, InFlight: 6}}, a.take(), "a drop ends the window")
		assert.Equal(t, 9, l.Limit())
		l.Drop(newConcurrency(t, adaptive.Options{}).TryAcquire(1))
		l.Drop(core.Lease{})
		l.Ignore(core.Grant(1, nil))
		assert.Empty(t, a.take())
		assert.Contains(t, l.String(), `adaptive concurrency limiter "x": 9 of 9 available, 0 queued, `)
	})
}

// A chain takes permits and refunds them if a limiter after this one rejects. That shows nothing about the server.
func TestAChainThatUnwindsTeachesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := wants(5)
		l := newConcurrency(t, adaptive.Options{Initial: 10, QueueLimit: 10, Algorithm: a})
		chain := core.Must(core.Chain(l, core.Blocked()))
		for range 1000 {
			require.False(t, chain.TryAcquire(10).Acquired())
			_, err := chain.Acquire(t.Context(), 10)
			require.ErrorIs(t, err, core.ErrRejected)
		}
		require.Empty(t, a.take())
		require.Equal(t, 10, l.Available())
		learn(l, 10)
		require.Len(t, a.take(), 1, "the samples count from the first lease that was released")
	})
}

// After a large change of the limit the leases of before do not count, nor those that end until the server has settled.
func TestLeasesOfBeforeALargeChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := wants(20)
		l := newConcurrency(t, adaptive.Options{Initial: 10, Algorithm: a})
		old, older := l.TryAcquire(5), l.TryAcquire(1)
		time.Sleep(time.Second)
		window(l, 35, 1) // until five for each of the 7 have ended
		require.Empty(t, a.take())
		window(l, 20, 1)
		require.Len(t, a.take(), 1)
		require.Equal(t, 20, l.Limit())
		old.Release()
		window(l, 11, 1) // until five for each that was in flight have ended
		older.Release()
		window(l, 19, 1)
		require.Empty(t, a.take())
		window(l, 1, 1)
		assert.Equal(t, []adaptive.Sample{{N: 20, InFlight: 1}}, a.take())
	})
}

// The limiter does what sampler.Move says, of which there is a larger table.
func TestWhatAnAlgorithmMayWant(t *testing.T) {
	for name, c := range map[string]struct {
		want     float64
		limit    int // after
		inFlight int
		dropped  bool
	}{
		"the same":           {want: 10, limit: 10, inFlight: 10},
		"a lot":              {want: 1e300, limit: 50, inFlight: 10},
		"less than anything": {want: math.Inf(-1), limit: 2, inFlight: 10},
		"more below half":    {want: 20, limit: 10, inFlight: 4},
		"a drop, more":       {want: 20, limit: 9, inFlight: 10, dropped: true},
		"a drop, much less":  {want: 4, limit: 4, inFlight: 10, dropped: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var changes []adaptive.Change
				l := newConcurrency(t, adaptive.Options{
					Min: 2, Max: 50, Initial: 10, Algorithm: wants(c.want),
					OnChange: func(c adaptive.Change) { changes = append(changes, c) },
				})
				if c.dropped {
					l.Drop(l.TryAcquire(c.inFlight))
				} else {
					learn(l, c.inFlight)
				}
				assert.Equal(t, c.limit, l.Limit())
				assert.Equal(t, c.limit, l.Statistics().Limit)
				assert.Equal(t, c.limit, l.Available())
				if c.limit == 10 {
					assert.Empty(t, changes)
				} else {
					assert.Equal(t, []adaptive.Change{{Old: 10, New: c.limit, Reason: "algorithm"}}, changes)
				}
			})
		})
	}
}

// explaining is an algorithm that gives reasons.
type explaining struct{ adaptive.Algorithm }

func (explaining) Explain() (string, time.Duration) { return "because", time.Second }

func TestChangeHasTheReasonOfTheAlgorithm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes []adaptive.Change
		l := newConcurrency(t, adaptive.Options{Initial: 10, Algorithm: explaining{wants(5)}, OnChange: func(c adaptive.Change) {
			changes = append(changes, c)
		}})
		for range 40 { // the first 20 do not count
			lease := l.TryAcquire(1)
			time.Sleep(time.Millisecond)
			lease.Release()
		}
		assert.Equal(t, []adaptive.Change{{10, 5, "because", time.Millisecond, time.Second}}, changes)
	})
}

// More than the current limit waits until the limit has grown, or is rejected.
func TestMoreThanTheCurrentLimitWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConcurrency(t, adaptive.Options{Max: 10, Initial: 4, QueueLimit: 8, Algorithm: wants(8)})
		require.ErrorIs(t, l.TryAcquire(6).Err(), core.ErrRejected)
		window(l, 5*4, 4)
		window(l, 19, 4)
		held := l.TryAcquire(2)
		granted := make(chan core.Lease, 1)
		go func() {
			lease, _ := l.Acquire(t.Context(), 6)
			granted <- lease
		}()
		synctest.Wait()
		assert.Equal(t, 6, l.Statistics().Queued)
		_, err := l.Acquire(t.Context(), 11)
		var exceeds *core.ExceedsLimitError
		require.ErrorAs(t, err, &exceeds)
		assert.Equal(t, 10, exceeds.Limit)
		held.Release()
		lease := <-granted
		assert.True(t, lease.Acquired())
		limit, _ := core.PermitLimit.From(lease)
		assert.Equal(t, 8, limit)
	})
}

// Successes that are released while Next runs are lost; drops are in the next window, also if Next panics.
func TestDropsWhileNextRuns(t *testing.T) {
	for _, panics := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const many = 50
			goOn, recovered := make(chan struct{}), make(chan any, 1)
			a := &script{next: func(int, adaptive.Sample) float64 {
				<-goOn
				if panics {
					panic("boom")
				}
				return math.NaN()
			}}
			l := newConcurrency(t, adaptive.Options{Max: 200, Initial: 200, Algorithm: a})
			leases := make([]core.Lease, 2*many)
			for i := range leases {
				leases[i] = l.TryAcquire(1)
			}
			go func() {
				defer func() { recovered <- recover() }()
				l.Drop(l.TryAcquire(1))
			}()
			synctest.Wait()
			for i, lease := range leases {
				if i%2 == 0 {
					l.Drop(lease) // none of these waits
				} else {
					lease.Release()
				}
			}
			assert.Equal(t, 200, l.Limit())
			close(goOn)
			if panicked := <-recovered; panics {
				assert.Equal(t, "boom", panicked)
				assert.Equal(t, 199, l.Limit())
				assert.PanicsWithValue(t, "boom", func() { l.TryAcquire(1).Release() })
			}
			assert.Equal(t, []adaptive.Sample{{Dropped: 1}, {Dropped: many}}, a.take())
			assert.False(t, a.overlap)
			assert.Equal(t, 200-1-many, l.Limit())
		})
	}
}

// A panic goes to the caller that releases; what it held is back, and the limiter continues.
func TestNextPanics(t *testing.T) {
	a := &script{next: func(int, adaptive.Sample) float64 { panic("boom") }}
	l := newConcurrency(t, adaptive.Options{Initial: 10, Algorithm: a})
	assert.PanicsWithValue(t, "boom", func() { learn(l, 4) })
	assert.Equal(t, 10, l.Available())
	assert.PanicsWithValue(t, "boom", func() { l.Drop(l.TryAcquire(4)) })
	assert.Equal(t, 9, l.Limit(), "a drop shrinks the limit, whatever Next does")
	a.next = func(int, adaptive.Sample) float64 { runtime.Goexit(); return 0 }
	done := make(chan struct{})
	go func() {
		defer close(done)
		learn(l, 1)
	}()
	<-done
	a.next = func(int, adaptive.Sample) float64 { return 5 }
	learn(l, 1)
	assert.Equal(t, 5, l.Limit())
}

// OnChange may panic: the limit is applied, and the limiter continues.
func TestOnChangePanics(t *testing.T) {
	l := newConcurrency(t, adaptive.Options{Initial: 10, OnChange: func(adaptive.Change) { panic("boom") }})
	assert.PanicsWithValue(t, "boom", func() { l.Drop(l.TryAcquire(1)) })
	assert.Equal(t, 9, l.Limit())
	assert.Equal(t, 9, l.Available())
	assert.PanicsWithValue(t, "boom", func() { l.Drop(l.TryAcquire(1)) })
	assert.Equal(t, 8, l.Limit())
}

// Next and OnChange may use the limiter: no lock is held.
func TestCallbacksMayUseTheLimiter(t *testing.T) {
	var l *adaptive.Concurrency
	depth := 0
	a := &script{}
	a.next = func(limit int, _ adaptive.Sample) float64 {
		depth++
		if depth < 4 {
			l.TryAcquire(1).Release()
			l.Drop(l.TryAcquire(1)) // is learned from after this window
		}
		return float64(limit)
	}
	var changes []int
	l = newConcurrency(t, adaptive.Options{Initial: 20, Algorithm: a, OnChange: func(c adaptive.Change) {
		assert.Equal(t, c.New, l.Limit())
		assert.Equal(t, c.New, l.Statistics().Limit)
		changes = append(changes, c.New)
	}})
	l.Drop(l.TryAcquire(2))
	assert.Len(t, a.take(), 4)
	assert.False(t, a.overlap)
	assert.Equal(t, []int{19, 18, 17, 16}, changes)
}

func TestLearningContinuesAfterClose(t *testing.T) {
	l := newConcurrency(t, adaptive.Options{Initial: 9, Algorithm: wants(5)})
	window(l, 45+19, 9)
	lease := l.TryAcquire(9)
	require.NoError(t, l.Close())
	lease.Release()
	assert.Equal(t, 5, l.Statistics().Limit)
	assert.Equal(t, core.ErrClosed, l.TryAcquire(1).Err())
}

func TestNothingAllocates(t *testing.T) {
	if testkit.Race {
		t.Skip("allocations can't be counted under the race detector")
	}
	for name, a := range map[string]adaptive.Algorithm{"gradient": adaptive.Gradient{}, "aimd": adaptive.AIMD{}} {
		l := newConcurrency(t, adaptive.Options{Name: name, Initial: 100, Algorithm: a})
		ctx := t.Context()
		held := make([]core.Lease, 60) // so that the limit moves
		for i := range held {
			held[i] = l.TryAcquire(1)
		}
		i := 0
		assert.Zero(t, testing.AllocsPerRun(5000, func() {
			lease := l.TryAcquire(1)
			held[i%60].Release()
			held[i%60] = lease
			i++
		}), name)
		core.ReleaseAll(held)
		assert.Zero(t, testing.AllocsPerRun(1000, func() {
			lease, _ := l.Acquire(ctx, 1)
			l.Ignore(lease)
		}), name)
	}
}

// stress has goroutines ask in turns, some with a context that is canceled meanwhile, and use what they are granted.
// It returns how many requests were granted and how many rejected; all others were canceled.
func stress(t *testing.T, l core.Limiter, goroutines, turns int, use func(i int, lease core.Lease)) (granted, rejected uint64) {
	t.Helper()
	var grants, rejections atomic.Uint64
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := range turns {
				ctx, cancel := context.WithCancel(t.Context())
				if (g+i)%5 == 0 {
					go cancel()
				}
				switch lease, err := l.Acquire(ctx, (g+i)%3); {
				case err == nil:
					grants.Add(1)
					use(i, lease)
				case errors.Is(err, core.ErrRejected):
					rejections.Add(1)
				case !errors.Is(err, context.Canceled):
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	return grants.Load(), rejections.Load()
}

// However releases, drops and cancellations fall: all permits are back, never was more out
// than the most, each drop is in a window, and Next was never entered twice.
func TestStressConcurrency(t *testing.T) {
	const goroutines, turns, most = 8, 800, 40
	var mu sync.Mutex
	last, broken := 20, 0
	a := &script{}
	n := 0
	a.next = func(limit int, w adaptive.Sample) float64 {
		n++
		if w.InFlight > most || w.InFlight < 0 || limit < 2 || limit > most {
			broken++
		}
		return float64(2 + n*7%most)
	}
	l := newConcurrency(t, adaptive.Options{Min: 2, Max: most, QueueLimit: goroutines, Algorithm: a, OnChange: func(c adaptive.Change) {
		mu.Lock()
		defer mu.Unlock()
		if c.Old != last {
			broken++
		}
		last = c.New
	}})
	var drops atomic.Int64
	stress(t, l, goroutines, turns, func(i int, lease core.Lease) {
		switch i % 5 {
		case 0:
			l.Drop(lease)
			drops.Add(int64(min(lease.Permits(), 1)))
		case 1:
			l.Ignore(lease)
		default:
			lease.Release()
		}
	})
	dropped := 0
	for _, w := range a.take() {
		dropped += w.Dropped
	}
	assert.EqualValues(t, drops.Load(), dropped)
	assert.False(t, a.overlap)
	assert.Zero(t, broken)
	st := l.Statistics()
	assert.Equal(t, l.Limit(), st.Limit)
	assert.Equal(t, last, st.Limit)
	assert.Equal(t, st.Limit, st.Available)
	assert.Zero(t, st.Queued)
}

// A limiter that moves to where the clock is earlier, or decades later, continues to learn there. A
// lease that is held during the move says nothing.
func TestLearningInAnotherBubble(t *testing.T) {
	a := wants(math.NaN())
	var l *adaptive.Concurrency
	var first, second, third core.Lease
	grows := func(t *testing.T) {
		t.Helper()
		before := l.Limit()
		a.next = func(int, adaptive.Sample) float64 { return float64(2 * before) }
		window(l, 3*before+60, (before+1)/2) // so many although two more are held
		require.Equal(t, 2*before, l.Limit())
		window(l, 6*before+60, before)
		for _, w := range a.take() {
			require.GreaterOrEqual(t, w.N, 20)
			require.Zero(t, w.Mean, "no lease was held for any time")
			require.Zero(t, w.Dropped)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		l = newConcurrency(t, adaptive.Options{Initial: 10, Max: 1000, Algorithm: a})
		time.Sleep(time.Hour)
		grows(t)
		first, second, third = l.TryAcquire(1), l.TryAcquire(1), l.TryAcquire(1)
	})
	synctest.Test(t, func(t *testing.T) { // two hours earlier
		first.Release()
		grows(t)
		time.Sleep(50 * 365 * 24 * time.Hour) // as from a bubble to where the year is this one
		second.Release()
		l.Drop(third)
		windows := a.take()
		require.Len(t, windows, 1)
		require.Equal(t, 1, windows[0].Dropped, "a drop is a drop")
		grows(t)
	})
}
