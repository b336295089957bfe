package adaptive_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/adaptive/sampler"
	"github.com/sluice-go/sluice/internal/testkit"
)

// Whatever the samples are: the algorithms want a number, and a limit within bounds stays
// within them.
func FuzzAlgorithms(f *testing.F) {
	f.Add(uint64(1), uint8(0), int64(time.Millisecond))
	f.Add(uint64(2), uint8(1), int64(0))
	f.Add(uint64(3), uint8(2), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, seed uint64, kind uint8, longest int64) {
		r := rand.New(rand.NewPCG(seed, 0))
		a := []interface{ New() adaptive.Algorithm }{adaptive.Gradient{}, adaptive.AIMD{}}[kind%2].New()
		most := []int{1 + r.IntN(300), 1 + r.IntN(300), math.MaxInt}[r.IntN(3)]
		limit := 1 + r.IntN(most)
		if r.IntN(4) == 0 {
			limit = most
		}
		var collect sampler.Sampler
		at := time.Duration(0)
		for range 20_000 {
			at += time.Microsecond
			inFlight, drops := 1+r.IntN(min(limit, 1000)), 0
			switch held := time.Duration(r.Int64N(max(longest, 1))); {
			case r.IntN(500) == 0:
				drops = 1 + r.IntN(3)
			case !collect.Add(inFlight, at-held, held):
				continue
			}
			if r.IntN(50) == 0 {
				limit = 1 + r.IntN(most) // it was moved in another way
			}
			w := collect.Take(drops)
			want := a.Next(limit, adaptive.Sample(w))
			if math.IsNaN(want) || want < 0 {
				t.Fatalf("%+v: %v", w, want)
			}
			limit = collect.Move(limit, 1, most, want, 0, w, at)
		}
	})
}

// Configurations are algorithms themselves, as the interface wants; they keep nothing.
func TestConfigurationsAreAlgorithms(t *testing.T) {
	w := adaptive.Sample{N: 20, Mean: time.Millisecond, InFlight: 10}
	for _, a := range []adaptive.Algorithm{adaptive.Gradient{}, adaptive.AIMD{}} {
		assert.InDelta(t, 10, a.Next(10, w), 1)
	}
}

func TestAIMD(t *testing.T) {
	a := adaptive.AIMD{Timeout: time.Second, Backoff: 0.5}.New()
	next := func(limit, n, dropped int, mean time.Duration) float64 {
		return a.Next(limit, adaptive.Sample{N: n, Dropped: dropped, Mean: mean, InFlight: float64(limit)})
	}
	for i := range 4 {
		assert.InDelta(t, 80+0.25*float64(i+1), next(80, 20, 0, time.Millisecond), 1e-9)
	}
	assert.InDelta(t, 81.25, next(81, 20, 0, time.Second), 0.01, "in time, and one more after as many as the limit")
	assert.InDelta(t, 82.25, next(81, 1000, 0, time.Millisecond), 0.01, "by one at most")
	assert.InDelta(t, 41, next(82, 19, 1, time.Millisecond), 1e-9, "a drop cuts")
	assert.InDelta(t, 41, next(41, 20, 1, time.Millisecond), 1e-9, "it was in flight when the limit was cut")
	assert.InDelta(t, 41, next(41, 59, 2, time.Millisecond), 1e-9, "so was this")
	assert.InDelta(t, 20.5, next(41, 0, 1, 0), 1e-9, "this was not")
}

// A Gradient is given windows of a server, one after the other, until the reason changes.
func TestReasons(t *testing.T) {
	type step struct {
		mean    time.Duration
		dropped int
		reason  string // the next one
	}
	for name, c := range map[string]struct {
		steps []step
		limit int // at the end; 0: any
	}{
		"a limit that was searched for is searched for after a trial, although requests queue a little": {[]step{
			{ms, 0, "trial"},
			{ms, 0, "trial over"},
			{1200 * time.Microsecond, 0, "growing"},
			{2 * ms, 0, "trial"},
			{ms, 0, "trial over"},
			{1200 * time.Microsecond, 0, "growing"},
		}, 0},
		"a server that is saturated from the start: the next trial is of half of the rest": {[]step{
			{20 * ms, 0, "trial"}, {10 * ms, 0, "queueing"},
		}, 5},
		"a drop lowers the limit and does not end the trial, nor does it spoil the measurement": {[]step{
			{ms, 0, "trial"}, {ms, 1, "dropped"}, {ms, 0, "trial over"}, {ms, 0, "growing"},
		}, 0},
		"growth ends where requests queue": {[]step{
			{ms, 0, "trial"}, {ms, 0, "trial over"}, {ms, 0, "growing"}, {1600 * time.Microsecond, 0, "overloaded"}, {ms, 1, "dropped"},
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, limit := adaptive.Gradient{}.New(), 20
			explain := a.(interface {
				Explain() (reason string, baseline time.Duration)
			}).Explain
			for _, step := range c.steps {
				before, _ := explain()
				reason, baseline := before, time.Duration(0)
				for n := 0; n < 1000 && reason == before; n++ {
					w := adaptive.Sample{N: 20, Dropped: step.dropped, Mean: step.mean, InFlight: float64(limit)}
					limit = int(a.Next(limit, w))
					reason, baseline = explain()
				}
				require.Equal(t, step.reason, reason)
				if reason == "growing" || reason == "overloaded" {
					require.Equal(t, ms, baseline)
				}
			}
			if c.limit > 0 {
				require.Equal(t, c.limit, limit)
			}
		})
	}
}

