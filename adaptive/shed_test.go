package adaptive_test

import (
	"context"
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
	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/limitertest"
)

// gauge is a sensor that reads what it is told to.
type gauge struct {
	mu    sync.Mutex
	value float64
	reads int
	do    func() // on each reading
}

func (g *gauge) set(v float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.value = v
}

func (g *gauge) then(do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.do = do
}

func (g *gauge) read() float64 {
	g.mu.Lock()
	g.reads++
	v, do := g.value, g.do
	g.mu.Unlock()
	if do != nil {
		do()
	}
	return v
}

func (g *gauge) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reads
}

// shedAt returns a Shed that sheds at 0.9, and its gauge, which reads nothing.
func shedAt(t *testing.T, o adaptive.ShedOptions) (*adaptive.Shed, *gauge) {
	t.Helper()
	g := new(gauge)
	o.Probe = g.read
	if o.Threshold == 0 {
		o.Threshold = 0.9
	}
	return core.Must(adaptive.NewShed(o)), g
}

func TestShedKeepsTheRules(t *testing.T) {
	for name, o := range map[string]adaptive.ShedOptions{
		"no queue":     {Name: "shed"},
		"oldest first": {QueueLimit: 5},
		"newest first": {QueueLimit: 5, QueueOrder: core.NewestFirst},
		"fair share":   {QueueLimit: 5, QueueOrder: core.FairShare},
		"unbounded":    {QueueLimit: math.MaxInt},
	} {
		t.Run(name, func(t *testing.T) {
			var gauges sync.Map
			limitertest.Run(t, limitertest.Config{
				New: func() core.Limiter {
					s, g := shedAt(t, o)
					gauges.Store(s, g)
					return s
				},
				Done:  func(l core.Limiter) { gauges.Delete(l) },
				Limit: math.MaxInt, QueueLimit: o.QueueLimit, QueueOrder: o.QueueOrder,
				Gate: func(l core.Limiter, open bool) {
					found, _ := gauges.Load(l)
					g := found.(*gauge)
					g.set(1)
					if open {
						g.set(0)
					}
					before := g.count()
					time.Sleep(100 * time.Millisecond)
					synctest.Wait()
					if g.count() == before { // no timer has read it: no request waits
						ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // t is of another bubble
						g.then(cancel)
						_, _ = l.Acquire(ctx, 1)
						g.then(nil)
					}
				},
			})
		})
	}
}

func TestShedReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := shedAt(t, adaptive.ShedOptions{ResumeBelow: 0.5, Interval: time.Second})
		granted := func(want bool, reads int) {
			t.Helper()
			assert.Equal(t, want, s.TryAcquire(1).Acquired())
			assert.Equal(t, reads, g.count())
		}
		g.set(0.9)
		assert.Equal(t, math.MaxInt, s.Available())
		assert.Equal(t, core.Statistics{Limit: math.MaxInt, Available: math.MaxInt}, s.Statistics())
		assert.Zero(t, g.count(), "neither NewShed nor these read")
		granted(false, 1) // at or above
		assert.Zero(t, s.Available())
		g.set(0.1)
		time.Sleep(time.Second - 1)
		granted(false, 1)
		time.Sleep(1)
		granted(true, 2) // as old is stale
		assert.Equal(t, math.MaxInt, s.Available())
		for _, step := range []struct {
			value float64
			want  bool
		}{{0.89, true}, {math.Inf(1), false}, {0.89, false}, {math.NaN(), false}, {0.5, false}, {0.49, true}, {math.NaN(), true}, {0.9, false}, {math.Inf(-1), true}} {
			g.set(step.value)
			time.Sleep(time.Second)
			granted(step.want, g.count()+1)
		}
		g.set(1)
		time.Sleep(time.Hour)
		assert.Equal(t, math.MaxInt, s.Available(), "an idle one reads nothing")
	})
}

func TestShedFirstReadingNaN(t *testing.T) {
	s, g := shedAt(t, adaptive.ShedOptions{Interval: time.Hour})
	g.set(math.NaN())
	assert.True(t, s.TryAcquire(1).Acquired())
	assert.True(t, s.TryAcquire(1).Acquired())
	assert.Equal(t, 1, g.count())
}

