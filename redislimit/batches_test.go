package redislimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// joining is a store that has takes of many keys travel together. Those who ask alone can be held,
// so that the others meet.
type joining struct {
	redislimit.Store

	batches redislimit.Batches
	mu      sync.Mutex
	hold    chan struct{} // not nil: calls of one key wait until it is closed
	asked   []int         // how many keys each call had
	answer  func(keys []string, got []int64) ([]int64, error)
}

func (j *joining) Batches() *redislimit.Batches { return &j.batches }

func (*joining) Prompt() bool { return true }

func (j *joining) Run(ctx context.Context, s *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	j.mu.Lock()
	j.asked = append(j.asked, len(keys))
	hold, answer := j.hold, j.answer
	j.mu.Unlock()
	if hold != nil && len(keys) == 1 {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	got, err := j.Store.Run(ctx, s, keys, args...)
	if answer != nil && err == nil {
		return answer(keys, got)
	}
	return got, err
}

// meet has takes meet while two calls of others are under way: all are decided at one instant. It
// returns how many keys each call had since.
func (j *joining) meet(t *testing.T, others []core.Limiter, takes ...func()) (asked []int) {
	t.Helper()
	synctest.Wait() // whoever ran the last batch has gone: the others do not meet in the next
	j.mu.Lock()
	j.hold = make(chan struct{})
	j.mu.Unlock()
	var wg sync.WaitGroup
	for _, l := range others {
		wg.Go(func() { l.TryAcquire(1) })
	}
	synctest.Wait()
	for _, take := range takes {
		wg.Go(take)
	}
	synctest.Wait()
	j.mu.Lock()
	close(j.hold)
	j.hold, j.asked = nil, nil
	j.mu.Unlock()
	wg.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.asked)
}

// together has a bubble with such a store, and two limiters that keep it busy.
func together(t *testing.T, test func(t *testing.T, s *server, j *joining, busy []core.Limiter)) {
	t.Helper()
	bubble(t, func(t *testing.T, s *server) {
		j := &joining{Store: s.plain}
		var busy []core.Limiter
		for i := range 2 {
			busy = append(busy, bucket(t, j.shared(fmt.Sprint("busy", i)), core.PerSecond(1000, 1_000_000)))
		}
		test(t, s, j, busy)
	})
}

func (j *joining) shared(key string) redislimit.Shared {
	return redislimit.Shared{Store: j, Key: key, Ahead: 1}
}

// What takes of many keys that travel together get is what core's limiters say, at the same instant.
func TestBatchesDecideAsCore(t *testing.T) {
	for seed := range 20 {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			together(t, func(t *testing.T, _ *server, j *joining, busy []core.Limiter) {
				random := rand.New(rand.NewPCG(uint64(seed), 7))
				all := make([]*twins, 8)
				for i := range all {
					all[i] = twinsOf(t, "bucket", random, j.shared(fmt.Sprint("key", i)))
				}
				most := 0
				for range 60 {
					w := all[random.IntN(len(all))]
					w.step()
					var takes []func()
					var same []func()
					for _, w := range all {
						w.settle()
						n := 1 + random.IntN(w.limit)
						w.say("TryAcquire(%d) with others", n)
						var remote core.Lease
						takes = append(takes, func() { remote = w.remote.TryAcquire(n) })
						same = append(same, func() { w.same(w.local.TryAcquire(n), remote, time.Now()) })
					}
					for _, n := range j.meet(t, busy, takes...) {
						most = max(most, n)
					}
					for i, check := range same {
						check()
						all[i].settle()
					}
				}
				require.Greater(t, most, 2, "they travelled together")
				for _, w := range all {
					w.end()
				}
			})
		})
	}
}

// A key that is of another kind, or that the server fails for, fails its own takes only.
func TestAPoisonedKeyInABatch(t *testing.T) {
	together(t, func(t *testing.T, s *server, j *joining, busy []core.Limiter) {
		o := core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}
		all, leases := make([]core.Limiter, 5), make([]core.Lease, 5)
		var takes []func()
		for i := range all {
			all[i] = bucket(t, j.shared(fmt.Sprint("key", i)), o)
			takes = append(takes, func() { leases[i] = all[i].TryAcquire(2) })
		}
		require.NoError(t, fixed(t, s.shared("key1"), core.FixedWindowOptions{PermitLimit: 5, Window: time.Hour}).TryAcquire(1).Err())
		_, err := s.redis.Lpush("{key2}:limit", "a list")
		require.NoError(t, err)
		full := errors.New("OOM command not allowed")
		j.answer = func(keys []string, got []int64) ([]int64, error) {
			for i, k := range keys {
				switch {
				case k != "{key3}:limit":
				case len(keys) == 1:
					return nil, full
				default:
					got[2+4*i] = -1
				}
			}
			return got, nil
		}
		require.Contains(t, j.meet(t, busy, takes...), 5)
		require.NoError(t, leases[0].Err())
		require.ErrorContains(t, leases[1].Err(), "holds a fixed window, want a token bucket")
		require.NotErrorIs(t, leases[1].Err(), redislimit.ErrStore)
		require.ErrorContains(t, leases[2].Err(), "holds something else, want a token bucket")
		require.ErrorIs(t, leases[3].Err(), full)
		require.ErrorIs(t, leases[3].Err(), redislimit.ErrStore)
		require.NoError(t, leases[4].Err())
		for _, i := range []int{0, 4} {
			require.Equal(t, 3, all[i].(interface{ Available() int }).Available())
		}
	})
}

