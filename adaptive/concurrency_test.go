package adaptive_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/limitertest"
)

func newConcurrency(t *testing.T, o adaptive.Options) *adaptive.Concurrency {
	t.Helper()
	l, err := adaptive.New(o)
	require.NoError(t, err)
	return l
}

// script is an algorithm that wants what it is told, and keeps the samples.
type script struct {
	mu      sync.Mutex
	next    func(s adaptive.Sample) float64
	samples []adaptive.Sample
	running bool
	overlap bool
}

func (a *script) Next(s adaptive.Sample) float64 {
	a.mu.Lock()
	a.samples = append(a.samples, s)
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
	return next(s)
}

func (a *script) take() []adaptive.Sample {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.samples
	a.samples = nil
	return all
}

// keep returns a script that returns want always.
func wants(want float64) *script {
	return &script{next: func(adaptive.Sample) float64 { return want }}
}

func TestConcurrencyKeepsTheRules(t *testing.T) {
	for name, o := range map[string]adaptive.Options{
		"no queue":     {Name: "adaptive"},
		"oldest first": {QueueLimit: 8},
		"newest first": {QueueLimit: 8, QueueOrder: core.NewestFirst},
		"vegas":        {QueueLimit: 3, Algorithm: adaptive.Vegas{}},
		"aimd":         {QueueLimit: 8, Algorithm: adaptive.AIMD{}},
		"unbounded":    {QueueLimit: math.MaxInt, Algorithm: wants(math.NaN())},
	} {
		t.Run(name, func(t *testing.T) {
			o.Min, o.Max = 5, 5
			limitertest.Run(t, limitertest.Config{New: func() core.Limiter { return newConcurrency(t, o) }, Limit: 5})
		})
	}
	t.Run("limit of one", func(t *testing.T) {
		o := adaptive.Options{Max: 1, QueueLimit: 4}
		limitertest.Run(t, limitertest.Config{New: func() core.Limiter { return newConcurrency(t, o) }, Limit: 1})
	})
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
	a, b := l.TryAcquire(2), l.TryAcquire(1)
	a.Release()
	b.Release()
	assert.Len(t, made.take(), 2)
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

func TestSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := wants(math.NaN())
		l := newConcurrency(t, adaptive.Options{Name: "x", Initial: 10, Algorithm: a})
		time.Sleep(time.Minute)
		first, second, third := l.TryAcquire(3), l.TryAcquire(2), l.TryAcquire(1)
		l.TryAcquire(0).Release() // a probe is no sample
		time.Sleep(time.Second)
		first.Release()
		first.Release()
		l.Drop(first)
		at := time.Now()
		assert.Equal(t, []adaptive.Sample{{Limit: 10, InFlight: 6, Duration: time.Second, At: at}}, a.take())
		l.Ignore(second)
		l.Refund(third)
		assert.Empty(t, a.take())
		assert.Equal(t, core.Statistics{Limit: 10, Available: 10, Granted: 4}, l.Statistics())

		l.Drop(l.TryAcquire(1))
		assert.Equal(t, []adaptive.Sample{{Limit: 10, InFlight: 1, Dropped: true, At: at}}, a.take())
		assert.Equal(t, 9, l.Limit())
		l.Drop(newConcurrency(t, adaptive.Options{}).TryAcquire(1))
		l.Drop(core.Lease{})
		l.Ignore(core.Grant(1, nil))
		assert.Empty(t, a.take())
		assert.Equal(t, `adaptive concurrency limiter "x": 9 of 9 available, 0 queued, 5 granted, 0 rejected`, l.String())
	})
}

// A chain that unwinds teaches nothing.
func TestChainUnwinds(t *testing.T) {
	a := wants(math.NaN())
	l := newConcurrency(t, adaptive.Options{Algorithm: a})
	full, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1})
	require.NoError(t, err)
	defer full.TryAcquire(1).Release()
	c, err := core.Chain(l, full)
	require.NoError(t, err)
	require.False(t, c.TryAcquire(1).Acquired())
	assert.Empty(t, a.take())
	assert.Equal(t, 20, l.Available())
}

