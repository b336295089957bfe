package core_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

// switchQueue starts n requests for one permit, one after another, and returns the order of their grants.
func switchQueue(t *testing.T, s *core.Switch, first, n int) chan int {
	t.Helper()
	granted := make(chan int, 2*n)
	for i := range n {
		go func() {
			if _, err := s.Acquire(context.Background(), 1); err == nil { //nolint:usetesting // ends with its permits
				granted <- first + i
			}
		}()
		synctest.Wait()
	}
	return granted
}

func TestSwitchPaused(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		s := core.NewSwitch(core.Paused())
		l := s.TryAcquire(math.MaxInt)
		require.ErrorIs(t, l.Err(), core.ErrRejected)
		require.NotErrorIs(t, l.Err(), core.ErrPermitsExceedLimit)
		_, ok := core.RetryAfter.From(l)
		require.False(t, ok)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Acquire(ctx, 1)
		require.Equal(t, context.DeadlineExceeded, err)
		granted := switchQueue(t, s, 0, 3)
		require.Equal(t, core.Statistics{Queued: 3, Rejected: 1}, s.Statistics())
		s.Set(concurrency(t, 1, 0))
		<-granted
		synctest.Wait()
		require.Equal(t, 2, s.Statistics().Queued, "above QueueLimit")
		_, err = s.Acquire(t.Context(), 1)
		require.ErrorIs(t, err, core.ErrRejected, "QueueLimit is 0")
		s.Set(nil)
		<-granted
		<-granted
		require.Equal(t, core.Statistics{Limit: math.MaxInt, Available: math.MaxInt, Granted: 3, Rejected: 2}, s.Statistics())
	})
	testkit.Bubble(t, "the sum of what waits does not overflow", func(t *testing.T) {
		s := core.NewSwitch(core.Paused())
		for range 3 {
			go func() { _, _ = s.Acquire(t.Context(), math.MaxInt) }()
		}
		synctest.Wait()
		require.Equal(t, math.MaxInt, s.Statistics().Queued)
		require.NoError(t, s.Close())
		synctest.Wait()
		require.Zero(t, s.Statistics().Queued)
	})
}

// A Paused from outside a bubble does not stop the bubble's clock, and one from a bubble works outside.
func TestPausedOfAnotherBubble(t *testing.T) {
	use := func(t *testing.T, s *core.Switch) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := s.Acquire(ctx, 1)
		require.Equal(t, context.DeadlineExceeded, err)
	}
	s := core.NewSwitch(core.Paused())
	testkit.Bubble(t, "", func(t *testing.T) { use(t, s) })
	testkit.Bubble(t, "", func(*testing.T) { s = core.NewSwitch(core.Paused()) })
	use(t, s)
	require.NoError(t, s.Close())
}