// The limiter sees how long each lease was held; its algorithm only sees means.
func TestAIMDTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes []adaptive.Change
		l := newConcurrency(t, adaptive.Options{
			Initial: 10, Algorithm: adaptive.AIMD{Timeout: time.Second, Backoff: 0.5},
			OnChange: func(c adaptive.Change) { changes = append(changes, c) },
		})
		release := func(held time.Duration) {
			lease := l.TryAcquire(1)
			time.Sleep(held)
			lease.Release()
		}
		release(time.Second)
		assert.Equal(t, 10, l.Limit())
		release(21 * 365 * 24 * time.Hour)
		assert.Equal(t, 10, l.Limit(), "decades are those of another clock")
		release(time.Second + 1)
		assert.Equal(t, []adaptive.Change{{Old: 10, New: 5, Reason: "dropped"}}, changes)
	})
}

// Work that comes in full rounds ends with few in flight, where the limit must not grow; what
// has grown meanwhile is not forgotten.
func TestAIMDGrowsWithFullRounds(t *testing.T) {
	for _, initial := range []int{10, 20, 200} {
		t.Run(strconv.Itoa(initial), func(t *testing.T) {
			l := newConcurrency(t, adaptive.Options{Initial: initial, Algorithm: adaptive.AIMD{}})
			const rounds = 100
			for range rounds {
				var held []core.Lease
				for lease := l.TryAcquire(1); lease.Acquired(); lease = l.TryAcquire(1) {
					held = append(held, lease)
				}
				core.ReleaseAll(held)
			}
			assert.Greater(t, l.Limit(), initial+rounds*7/10)
			assert.LessOrEqual(t, l.Limit(), initial+rounds)
		})
	}
}

// The limiter itself, with goroutines, before a server of so many slots.
func TestConcurrencyFindsTheCapacity(t *testing.T) {
	if testkit.Race {
		t.Skip("slow; TestStressConcurrency is for races")
	}
	synctest.Test(t, func(t *testing.T) {
		const c, clients = 100, 400
		l := newConcurrency(t, adaptive.Options{QueueLimit: clients})
		slots := make(chan struct{}, c)
		end := time.Now().Add(5 * time.Second) // at 10,000 a second: 500 samples per slot
		for i := range clients {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			go func() {
				for time.Now().Before(end) {
					lease, err := l.Acquire(t.Context(), 1)
					if err != nil {
						t.Error(err)
						return
					}
					slots <- struct{}{}
					time.Sleep(time.Duration(r.ExpFloat64() * float64(10*ms)))
					<-slots
					lease.Release()
				}
			}()
		}
		// The limit is halved during a trial: what it is on the
		// whole in the last second counts, not at one instant.
		const looks = 1000
		time.Sleep(time.Until(end) - time.Second)
		sum := 0
		for range looks {
			sum += l.Limit()
			time.Sleep(time.Second / looks)
		}
		assert.InDelta(t, c, float64(sum)/looks, 0.2*c)
		time.Sleep(time.Second)
		require.Equal(t, l.Limit(), l.Available())
	})
}

func Example() {
	l := core.Must(adaptive.New(adaptive.Options{Name: "orders", QueueLimit: 100}))
	defer l.Close()

	lease := l.TryAcquire(1)
	if !lease.Acquired() {
		fmt.Println(lease.Err())
		return
	}
	defer lease.Release() // success, and how long it took

	if err := work(); err != nil {
		l.Drop(lease) // it timed out downstream: the limit shrinks
	}
	fmt.Println(l.Limit())
	// Output: 20
}

// A health check shows nothing about how long requests take, so its permit is released without a sample.
func ExampleConcurrency_Ignore() {
	l := core.Must(adaptive.New(adaptive.Options{}))
	defer l.Close()
	lease := l.TryAcquire(1)
	l.Ignore(lease) // gives the permit back, without a sample
	fmt.Println(l.Available())
	// Output: 20
}

// steps is an algorithm that moves the limit in tens.
type steps struct{ adaptive.Algorithm }

func (s steps) Next(limit int, w adaptive.Sample) float64 {
	return 10 * math.Ceil(s.Algorithm.Next(limit, w)/10)
}

// An algorithm of your own can use one of this package.
func ExampleAlgorithm() {
	l := core.Must(adaptive.New(adaptive.Options{
		Initial:   50,
		Algorithm: steps{adaptive.AIMD{Timeout: time.Second}.New()},
	}))
	defer l.Close()
	l.Drop(l.TryAcquire(1)) // AIMD says 45, which is 50 in tens; a drop takes at least 1
	fmt.Println(l.Limit())
	// Output: 49
}

func work() error { return nil }