func TestWhatAnAlgorithmMayWant(t *testing.T) {
	for name, c := range map[string]struct {
		want     float64
		limit    int // after
		inFlight int
		dropped  bool
	}{
		"the same":            {want: 10, limit: 10, inFlight: 10},
		"a fraction":          {want: 7.9, limit: 7, inFlight: 10},
		"nothing":             {want: math.NaN(), limit: 10, inFlight: 10},
		"a lot":               {want: 1e300, limit: 50, inFlight: 10},
		"infinity":            {want: math.Inf(1), limit: 50, inFlight: 10},
		"less than nothing":   {want: -1, limit: 2, inFlight: 10},
		"less than anything":  {want: math.Inf(-1), limit: 2, inFlight: 10},
		"more at half":        {want: 20, limit: 20, inFlight: 5},
		"more below half":     {want: 20, limit: 10, inFlight: 4},
		"less below half":     {want: 3, limit: 3, inFlight: 1},
		"a drop, more":        {want: 20, limit: 9, inFlight: 10, dropped: true},
		"a drop, nothing":     {want: math.NaN(), limit: 9, inFlight: 10, dropped: true},
		"a drop, much less":   {want: 4, limit: 4, inFlight: 10, dropped: true},
		"a drop, nearly same": {want: 9.9, limit: 9, inFlight: 1, dropped: true},
	} {
		t.Run(name, func(t *testing.T) {
			var changes [][2]int
			l := newConcurrency(t, adaptive.Options{
				Min: 2, Max: 50, Initial: 10, Algorithm: wants(c.want),
				OnChange: func(old, limit int) { changes = append(changes, [2]int{old, limit}) },
			})
			lease := l.TryAcquire(c.inFlight)
			if c.dropped {
				l.Drop(lease)
			} else {
				lease.Release()
			}
			assert.Equal(t, c.limit, l.Limit())
			assert.Equal(t, core.Statistics{Limit: c.limit, Available: c.limit, Granted: 1}, l.Statistics())
			if c.limit == 10 {
				assert.Empty(t, changes)
			} else {
				assert.Equal(t, [][2]int{{10, c.limit}}, changes)
			}
		})
	}
}

func TestDropsStopAtMin(t *testing.T) {
	l := newConcurrency(t, adaptive.Options{Min: 3, Initial: 5, Algorithm: wants(1000)})
	for range 5 {
		l.Drop(l.TryAcquire(3))
	}
	assert.Equal(t, 3, l.Limit())
}

// More than the limit in force waits until the limit has grown, or is rejected.
func TestMoreThanTheLimitInForceWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConcurrency(t, adaptive.Options{Max: 10, Initial: 4, QueueLimit: 8, Algorithm: wants(8)})
		require.ErrorIs(t, l.TryAcquire(6).Err(), core.ErrRejected)
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

// Samples that come while Next runs wait for it; none is lost, drops least of all.
func TestSamplesWaitForNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 50
		goOn := make(chan struct{})
		a := &script{next: func(adaptive.Sample) float64 { <-goOn; return math.NaN() }}
		l := newConcurrency(t, adaptive.Options{Max: 200, Initial: 200, Algorithm: a})
		leases := make([]core.Lease, 2*many)
		for i := range leases {
			leases[i] = l.TryAcquire(1)
		}
		go leases[0].Release()
		synctest.Wait()
		for i, lease := range leases[1:] {
			if i%2 == 0 {
				l.Drop(lease) // none of these waits
			} else {
				lease.Release()
			}
		}
		assert.Equal(t, 200, l.Limit())
		close(goOn)
		synctest.Wait()
		assert.Len(t, a.take(), 2*many)
		assert.False(t, a.overlap)
		assert.Equal(t, 200-many, l.Limit())
	})
}

func TestAFullQueueOfSamplesKeepsDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const successes, drops = 1<<16 + 100, 30
		goOn := make(chan struct{})
		a := &script{next: func(adaptive.Sample) float64 { <-goOn; return math.NaN() }}
		l := newConcurrency(t, adaptive.Options{Max: 100, Initial: 100, Algorithm: a})
		go l.TryAcquire(1).Release()
		synctest.Wait()
		for range successes {
			l.TryAcquire(1).Release()
		}
		for range drops {
			l.Drop(l.TryAcquire(1))
		}
		close(goOn)
		synctest.Wait()
		assert.Len(t, a.take(), 1+1<<16+drops)
		assert.Equal(t, 100-drops, l.Limit())
	})
}

// A panic goes to the one that releases; what it held is back, and the limiter goes on.
func TestNextPanics(t *testing.T) {
	a := &script{next: func(adaptive.Sample) float64 { panic("boom") }}
	l := newConcurrency(t, adaptive.Options{Initial: 10, Algorithm: a})
	assert.PanicsWithValue(t, "boom", func() { l.TryAcquire(4).Release() })
	assert.Equal(t, 10, l.Available())
	assert.PanicsWithValue(t, "boom", func() { l.Drop(l.TryAcquire(4)) })
	assert.Equal(t, 9, l.Limit(), "a drop shrinks the limit, whatever Next does")
	a.next = func(adaptive.Sample) float64 { runtime.Goexit(); return 0 }
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.TryAcquire(1).Release()
	}()
	<-done
	a.next = func(adaptive.Sample) float64 { return 5 }
	l.TryAcquire(1).Release()
	assert.Equal(t, 5, l.Limit())
}

// If Next panics while samples wait, they are learned from before the panic goes on.
func TestNextPanicsWhileSamplesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		n := 0
		a := &script{next: func(adaptive.Sample) float64 {
			<-goOn
			n++
			if n%2 == 1 {
				panic(n)
			}
			return math.NaN()
		}}
		l := newConcurrency(t, adaptive.Options{Initial: 20, Algorithm: a})
		panicked := make(chan any, 1)
		go func() {
			defer func() { panicked <- recover() }()
			l.Drop(l.TryAcquire(1))
		}()
		synctest.Wait()
		for range 5 {
			l.Drop(l.TryAcquire(1))
		}
		close(goOn)
		assert.NotNil(t, <-panicked)
		assert.Len(t, a.take(), 6)
		assert.Equal(t, 14, l.Limit())
	})
}

// If Next panics each time, the first of all panics goes on, and however many samples wait the
// stack does not grow.
func TestNextAlwaysPanics(t *testing.T) {
	for name, fail := range map[string]func(n int){
		"panic":  func(n int) { panic(n) },
		"Goexit": func(int) { runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const samples = 300
				goOn := make(chan struct{})
				n, deepest := 0, 0
				pcs := make([]uintptr, 100*samples)
				a := &script{next: func(adaptive.Sample) float64 {
					<-goOn
					n++
					deepest = max(deepest, runtime.Callers(0, pcs))
					fail(n)
					return 0
				}}
				l := newConcurrency(t, adaptive.Options{Initial: 2 * samples, Algorithm: a})
				panicked := make(chan any, 1)
				go func() {
					defer func() { panicked <- recover() }()
					l.Drop(l.TryAcquire(1))
				}()
				synctest.Wait()
				for range samples - 1 {
					l.Drop(l.TryAcquire(1))
				}
				close(goOn)
				first := <-panicked
				assert.Equal(t, samples, n)
				assert.Equal(t, samples, l.Limit())
				if name == "panic" {
					assert.Equal(t, 1, first)
					assert.Less(t, deepest, samples/3)
				}
				a.next = func(adaptive.Sample) float64 { return 5 }
				l.TryAcquire(samples).Release()
				assert.Equal(t, 5, l.Limit(), "it is learned on")
			})
		})
	}
}