// Waiters move, however deep the limiter is in which they wait, and wait in the new one whatever its QueueLimit is.
func TestSwitchMovesItsWaiters(t *testing.T) {
	for name, over := range map[string]func(core.Limiter) core.Limiter{
		"itself":          func(l core.Limiter) core.Limiter { return l },
		"bare":            func(l core.Limiter) core.Limiter { return bareLimiter{l} },
		"switch":          func(l core.Limiter) core.Limiter { return core.NewSwitch(core.NewSwitch(l)) },
		"chain of a view": func(l core.Limiter) core.Limiter { return core.Must(core.Chain(core.WithReason(l, "slow"))) },
		"chain of a chain": func(l core.Limiter) core.Limiter {
			return core.Must(core.Chain(core.Must(core.Chain(l)), core.Unlimited()))
		},
		"switch of a chain's view": func(l core.Limiter) core.Limiter {
			return core.NewSwitch(core.WithReason(core.Must(core.Chain(core.NewSwitch(l))), "slow"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range 2 {
				testkit.Bubble(t, "", func(t *testing.T) {
					old := concurrency(t, 1, 100)
					wrap := [2]func(core.Limiter) core.Limiter{over, over}
					wrap[i] = func(l core.Limiter) core.Limiter { return l }
					if name == "bare" { // limiters of somebody else are asked by their Acquire, with their QueueLimit
						wrap = [2]func(core.Limiter) core.Limiter{over, wrap[i]}
					}
					s := core.NewSwitch(wrap[0](old))
					held := takes(t, s, 1)
					granted := switchQueue(t, s, 0, 8)
					require.Equal(t, 8, old.Statistics().Queued)
					l := bucket(t, core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second})
					takes(t, l, 1)
					s.Set(wrap[1](l))
					synctest.Wait()
					require.Zero(t, old.Statistics().Queued)
					require.Equal(t, 8, l.Statistics().Queued)
					require.False(t, s.TryAcquire(1).Acquired(), "the moved come first")
					start, seen := time.Now(), map[int]bool{}
					for range 8 {
						seen[<-granted] = true
					}
					require.Equal(t, 8*time.Second, time.Since(start))
					require.Len(t, seen, 8)
					held.Release()
					counts(t, old, 1, 1, 0, 1, 0) // nothing was granted twice
				})
			}
		})
	}
}

func TestBlocked(t *testing.T) {
	b := core.Blocked()
	_, err := b.Acquire(t.Context(), 1)
	require.EqualError(t, err, "core: rejected 1 permit: blocked")
	require.Equal(t, core.ErrNegativePermits, b.TryAcquire(-1).Err())
	require.ErrorIs(t, b.TryAcquire(0).Err(), core.ErrRejected)
	require.Zero(t, b.Available())
	require.Equal(t, core.Statistics{Rejected: 2}, b.(core.Reporter).Statistics())
	require.NoError(t, b.(interface{ Close() error }).Close())
	require.Equal(t, core.ErrClosed, b.TryAcquire(1).Err())
}

// A lease belongs to the limiter that granted it.
func TestSwitchLeases(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		a, b, c := concurrency(t, 10, 0), bucket(t, core.Every(time.Hour, 10)), concurrency(t, 10, 0)
		chain := core.Must(core.Chain(c))
		s := core.NewSwitch(a)
		la := s.TryAcquire(5)
		s.Set(b)
		lb := s.TryAcquire(5)
		s.Set(chain)
		lc := s.TryAcquire(5)
		for name := range lc.Metadata() {
			require.NotEmpty(t, name)
			require.NotContains(t, name, "\x00")
		}
		s.Set(core.NewSwitch(core.Must(core.Chain(concurrency(t, 10, 0)))))
		ld := s.TryAcquire(5)
		s.Set(core.Blocked())
		la = la.Settle(2)
		lb = lb.Settle(2)
		lc = lc.Settle(2)
		ld = ld.Settle(2)
		require.Equal(t, 2, la.Permits()+ld.Permits()-lb.Permits())
		require.Equal(t, []int{8, 8, 8}, []int{a.Available(), b.Available(), c.Available()})
		la.Refund()
		lb.Refund()
		lc.Refund()
		ld.Refund()
		require.Equal(t, []int{10, 10, 10}, []int{a.Available(), b.Available(), c.Available()})
	})
}

// Waiters that moved are granted as soon as permits are there, and end with their contexts.
func TestSwitchCancelAndClose(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		s := core.NewSwitch(core.Paused())
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 3)
		for range 2 {
			go func() { _, err := s.Acquire(ctx, 1); failed <- err }()
		}
		synctest.Wait()
		l := concurrency(t, 1, 0)
		held := l.TryAcquire(1)
		s.Set(l)
		synctest.Wait()
		require.Equal(t, 2, l.Statistics().Queued)
		cancel()
		require.Equal(t, context.Canceled, <-failed)
		require.Equal(t, context.Canceled, <-failed)
		go func() { _, err := s.Acquire(t.Context(), 2); failed <- err }()
		require.ErrorIs(t, <-failed, core.ErrPermitsExceedLimit)
		held.Release()
		require.NoError(t, s.Close())
		_, err := s.Acquire(t.Context(), 1)
		require.Equal(t, core.ErrClosed, err)
		require.Equal(t, core.ErrClosed, new(core.Switch).TryAcquire(1).Err())
		_, err = new(core.Switch).Acquire(t.Context(), 1)
		require.Equal(t, core.ErrClosed, err)
	})
}

