package adaptive_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/internal/bound"
)

// Whatever the samples are: the algorithms want a number, and a limit within bounds goes on
// being one.
func FuzzAlgorithms(f *testing.F) {
	f.Add(uint64(1), uint8(0), int64(time.Millisecond))
	f.Add(uint64(2), uint8(1), int64(0))
	f.Add(uint64(3), uint8(2), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, seed uint64, kind uint8, longest int64) {
		r := rand.New(rand.NewPCG(seed, 0))
		a := []interface{ New() adaptive.Algorithm }{adaptive.Gradient{}, adaptive.Vegas{}, adaptive.AIMD{}}[kind%3].New()
		most := []int{1 + r.IntN(300), 1 + r.IntN(300), math.MaxInt}[r.IntN(3)]
		limit := 1 + r.IntN(most)
		if r.IntN(4) == 0 {
			limit = most
		}
		at := time.Unix(0, 0)
		for range 5000 {
			d := time.Duration(r.Int64N(max(longest, 1)))
			at = at.Add(time.Microsecond)
			s := adaptive.Sample{Limit: limit, InFlight: 1 + r.IntN(limit), Duration: d, Dropped: r.IntN(200) == 0, At: at}
			if r.IntN(500) == 0 {
				s.Limit = 1 + r.IntN(most) // somebody else moved it
				limit = s.Limit
			}
			want := a.Next(s)
			if math.IsNaN(want) || want < 0 {
				t.Fatalf("%+v: %v", s, want)
			}
			limit = bound.Next(limit, 1, most, s.InFlight, s.Dropped, want)
		}
	})
}

// Configurations are algorithms themselves, as the interface wants; they keep nothing.
func TestConfigurationsAreAlgorithms(t *testing.T) {
	s := adaptive.Sample{Limit: 10, InFlight: 10, Duration: time.Millisecond, At: time.Unix(1, 0)}
	for _, a := range []adaptive.Algorithm{adaptive.Gradient{}, adaptive.Vegas{}, adaptive.AIMD{}} {
		assert.InDelta(t, 10, a.Next(s), 1)
	}
}

func TestAIMD(t *testing.T) {
	a := adaptive.AIMD{Timeout: time.Second, Backoff: 0.5}.New()
	at := time.Unix(100, 0)
	next := func(limit int, d time.Duration, dropped bool) float64 {
		at = at.Add(time.Millisecond)
		return a.Next(adaptive.Sample{Limit: limit, InFlight: limit, Duration: d, Dropped: dropped, At: at})
	}
	for range 9 {
		assert.InDelta(t, 10, next(10, time.Millisecond, false), 1e-9)
	}
	assert.InDelta(t, 11, next(10, time.Millisecond, false), 1e-9, "one more, after as many as the limit")
	assert.InDelta(t, 10, next(10, time.Second, false), 1e-9, "in time")
	assert.InDelta(t, 5, next(10, time.Second+1, false), 1e-9, "late is as good as dropped")
	assert.InDelta(t, 5, next(5, time.Second+1, false), 1e-9, "it was under way when the limit was cut")
	at = at.Add(time.Minute)
	assert.InDelta(t, 2.5, next(5, 0, true), 1e-9)
}

// The limiter itself, with goroutines, before a server of so many slots.
func TestConcurrencyFindsTheCapacity(t *testing.T) {
	if raceDetector {
		t.Skip("slow; TestStressConcurrency is for races")
	}
	const c, clients = 100, 400
	for _, f := range finders {
		for _, initial := range []int{20, 1000} {
			t.Run(fmt.Sprintf("%T from %d", f, initial), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newConcurrency(t, adaptive.Options{Initial: initial, QueueLimit: clients, Algorithm: f.(adaptive.Algorithm)})
					slots := make(chan struct{}, c)
					ctx := t.Context()
					end := time.Now().Add(5 * time.Second) // at 10,000 a second: 500 samples per slot
					for i := range clients {
						r := rand.New(rand.NewPCG(uint64(i), 7))
						go func() {
							for time.Now().Before(end) {
								lease, err := l.Acquire(ctx, 1)
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
					// The limit dips while the latency without load is probed: what it is on the
					// whole in the last second counts, not at one instant.
					const looks = 1000
					time.Sleep(time.Until(end) - time.Second)
					sum := 0
					for range looks {
						sum += l.Limit()
						time.Sleep(time.Second / looks)
					}
					assert.InDelta(t, c, float64(sum)/looks, 0.2*c)
					synctest.Wait()
					time.Sleep(time.Second)
					require.Equal(t, l.Limit(), l.Available())
				})
			})
		}
	}
}

func Example() {
	l, err := adaptive.New(adaptive.Options{Name: "orders", QueueLimit: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
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

func work() error { return nil }