// The first callers wait for the first reading; later ones go by the old one.
func TestShedOneReadsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := shedAt(t, adaptive.ShedOptions{})
		g.then(func() { time.Sleep(time.Second) })
		g.set(1)
		var granted, rejected atomic.Int32
		ask := func() {
			if s.TryAcquire(1).Acquired() {
				granted.Add(1)
			} else {
				rejected.Add(1)
			}
		}
		for range 3 {
			go ask()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := s.Acquire(ctx, 1)
		assert.Equal(t, context.DeadlineExceeded, err, "a wait for the first reading ends with the context")
		assert.Equal(t, time.Millisecond, time.Since(start))
		synctest.Wait()
		assert.Zero(t, rejected.Load())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.EqualValues(t, 3, rejected.Load())
		assert.Equal(t, 1, g.count())

		g.set(0)
		time.Sleep(time.Second)
		go ask() // reads
		synctest.Wait()
		ask() // by the old reading, immediately
		assert.EqualValues(t, 4, rejected.Load())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.EqualValues(t, 1, granted.Load())
		assert.Equal(t, 2, g.count())
	})
}

func TestShedCloseDuringTheFirstReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := shedAt(t, adaptive.ShedOptions{})
		g.then(func() { time.Sleep(time.Second) })
		errs := make(chan error, 2)
		go func() { errs <- s.TryAcquire(1).Err() }()
		synctest.Wait()
		go func() { errs <- s.TryAcquire(1).Err() }()
		synctest.Wait()
		require.NoError(t, s.Close())
		start := time.Now()
		assert.Equal(t, core.ErrClosed, <-errs)
		assert.Zero(t, time.Since(start))
		assert.Equal(t, core.ErrClosed, <-errs)
		assert.Equal(t, core.ErrClosed, s.TryAcquire(1).Err())
		assert.Equal(t, 1, g.count())
	})
}

func TestShedTimerReadsWhileARequestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := shedAt(t, adaptive.ShedOptions{QueueLimit: 10, Interval: time.Second})
		g.set(1)
		var served atomic.Int32
		wait := func(ctx context.Context, n int) {
			if _, err := s.Acquire(ctx, n); err == nil {
				served.Add(1)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		go wait(ctx, 3)
		go wait(t.Context(), 4)
		go wait(t.Context(), 0)
		synctest.Wait()
		time.Sleep(2500 * time.Millisecond)
		assert.Equal(t, 3, g.count())
		cancel()
		synctest.Wait()
		assert.Equal(t, core.Statistics{Limit: math.MaxInt, Queued: 4}, s.Statistics())
		g.set(0)
		time.Sleep(499 * time.Millisecond)
		assert.Zero(t, served.Load())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		assert.EqualValues(t, 2, served.Load())
		assert.Equal(t, core.Statistics{Limit: math.MaxInt, Available: math.MaxInt, Granted: 2}, s.Statistics())
		time.Sleep(time.Minute)
		assert.Equal(t, 4, g.count(), "no timer continues")
	})
}

// A panic of the sensor goes to a caller, and breaks no other call.
func TestShedProbePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := shedAt(t, adaptive.ShedOptions{QueueLimit: 10})
		boom := func() { panic("boom") }
		g.then(boom)
		assert.PanicsWithValue(t, "boom", func() { s.TryAcquire(1) })
		assert.PanicsWithValue(t, "boom", func() { _, _ = s.Acquire(t.Context(), 1) })
		g.then(func() { g.then(nil); runtime.Goexit() })
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.TryAcquire(1)
		}()
		<-ended
		g.set(1)
		require.ErrorIs(t, s.TryAcquire(1).Err(), core.ErrRejected)
	})
}

// A Shed of one bubble works in another, where the clock is elsewhere.
func TestShedInAnotherBubble(t *testing.T) {
	s, g := shedAt(t, adaptive.ShedOptions{QueueLimit: 1, Interval: time.Hour})
	require.True(t, s.TryAcquire(1).Acquired())
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Minute)
			g.set(1)
			time.Sleep(time.Hour)
			require.False(t, s.TryAcquire(1).Acquired())
			time.AfterFunc(time.Minute, func() { g.set(0) })
			start := time.Now()
			_, err := s.Acquire(t.Context(), 1)
			require.NoError(t, err)
			assert.Equal(t, time.Hour, time.Since(start))
		})
	}
}