// Like any other Close, that of a Switch lasts.
func TestAClosedSwitchStaysClosed(t *testing.T) {
	first, second := concurrency(t, 1, 0), concurrency(t, 1, 0)
	s := core.NewSwitch(first)
	lease := takes(t, s, 1)
	require.NoError(t, s.Close())
	for _, l := range []core.Limiter{second, core.Unlimited(), nil} {
		s.Set(l)
		require.Same(t, first, s.Limiter())
		refused(t, s, 1, core.ErrClosed)
		_, err := s.Acquire(t.Context(), 1)
		require.Equal(t, core.ErrClosed, err)
	}
	lease.Release()
	available(t, first, 1)
	takes(t, second, 1) // it is not closed
	require.NoError(t, s.Close())
	require.NoError(t, new(core.Switch).Close())
}

// A request that the module's primitives make waits whatever QueueLimit is.
func TestSwitchPassesTheMark(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		l := concurrency(t, 1, 0)
		s := core.NewSwitch(l)
		held := s.TryAcquire(1)
		time.AfterFunc(time.Second, held.Release)
		_, err := waiting(t.Context(), s, 1)
		require.NoError(t, err)
		require.Zero(t, s.Statistics().Rejected)
	})
}

// Limiters are exchanged at random under load: nothing is lost, granted twice or above the limit of the
// limiter that granted it.
func TestSwitchStress(t *testing.T) {
	const workers, limit = 16, 3
	all := make([]*core.ConcurrencyLimiter, 4)
	for i := range all {
		all[i] = concurrency(t, limit+i, workers*(i%2))
	}
	s := core.NewSwitch(all[0])
	var working sync.WaitGroup
	var granted, rejected, out atomic.Int64
	for w := range workers {
		working.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for range testkit.Rounds(1_000) {
				ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // ends below
				if random.IntN(4) == 0 {
					time.AfterFunc(time.Duration(random.IntN(100))*time.Microsecond, cancel)
				}
				acquire := s.Acquire
				if random.IntN(2) == 0 {
					acquire = func(ctx context.Context, n int) (core.Lease, error) { return waiting(ctx, s, n) }
				}
				l, err := acquire(ctx, 1+random.IntN(limit))
				switch {
				case errors.Is(err, core.ErrRejected): // half of the limiters have no queue
					rejected.Add(1)
				case err == nil:
					granted.Add(1)
					out.Add(int64(l.Permits()))
					time.Sleep(time.Duration(random.IntN(20)) * time.Microsecond)
					out.Add(-int64(l.Permits()))
					if random.IntN(2) == 0 {
						l.Refund()
					}
					l.Release()
				case err != context.Canceled: //nolint:errorlint // unchanged
					t.Error(err)
				}
				cancel()
			}
		})
	}
	stop := make(chan struct{})
	var setting sync.WaitGroup
	setting.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Microsecond):
				switch l := all[i%len(all)]; i % 5 {
				case 3:
					s.Set(core.Paused())
				case 4:
					s.Set(core.WithReason(l, "busy"))
				default:
					s.Set(l)
				}
			}
		}
	})
	working.Wait()
	close(stop)
	setting.Wait()
	for i, l := range all {
		require.Equal(t, limit+i, l.Available())
		require.Zero(t, l.Statistics().Queued)
	}
	require.Equal(t, uint64(granted.Load()), s.Statistics().Granted)
	require.Equal(t, uint64(rejected.Load()), s.Statistics().Rejected)
}