// Next and OnChange may use the limiter: no lock is held.
func TestCallbacksMayUseTheLimiter(t *testing.T) {
	var l *adaptive.Concurrency
	depth := 0
	a := &script{}
	a.next = func(s adaptive.Sample) float64 {
		depth++
		if depth < 4 {
			l.TryAcquire(1).Release() // is learned from after this one
		}
		return float64(l.Limit() + 1)
	}
	var changes []int
	l = newConcurrency(t, adaptive.Options{Initial: 2, Algorithm: a, OnChange: func(_, limit int) {
		assert.Equal(t, limit, l.Limit())
		assert.Equal(t, limit, l.Statistics().Limit)
		changes = append(changes, limit)
	}})
	lease := l.TryAcquire(2)
	lease.Release()
	assert.Len(t, a.take(), 4)
	assert.False(t, a.overlap)
	assert.Equal(t, l.Limit(), changes[len(changes)-1])
}

func TestLearningGoesOnAfterClose(t *testing.T) {
	l := newConcurrency(t, adaptive.Options{Initial: 9, Algorithm: wants(5)})
	lease := l.TryAcquire(9)
	require.NoError(t, l.Close())
	lease.Release()
	assert.Equal(t, 5, l.Statistics().Limit)
	assert.Equal(t, core.ErrClosed, l.TryAcquire(1).Err())
}

func TestNothingAllocates(t *testing.T) {
	if raceDetector {
		t.Skip("allocations can't be counted under the race detector")
	}
	for name, a := range map[string]adaptive.Algorithm{"gradient": adaptive.Gradient{}, "vegas": adaptive.Vegas{}, "aimd": adaptive.AIMD{}} {
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

// However releases, drops and cancellations fall: all permits are back, never was more out
// than the most, each drop counted, and Next was never entered twice.
func TestStressConcurrency(t *testing.T) {
	const goroutines, turns, most = 8, 800, 40
	var mu sync.Mutex
	last, broken := 20, 0
	a := &script{}
	n := 0
	a.next = func(s adaptive.Sample) float64 {
		n++
		if s.InFlight > most || s.InFlight < 1 || s.Limit < 2 || s.Limit > most {
			broken++
		}
		return float64(2 + n*7%most)
	}
	l := newConcurrency(t, adaptive.Options{Min: 2, Max: most, QueueLimit: goroutines, Algorithm: a, OnChange: func(old, limit int) {
		mu.Lock()
		defer mu.Unlock()
		if old != last {
			broken++
		}
		last = limit
	}})
	var wg sync.WaitGroup
	var samples sync.Map
	for g := range goroutines {
		wg.Go(func() {
			count := 0
			for i := range turns {
				ctx, cancel := context.WithCancel(t.Context())
				if (g+i)%6 == 0 {
					go cancel()
				}
				lease, err := l.Acquire(ctx, 1+i%2)
				cancel()
				switch {
				case err == nil && i%5 == 0:
					l.Drop(lease)
					count++
				case err == nil && i%5 == 1:
					l.Ignore(lease)
				case err == nil:
					lease.Release()
					count++
				case !errors.Is(err, context.Canceled) && !errors.Is(err, core.ErrRejected):
					t.Error(err)
				}
			}
			samples.Store(g, count)
		})
	}
	wg.Wait()
	want := 0
	samples.Range(func(_, n any) bool { want += n.(int); return true })
	assert.Len(t, a.take(), want)
	assert.False(t, a.overlap)
	assert.Zero(t, broken)
	st := l.Statistics()
	assert.Equal(t, l.Limit(), st.Limit)
	assert.Equal(t, last, st.Limit)
	assert.Equal(t, st.Limit, st.Available)
	assert.Zero(t, st.Queued)
}