func TestShedRejections(t *testing.T) {
	s, g := shedAt(t, adaptive.ShedOptions{Name: "cpu", Interval: time.Hour})
	g.set(1)
	l := s.TryAcquire(3)
	var r *core.RejectedError
	require.ErrorAs(t, l.Err(), &r)
	assert.Equal(t, &core.RejectedError{Limiter: "cpu", Permits: 3, Reason: "permits exhausted"}, r)
	l, err := s.Acquire(t.Context(), 2)
	require.ErrorAs(t, err, &r)
	assert.Equal(t, &core.RejectedError{Limiter: "cpu", Permits: 2, Reason: "queue limit reached"}, r)
	name, _ := core.LimiterName.From(l)
	assert.Equal(t, "cpu", name)
	assert.Contains(t, s.String(), `shed "cpu": 0 of`)
}

func TestBadShedOptions(t *testing.T) {
	_, err := adaptive.NewShed(adaptive.ShedOptions{ResumeBelow: -1, Interval: -1, QueueLimit: -1, QueueOrder: 9})
	for _, want := range []string{
		"adaptive: ShedOptions.Probe = nil, want a function", "ShedOptions.Threshold = 0, want above 0", "ShedOptions.ResumeBelow = -1",
		"ShedOptions.Interval = -1ns", "ShedOptions.QueueLimit = -1, want at least 0", "ShedOptions.QueueOrder",
	} {
		assert.ErrorContains(t, err, want)
	}
	for _, o := range []adaptive.ShedOptions{{Threshold: math.NaN()}, {Threshold: 1, ResumeBelow: 1.1}, {Threshold: 1, ResumeBelow: math.NaN()}} {
		o.Probe = func() float64 { return 0 }
		_, err := adaptive.NewShed(o)
		assert.Error(t, err)
	}
	var zero adaptive.Shed
	assert.Equal(t, core.ErrClosed, zero.TryAcquire(1).Err())
	_, err = zero.Acquire(t.Context(), 1)
	assert.Equal(t, core.ErrClosed, err)
	assert.NoError(t, zero.Close())
}

// Whatever the reading does meanwhile: each request ends one way, and all are counted.
func TestStressShed(t *testing.T) {
	const goroutines, turns = 8, 500
	var reads, overlaps, inProbe atomic.Int64
	s := core.Must(adaptive.NewShed(adaptive.ShedOptions{
		Threshold: 1, Interval: 20 * time.Microsecond, QueueLimit: 3, QueueOrder: core.NewestFirst,
		Probe: func() float64 {
			if inProbe.Add(1) > 1 {
				overlaps.Add(1)
			}
			runtime.Gosched()
			inProbe.Add(-1)
			return float64(reads.Add(1) / 3 % 2)
		},
	}))
	granted, rejected := stress(t, s, goroutines, turns, func(int, core.Lease) {})
	assert.Zero(t, overlaps.Load())
	st := s.Statistics()
	assert.Equal(t, []uint64{granted, rejected, 0}, []uint64{st.Granted, st.Rejected, uint64(st.Queued)})
	require.NoError(t, s.Close())
}

// refusing is a limiter of a user's that embeds one of this package's.
type refusing struct{ *adaptive.Shed }

func (refusing) Acquire(context.Context, int) (core.Lease, error) {
	return core.Reject(), core.ErrRejected
}

// Primitives wait for a Shed whatever its QueueLimit is. A type that embeds one is asked by its own Acquire.
func TestShedHasPrimitivesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := shedAt(t, adaptive.ShedOptions{})
		g.set(1)
		_, err := s.Acquire(t.Context(), 1)
		require.ErrorIs(t, err, core.ErrRejected)
		c := core.Must(channel.New(channel.Options[int]{Limiter: s}))
		sent := make(chan error, 1)
		go func() { sent <- c.Send(t.Context(), 7) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, sent)
		g.set(0)
		require.NoError(t, <-sent)
		g.set(1)
		time.Sleep(time.Minute)
		c, err = channel.New(channel.Options[int]{Limiter: refusing{s}})
		require.NoError(t, err)
		require.ErrorIs(t, c.Send(t.Context(), 7), core.ErrRejected)
		require.NoError(t, s.Close())
	})
}