func TestSwitchReserves(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		l := bucket(t, core.Every(time.Second, 1))
		s := core.NewSwitch(l)
		require.True(t, s.TryAcquire(1).Acquired())
		lease := s.Reserve(1)
		delay, ok := core.Delay.From(lease)
		require.True(t, ok)
		require.Equal(t, time.Second, delay)
		s.Set(concurrency(t, 1, 0))
		require.ErrorContains(t, s.Reserve(1).Err(), "is no Reserver")
		lease.Refund()
		require.Zero(t, l.Statistics().Queued)
		s.Set(core.Blocked())
		require.ErrorIs(t, s.Reserve(1).Err(), core.ErrRejected)
		s.Set(nil)
		require.True(t, s.Reserve(1).Acquired())
		require.Equal(t, core.ErrClosed, new(core.Switch).Reserve(1).Err())
	})
}

// asking is a limiter of another package, whose Acquire is a function.
type asking struct {
	core.Limiter
	acquire func(ctx context.Context, n int) (core.Lease, error)
}

func (a *asking) Acquire(ctx context.Context, n int) (core.Lease, error) { return a.acquire(ctx, n) }

// A limiter whose store has failed puts another in its own place.
func TestSetFromAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *core.Switch
		fallback := concurrency(t, 1, 0)
		s = core.NewSwitch(&asking{core.Paused(), func(context.Context, int) (core.Lease, error) {
			s.Set(fallback)
			return core.Fail(core.ErrClosed), core.ErrClosed
		}})
		acquires(t, s, 1).granted(t)
		acquires(t, s, 1).rejected(t, core.ReasonQueueLimit, 0)
	})
}

// Set does not wait, neither for the requests that move nor for another Set, and nobody waits for a request that its
// limiter does not give back.
func TestSetDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		forever := func() core.Limiter {
			return &asking{core.Paused(), func(context.Context, int) (core.Lease, error) {
				<-stuck
				return core.Lease{}, nil
			}}
		}
		s := core.NewSwitch(forever())
		lost := []*acquire{queues(t, s, 1), queues(t, s, 1)}
		s.Set(forever())
		s.Set(forever())
		lost = append(lost, queues(t, s, 1))
		s.Set(core.Unlimited())
		acquires(t, s, 1).granted(t)
		takes(t, s, 1)
		close(stuck)
		for _, a := range lost {
			a.granted(t)
		}
		require.Equal(t, uint64(5), s.Statistics().Granted)
	})
}

// After a Set under load a limiter that does not look at its context is asked by all callers at once, as before.
func TestThroughputAfterSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func() core.Limiter {
			return &asking{core.Paused(), func(_ context.Context, n int) (core.Lease, error) {
				time.Sleep(10 * time.Millisecond)
				return core.Grant(n, nil), nil
			}}
		}
		s := core.NewSwitch(slow())
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() {
				for ctx.Err() == nil {
					_, _ = s.Acquire(ctx, 1)
				}
			})
		}
		for range 2 {
			time.Sleep(500 * time.Millisecond)
			before := s.Statistics().Granted
			time.Sleep(500 * time.Millisecond)
			require.InDelta(t, 2500, s.Statistics().Granted-before, 100)
			s.Set(slow())
		}
		callers.Wait()
	})
}

