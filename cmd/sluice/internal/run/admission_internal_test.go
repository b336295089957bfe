package run

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/spec"
)

// starter notes when jobs start, in a bubble.
type starter struct {
	t *testing.T
	*admission
	begun time.Time
	all   sync.WaitGroup

	mu sync.Mutex
	at map[string][]time.Duration // by key
}

func starting(t *testing.T, jobs int, perKey string) *starter {
	t.Helper()
	limit, err := parseRate("--rate-per-key", perKey)
	require.NoError(t, err)
	a, err := newAdmission(options{jobs: jobs, rate: spec.Limit{Kind: spec.Unlimited}, perKey: limit})
	require.NoError(t, err)
	return &starter{t: t, admission: a, begun: time.Now(), at: make(map[string][]time.Duration)}
}

// tries starts a job that takes d and fails, as often as it may.
func (s *starter) tries(ctx context.Context, key string, tries int, d time.Duration) {
	s.all.Go(func() {
		for range tries {
			held, err := s.admit(ctx, s.keys.rejoin(key))
			if !assert.NoError(s.t, err) {
				return
			}
			assert.True(s.t, held.key.Acquired(), "a job started without a permit of its key")
			s.note(key)
			time.Sleep(d)
			s.release(held)
		}
	})
}

// note notes that a job has started.
func (s *starter) note(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[key] = append(s.at[key], time.Since(s.begun))
}

// Tries that follow others start at the rate of their key, too.
func TestRetriesKeepTheRateOfTheKey(t *testing.T) {
	for name, jobs := range map[string]int{"many at once": 50, "one at once": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := starting(t, jobs, "10/s")
				for range 30 {
					s.tries(t.Context(), "x", 2, time.Millisecond)
				}
				s.all.Wait()
				require.Len(t, s.at["x"], 60)
				for i, at := range s.at["x"] {
					assert.Equal(t, time.Duration(i)*100*time.Millisecond, at)
				}
			})
		})
	}
}

// A wait for a place does not make the next start of the key come sooner.
func TestTheRateOfAKeyCountsFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := starting(t, 1, "1/s")
		s.tries(t.Context(), "long", 1, 10*time.Second)
		synctest.Wait()
		for range 3 {
			s.tries(t.Context(), "x", 1, 0)
		}
		s.all.Wait()
		assert.Equal(t, []time.Duration{10 * time.Second, 11 * time.Second, 12 * time.Second}, s.at["x"])
	})
}

// A key that has to wait takes no place from others, and jobs of a key keep their order.
func TestKeysDoNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := starting(t, 1, "1/s")
		var order strings.Builder
		for i, key := range []string{"a", "a", "b", "a", "c"} {
			p, err := s.keys.join(t.Context(), key)
			require.NoError(t, err)
			s.all.Go(func() {
				held, err := s.admit(t.Context(), p)
				assert.NoError(t, err)
				if key == "a" {
					order.WriteByte(byte('0' + i))
				}
				s.note(key)
				s.release(held)
			})
		}
		s.all.Wait()
		assert.Equal(t, []time.Duration{0}, s.at["b"])
		assert.Equal(t, []time.Duration{0}, s.at["c"])
		assert.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, s.at["a"])
		assert.Equal(t, "013", order.String())
		assert.Empty(t, s.keys.lines)
		assert.Empty(t, s.keys.room)
	})
}

// Another try comes behind the first in line and earlier tries, and before the jobs that have not started.
func TestOtherTriesComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := starting(t, 0, "1/s")
		order := make(chan string, 5)
		start := func(name string, p *place) {
			s.all.Go(func() {
				_, err := s.admit(t.Context(), p)
				assert.NoError(t, err)
				order <- name
			})
		}
		for _, name := range []string{"a", "b", "c"} {
			p, err := s.keys.join(t.Context(), "x")
			require.NoError(t, err)
			start(name, p)
		}
		synctest.Wait() // a has started, and b waits for a permit
		start("A", s.keys.rejoin("x"))
		start("B", s.keys.rejoin("x"))
		s.all.Wait()
		for _, want := range []string{"a", "b", "A", "B", "c"} {
			assert.Equal(t, want, <-order)
		}
		assert.Equal(t, 4*time.Second, time.Since(s.begun))
		assert.Empty(t, s.keys.lines)
	})
}