// Two limiters of one key, as of two processes, share it also if both are asked at the same time.
func TestAKeyTwiceInABatch(t *testing.T) {
	together(t, func(t *testing.T, _ *server, j *joining, busy []core.Limiter) {
		var granted atomic.Int64
		var takes []func()
		for i := range 6 {
			l := bucket(t, j.shared(fmt.Sprint("key", i/2)), core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
			takes = append(takes, func() {
				if l.TryAcquire(3).Acquired() {
					granted.Add(1)
				}
			})
		}
		require.Contains(t, j.meet(t, busy, takes...), 3)
		require.Equal(t, int64(3), granted.Load())
	})
}

// A server that does not take such keys together is asked for each alone, from then on.
func TestAServerThatTakesNoBatches(t *testing.T) {
	together(t, func(t *testing.T, _ *server, j *joining, busy []core.Limiter) {
		var takes []func()
		for i := range 4 {
			l := bucket(t, j.shared(fmt.Sprint("key", i)), perSecond)
			takes = append(takes, func() {
				if err := l.TryAcquire(1).Err(); err != nil {
					t.Error(err)
				}
			})
		}
		j.answer = func(keys []string, got []int64) ([]int64, error) {
			if len(keys) > 1 {
				return nil, errors.New("CROSSSLOT Keys in request don't hash to the same slot")
			}
			return got, nil
		}
		require.Contains(t, j.meet(t, busy, takes...), 4)
		require.NotContains(t, j.meet(t, busy, takes...), 4)
	})
}

// A batch that fails, or is answered with nonsense, is a failure of the store for each in it.
func TestABatchThatFails(t *testing.T) {
	together(t, func(t *testing.T, _ *server, j *joining, busy []core.Limiter) {
		for _, answer := range []func([]int64) ([]int64, error){
			func([]int64) ([]int64, error) { return nil, errors.New("connection reset") },
			func(got []int64) ([]int64, error) { return got[1:], nil },
			func(got []int64) ([]int64, error) {
				for i := range got[2:] {
					got[2+i] = 1 << 60
				}
				return got, nil
			},
		} {
			j.answer = func(keys []string, got []int64) ([]int64, error) {
				if len(keys) > 1 {
					return answer(got)
				}
				return got, nil
			}
			var takes []func()
			for i := range 4 {
				l := bucket(t, j.shared(fmt.Sprint("key", i)), perSecond)
				takes = append(takes, func() {
					if err := l.TryAcquire(1).Err(); !errors.Is(err, redislimit.ErrStore) {
						t.Error(err)
					}
				})
			}
			require.Equal(t, 4, slices.Max(j.meet(t, busy, takes...)))
		}
	})
}

// Whoever's Budget is over while a batch is on its way is decided by Down, at once, and the others
// later.
func TestABudgetEndsInABatch(t *testing.T) {
	together(t, func(t *testing.T, _ *server, j *joining, busy []core.Limiter) {
		start := time.Now()
		j.answer = func(keys []string, got []int64) ([]int64, error) {
			if len(keys) > 1 {
				time.Sleep(20 * time.Millisecond)
			}
			return got, nil
		}
		var takes []func()
		for i, budget := range []time.Duration{3 * time.Millisecond, 50 * time.Millisecond, 7 * time.Millisecond} {
			o := j.shared(fmt.Sprint("key", i))
			o.Budget = budget
			l := bucket(t, o, perSecond)
			takes = append(takes, func() {
				err := l.TryAcquire(1).Err()
				if late := budget < 20*time.Millisecond; errors.Is(err, redislimit.ErrStore) != late || time.Since(start) != min(budget, 20*time.Millisecond) {
					t.Errorf("Budget %v: %v after %v", budget, err, time.Since(start))
				}
				time.Sleep(time.Until(start.Add(time.Second)))
				if l.TryAcquire(1).Err() != nil {
					t.Error("what is used again")
				}
			})
		}
		j.meet(t, busy, takes...)
	})
}

// Limiters of many keys, several of each, take all at once: exactly the limit is granted.
func TestStressBatches(t *testing.T) {
	const keys, processes, limit, callers = 20, 3, 40, 32
	s := serve(t)
	j := &joining{Store: s.plain}
	all := make([][]*redislimit.TokenBucket, keys)
	for k := range all {
		for range processes {
			o := j.shared(fmt.Sprint("key", k))
			o.Budget = time.Minute
			all[k] = append(all[k], bucket(t, o, core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}))
		}
	}
	var granted [keys]atomic.Int64
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range 2 * limit * keys / callers {
				k := (i*7 + c) % keys
				if l := all[k][(i+c)%processes]; l.TryAcquire(1).Acquired() {
					granted[k].Add(1)
				}
			}
		})
	}
	wg.Wait()
	for k := range granted {
		require.Equal(t, int64(limit), granted[k].Load()+int64(all[k][0].Available()))
	}
}