// A request that was not waiting in a queue when the limiter was exchanged is bounded by the new one's QueueLimit.
func TestARequestThatHasNotWaitedIsBounded(t *testing.T) {
	for name, acquire := range map[string]func(context.Context, int) (core.Lease, error){
		"looks at ctx": func(ctx context.Context, _ int) (core.Lease, error) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			return core.Reject(), core.Reject().Err()
		},
		"gives up with ctx": func(ctx context.Context, _ int) (core.Lease, error) {
			<-ctx.Done()
			return core.Fail(ctx.Err()), ctx.Err()
		},
		"is granted late": func(context.Context, int) (core.Lease, error) {
			time.Sleep(time.Second)
			return core.Grant(1, nil), nil
		},
		"is closed": func(context.Context, int) (core.Lease, error) {
			time.Sleep(time.Second)
			return core.Fail(core.ErrClosed), core.ErrClosed
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := core.NewSwitch(&asking{core.Paused(), acquire})
				a := queues(t, s, 1)
				full := concurrency(t, 1, 0)
				takes(t, full, 1)
				s.Set(full)
				time.Sleep(time.Second)
				synctest.Wait()
				require.True(t, a.done.Load(), "it waits")
				require.ErrorIs(t, a.err, core.ErrRejected)
			})
		})
	}
}

// A TryAcquire may take what a request that moves needs. That one waits then, whatever the QueueLimit is.
func TestTryAcquireBesideTheMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := core.NewSwitch(core.Paused())
		a, b := queues(t, s, 1), queues(t, s, 1)
		s.Set(concurrency(t, 2, 0))
		took := s.TryAcquire(1)
		synctest.Wait()
		took.Release()
		a.granted(t)
		b.granted(t)
	})
}

// Close is of the Switch, whatever the limiter below does with it.
func TestCloseOfASwitchOverWhatCannotBeClosed(t *testing.T) {
	for name, l := range map[string]core.Limiter{
		"no closer": bareLimiter{core.Unlimited()}, "shadow": core.Shadow(core.Unlimited()), "unlimited": core.Unlimited(),
		"switch": core.NewSwitch(bareLimiter{core.Unlimited()}), "paused": core.Paused(), "waits": bareLimiter{core.Paused()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := core.NewSwitch(l)
				var a *acquire
				if s.Available() == 0 {
					a = queues(t, s, 1)
				}
				require.NoError(t, s.Close())
				if a != nil {
					a.fails(t, core.ErrClosed)
				}
				refused(t, s, 1, core.ErrClosed)
				refused(t, s, -1, core.ErrNegativePermits)
				acquires(t, s, 1).fails(t, core.ErrClosed)
				lease, ok := s.TryQuietly(0)
				require.False(t, ok)
				require.Equal(t, core.ErrClosed, lease.Err())
				require.Equal(t, core.ErrClosed, s.Reserve(1).Err())
				require.Equal(t, core.ErrClosed, s.Apply(core.Every(time.Second, 1)))
				require.NoError(t, s.Close())
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_, err := s.Acquire(ctx, 1)
				require.Equal(t, context.Canceled, err)
			})
		})
	}
}

// A lease is settled by the limiter that granted it, also a former Unlimited.
func TestSwitchSettlesForAFormerUnlimited(t *testing.T) {
	s := core.NewSwitch(nil)
	lease := takes(t, s, 2)
	s.Set(core.Blocked())
	require.Equal(t, 7, lease.Settle(7).Permits())
}

func TestSwitchOfABlockedRejects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for reason, l := range map[string]core.Limiter{
			"blocked": core.Blocked(), "maintenance": core.WithReason(core.Blocked(), "maintenance"),
		} {
			s := core.NewSwitch(core.Paused())
			moved := queues(t, s, 1)
			s.Set(l)
			moved.rejected(t, reason, 0)
			acquires(t, s, 1).rejected(t, reason, 0)
			_, err := waiting(t.Context(), s, 1)
			rejection(t, err, reason, 0)
			require.Equal(t, uint64(3), s.Statistics().Rejected)
		}
		s := core.NewSwitch(core.WithReason(core.Paused(), "night"))
		a := queues(t, s, 1)
		rejection(t, s.TryAcquire(1).Err(), "night", 0)
		s.Set(core.Unlimited())
		a.granted(t)
	})
}

// A nil limiter, also one in an interface, is no limit.
func TestSwitchOfNil(t *testing.T) {
	var none *core.TokenBucket
	for _, l := range []core.Limiter{nil, none} {
		takes(t, core.NewSwitch(l), 1)
		s := core.NewSwitch(core.Blocked())
		s.Set(l)
		takes(t, s, 1)
	}
}