// A job that no longer waits leaves its line, wherever it stands.
func TestJobsLeaveTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := starting(t, 0, "1/s")
		ctx, cancel := context.WithCancel(t.Context())
		var places []*place
		for range 4 {
			p, err := s.keys.join(t.Context(), "x")
			require.NoError(t, err)
			places = append(places, p)
		}
		for _, i := range []int{1, 2} {
			s.all.Go(func() {
				_, err := s.admit(ctx, places[i])
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		synctest.Wait()
		cancel()
		s.all.Wait()
		for _, i := range []int{0, 3} {
			_, err := s.admit(t.Context(), places[i])
			require.NoError(t, err)
		}
		assert.Equal(t, time.Second, time.Since(s.begun))
		assert.Empty(t, s.keys.lines)
		assert.Empty(t, s.keys.room)
	})
}

// With a limit on how many jobs of a key run at once, each holds its permit until it ends.
func TestJobsOfAKeyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := starting(t, 0, "concurrency 2")
		for range 4 {
			s.tries(t.Context(), "x", 1, time.Second)
		}
		s.all.Wait()
		assert.Equal(t, []time.Duration{0, 0, time.Second, time.Second}, s.at["x"])
	})
}

// Whatever the jobs do, no more of them run than may, no two have one number, each key keeps its rate from the first start
// to the last, and in the end nothing is held.
func TestAdmissionStress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, keys, each = 7, 5, 40
		s := starting(t, jobs, "20/s burst 3")
		var running, most atomic.Int32
		var numbers [jobs + 1]atomic.Bool
		for i := range keys * each {
			key := string(rune('a' + i%keys))
			p, err := s.keys.join(t.Context(), key)
			require.NoError(t, err)
			s.all.Go(func() {
				for range 1 + i%3 {
					held, err := s.admit(t.Context(), p)
					assert.NoError(t, err)
					n := running.Add(1)
					for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
					}
					assert.False(t, numbers[held.slot].Swap(true))
					s.note(key)
					time.Sleep(time.Duration(i*i%91) * time.Millisecond)
					numbers[held.slot].Store(false)
					running.Add(-1)
					s.release(held)
					p = s.keys.rejoin(key)
				}
				s.keys.leave(p)
			})
		}
		s.all.Wait()
		assert.Equal(t, int32(jobs), most.Load())
		for key, at := range s.at {
			for i := range at {
				assert.GreaterOrEqual(t, at[i], time.Duration(i-2)*50*time.Millisecond, "%s: start %d", key, i)
			}
		}
		assert.Equal(t, jobs, s.jobs.Available())
		assert.NotContains(t, s.taken, true)
		assert.Len(t, s.taken, jobs)
		assert.Empty(t, s.keys.lines)
		assert.Empty(t, s.keys.room)
	})
}

// A delay between starts holds for all jobs.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := newAdmission(options{delay: 200 * time.Millisecond, rate: spec.Limit{Kind: spec.Unlimited}, perKey: spec.Limit{Kind: spec.Unlimited}})
		require.NoError(t, err)
		begun := time.Now()
		for i := range 5 {
			_, err := a.admit(t.Context(), nil)
			require.NoError(t, err)
			assert.Equal(t, time.Duration(i)*200*time.Millisecond, time.Since(begun))
		}
	})
}

// Each job takes the lowest free number.
func TestSlots(t *testing.T) {
	var s slots
	for want := 1; want <= 200; want++ {
		require.Equal(t, want, s.take())
	}
	s.give(70)
	s.give(3)
	require.Equal(t, 3, s.take())
	require.Equal(t, 70, s.take())
	require.Equal(t, 201, s.take())
}