// A grant that comes while the limiter is exchanged is undone, and the request asks the new limiter.
func TestAGrantOfAFormerLimiterDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := bucket(t, core.Every(time.Hour, 5)), bucket(t, core.Every(time.Hour, 5))
		var s *core.Switch
		s = core.NewSwitch(&stranger{Limiter: old, try: func(n int) core.Lease {
			lease := old.TryAcquire(n)
			s.Set(next)
			return lease
		}})
		takes(t, s, 2)
		require.Equal(t, []int{5, 3}, []int{old.Available(), next.Available()})
		counts(t, s, 5, 3, 0, 1, 0)
	})
}

// Limiters, chains of them, Paused and Blocked are exchanged at random under load, while leases are settled, refunded and
// released, some twice: in the end every limiter is full, and none ever had more out than its limit.
func TestSwitchStressOfChains(t *testing.T) {
	const workers, limit = 8, 3
	var slots [4]*core.ConcurrencyLimiter
	var out [len(slots)]atomic.Int64
	counting := make([]core.Limiter, len(slots)) // each knows what its leases hold
	for i := range slots {
		slots[i] = concurrency(t, limit, workers*(i%2))
	}
	hour := bucket(t, core.TokenBucketOptions{TokenLimit: 1 << 30, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
	for i, l := range slots {
		g := settlesAndReleases{func(had, now int) int {
			out[i].Add(int64(now - had))
			return now
		}, func(had int) { out[i].Add(-int64(had)) }}
		try := func(n int) core.Lease {
			if out[i].Add(int64(n)) > limit {
				t.Error("more than the limit is out")
			}
			return core.GrantFrom(g, n)
		}
		counter := &stranger{try: try, acquire: func(_ context.Context, n int) (core.Lease, error) { return try(n), nil }}
		counting[i] = core.Must(core.Chain(l, core.Must(core.Chain(counter)), core.WithReason(hour, "never")))
	}
	s := core.NewSwitch(slots[0])
	var working, setting sync.WaitGroup
	stop := make(chan struct{})
	setting.Go(func() {
		random := rand.New(rand.NewPCG(7, 7))
		for {
			select {
			case <-stop:
				s.Set(core.Unlimited()) // ends the waits in Paused
				return
			default:
			}
			switch i := random.IntN(len(slots)); random.IntN(8) {
			case 0:
				s.Set(core.Paused())
			case 1:
				s.Set(core.Blocked())
			case 2:
				s.Set(core.WithReason(counting[i], "busy"))
			case 3, 4:
				s.Set(slots[i])
			default:
				s.Set(counting[i])
			}
			time.Sleep(time.Duration(random.IntN(60)) * time.Microsecond)
		}
	})
	for w := range workers {
		working.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 3))
			for range testkit.Rounds(1_000) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(400))*time.Microsecond)
				var lease core.Lease
				n := random.IntN(limit + 1)
				switch random.IntN(4) {
				case 0:
					lease = s.TryAcquire(n)
				case 1:
					lease, _ = core.TryQuietly(s, n)
				case 2:
					lease, _ = waiting(ctx, s, n)
				default:
					lease, _ = s.Acquire(ctx, n)
				}
				cancel()
				if !lease.Acquired() {
					continue
				}
				copied := lease
				switch random.IntN(3) {
				case 0:
					lease = lease.Settle(random.IntN(lease.Permits() + 1))
				case 1:
					lease.Refund()
				}
				lease.Release()
				copied.Release()
				lease.Release()
			}
		})
	}
	working.Wait()
	close(stop)
	setting.Wait()
	for i, l := range slots {
		counts(t, l, limit, limit, 0, l.Statistics().Granted, l.Statistics().Rejected)
		require.Zero(t, out[i].Load())
	}
}
