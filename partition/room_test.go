package partition_test

import (
	"context"
	"errors"
	"math"
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
)

func TestNoRoom(t *testing.T) {
	for _, name := range []string{"api", ""} {
		k := newKeyed(t, options{Name: name, MaxPartitions: 2})
		takes(t, k, "a", 1)
		takes(t, k, "b", 1)
		for _, l := range []core.Lease{k.TryAcquire("c", 3), func() core.Lease { l, _ := k.Acquire(t.Context(), "c", 3); return l }()} {
			var rejected *core.RejectedError
			require.ErrorAs(t, l.Err(), &rejected)
			require.Equal(t, &core.RejectedError{Limiter: name, Permits: 3, Reason: "partition limit reached"}, rejected)
			require.ErrorIs(t, l.Err(), core.ErrRejected)
			require.ErrorIs(t, l.Err(), partition.ErrFull)
			reason, _ := core.ReasonPhrase.From(l)
			require.Equal(t, "partition limit reached", reason)
			limiter, ok := core.LimiterName.From(l)
			require.Equal(t, name, limiter)
			require.Equal(t, name != "", ok)
		}
		require.Equal(t, partition.Counts{Live: 2, Created: 2, Overflowed: 2}, k.Counts())
		require.NotErrorIs(t, k.TryAcquire("a", 1).Err(), partition.ErrFull)
	}
}

// A new key drops a partition that is idle now, whatever IdleTimeout says; at least 16 are
// looked at.
func TestRoomIsMade(t *testing.T) {
	for _, n := range []int{1, 2, 16} {
		k := newKeyed(t, options{MaxPartitions: n, IdleTimeout: time.Hour})
		for i := range n - 1 {
			takes(t, k, "held"+strconv.Itoa(i), 1)
		}
		for i := range 100 {
			takes(t, k, strconv.Itoa(i), 1).Release()
			require.Equal(t, n, k.Len())
		}
		require.Equal(t, partition.Counts{Live: n, Created: uint64(n + 99), Dropped: 99}, k.Counts())
	}
}

// TestAFloodFindsRoom: requests for new keys wait for a slow OnEvict instead of being rejected, however many come, and OnEvict
// is called for all that were dropped.
func TestAFloodFindsRoom(t *testing.T) {
	for name, limiter := range map[string]func() core.Limiter{
		"ours":   func() core.Limiter { return semaphore("", 1) },
		"theirs": func() core.Limiter { return newFake(0) },
	} {
		testkit.Bubble(t, name, func(t *testing.T) {
			const workers, keys = 8, 300
			told := 0
			k := newKeyed(t, options{
				MaxPartitions: 2 * workers,
				New:           func(string) (core.Limiter, error) { return limiter(), nil },
				OnEvict: func(string, core.Limiter) {
					time.Sleep(time.Millisecond)
					told++
				},
			})
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					for i := range keys {
						l, err := k.Acquire(t.Context(), strconv.Itoa(w*keys+i), 1)
						if err != nil {
							t.Error(err)
						}
						l.Release()
					}
				})
			}
			wg.Wait()
			require.NoError(t, k.Close())
			c := k.Counts()
			require.Zero(t, c.Overflowed)
			require.Equal(t, c.Dropped, uint64(told))
		})
	}
}

// The place of a partition that is dropped to make room belongs to the request that dropped it, even if another one comes
// while OnEvict runs.
func TestRoomIsNotStolen(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		hold := make(chan struct{})
		k := newKeyed(t, options{MaxPartitions: 1, OnEvict: func(string, core.Limiter) { <-hold }})
		takes(t, k, "a", 1).Release()
		var got core.Lease
		go func() { got = k.TryAcquire("b", 1) }()
		synctest.Wait()
		refused(t, k, "c", 1, partition.ErrFull)
		close(hold)
		synctest.Wait()
		require.True(t, got.Acquired())
		require.Equal(t, map[string]bool{"b": true}, live(k))
	})
}

// TestARequestLooksAtFewLimiters counts them, among many that are not idle, by what a request may have to do.
func TestARequestLooksAtFewLimiters(t *testing.T) {
	const live = 20_000
	looks := 0
	k := newKeyed(t, options{MaxPartitions: live, New: func(string) (core.Limiter, error) {
		return askingIdler{newFake(busy), func() { looks++ }}, nil
	}})
	for i := range live {
		takes(t, k, strconv.Itoa(i), 1)
	}
	most, sum := 0, 0
	for i := range 2 * live {
		looks = 0
		key, limit := strconv.Itoa(i), 16 // sweeps: 16 at most
		if i >= live {
			limit += 2 + 16 // and for a new key 2 more, and room among 16
		}
		k.TryAcquire(key, 1)
		require.LessOrEqual(t, looks, limit, i)
		most = max(most, looks)
		sum += looks
	}
	require.GreaterOrEqual(t, most, 18)
	require.LessOrEqual(t, sum, live+live*20, "a live key asks for half a look on average, a new one for 18 and a half")
}

// Keys for which there is no room share the limiter of their group.
func TestGroup(t *testing.T) {
	k := newKeyed(t, options{
		MaxPartitions: 1,
		New:           func(key string) (core.Limiter, error) { return semaphore("limiter of "+key, 2), nil },
		Group:         func(key string) string { return key[:1] },
	})
	takes(t, k, "a", 1)
	b := takes(t, k, "b1", 1)
	name, _ := core.LimiterName.From(b)
	require.Equal(t, "limiter of b", name)
	_, err := k.Acquire(t.Context(), "b2", 1)
	require.NoError(t, err)
	refused(t, k, "b3", 1, core.ErrRejected)
	require.NotErrorIs(t, k.TryAcquire("b3", 1).Err(), partition.ErrFull)
	takes(t, k, "c1", 1)
	require.Equal(t, partition.Counts{Live: 1, Groups: 2, Created: 3, Overflowed: 5}, k.Counts())
	b.Refund()
	takes(t, k, "b3", 1)

	// No key names a group's limiter.
	_, ok := k.Get("b")
	require.False(t, ok)
	takes(t, k, "c", 1)
	refused(t, k, "c", 1, core.ErrRejected)
	_, ok = k.Statistics("c1")
	require.False(t, ok)
	require.Equal(t, map[string]bool{"a": true, "b": true, "c": true}, live(k), "All has groups")
	require.Equal(t, 1, k.Len())
	require.Equal(t, "partitions: 1 live, 2 groups, 3 created, 0 dropped, 8 overflowed", k.String())
}

// Overflowed counts a request once, when it finds no room, whoever decides it then: a group, or nobody.
func TestOverflowedCountsRequestsOnce(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		broken := errors.New("broken")
		k := newKeyed(t, options{
			MaxPartitions: 1,
			New: func(key string) (core.Limiter, error) {
				if key == "broken" {
					return nil, broken
				}
				return semaphore("", 1), nil
			},
			Group: func(key string) string { return key },
		})
		overflowed := func(want uint64) {
			t.Helper()
			require.Equal(t, want, k.Counts().Overflowed)
		}
		held := takes(t, k, "a", 1)
		refused(t, k, "broken", 1, broken) // its group has no limiter
		overflowed(1)
		group := takes(t, k, "b", 1)
		overflowed(2)

		go func() {
			l, err := k.Acquire(t.Context(), "b", 1)
			if err != nil {
				t.Error(err)
			}
			l.Release()
		}()
		synctest.Wait()
		overflowed(3)
		group.Release()
		held.Release()
		synctest.Wait()
		overflowed(3)
	})
}

// Groups that are idle are dropped like partitions, but not to make room.
func TestGroupsAreDropped(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		told := map[string]int{}
		k := newKeyed(t, options{MaxPartitions: 1, Group: self, OnEvict: func(key string, _ core.Limiter) { told[key]++ }})
		takes(t, k, "a", 1)
		takes(t, k, "b", 1).Release()
		takes(t, k, "c", 1)
		see(t, k)
		time.Sleep(time.Minute)
		require.Equal(t, 1, k.Sweep())
		require.Equal(t, map[string]int{"b": 1}, told)
		require.Equal(t, partition.Counts{Live: 1, Groups: 1, Created: 3, Dropped: 1, Overflowed: 2}, k.Counts())
		takes(t, k, "b", 1)
	})
}

// There are at most 65,536 groups.
func TestTooManyGroups(t *testing.T) {
	k := must(partition.New(partition.Options[int, int]{
		Key: func(i int) int { return i }, Group: func(i int) int { return i }, MaxPartitions: 1,
		New: func(int) (core.Limiter, error) { return newFake(busy), nil },
	}))
	for i := range 1 + 65_536 {
		require.NoError(t, k.TryAcquire(i, 1).Err())
	}
	require.ErrorIs(t, k.TryAcquire(-1, 1).Err(), partition.ErrFull)
	require.NoError(t, k.TryAcquire(1, 1).Err())
	require.Equal(t, 65_536, k.Counts().Groups)
}

func TestGroupThatDoesNotEqualItself(t *testing.T) {
	k := must(partition.New(partition.Options[float64, float64]{
		Key: func(f float64) float64 { return f }, Group: func(float64) float64 { return math.NaN() }, MaxPartitions: 1,
		New: func(float64) (core.Limiter, error) { return semaphore("", 1), nil },
	}))
	k.TryAcquire(1, 1)
	require.ErrorContains(t, k.TryAcquire(2, 1).Err(), "does not equal itself")
}

// A partition that is being created counts for MaxPartitions, but is not live.
func TestRoomOfAPartitionThatIsBeingCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t, options{MaxPartitions: 1, New: func(key string) (core.Limiter, error) {
			<-time.NewTimer(time.Second).C
			return semaphore(key, 1), nil
		}})
		go k.TryAcquire("a", 1)
		synctest.Wait()
		refused(t, k, "b", 1, core.ErrRejected)
		require.Equal(t, partition.Counts{Overflowed: 1}, k.Counts())
		<-time.NewTimer(time.Second).C
		synctest.Wait()
		require.Equal(t, 1, k.Len())
	})
}

// A panic of OnEvict while room is made takes no room.
func TestRoomAfterAPanic(t *testing.T) {
	odd := true
	k := newKeyed(t, options{MaxPartitions: 1, OnEvict: func(string, core.Limiter) {
		if odd {
			panic("odd")
		}
	}})
	takes(t, k, "a", 1).Release()
	require.Panics(t, func() { k.TryAcquire("b", 1) })
	require.Zero(t, k.Len())
	odd = false
	takes(t, k, "c", 1).Release()
	takes(t, k, "d", 1)
	refused(t, k, "e", 1, core.ErrRejected)
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes := map[string]*fake{}
		var made []*core.ConcurrencyLimiter
		told := false
		k := newKeyed(t, options{
			MaxPartitions: 4, Group: func(string) string { return "group" },
			OnEvict: func(string, core.Limiter) { told = true },
			New: func(key string) (core.Limiter, error) {
				switch key {
				case "fake1", "fake2":
					f := newFake(busy)
					f.onClose = func() error { return context.DeadlineExceeded }
					fakes[key] = f
					return f, nil
				}
				l := semaphore(key, 1)
				made = append(made, l)
				if key == "bare" {
					return bare{l}, nil
				}
				return l, nil
			},
		})
		takes(t, k, "fake1", 1)
		takes(t, k, "fake2", 1)
		own := takes(t, k, "own", 1)
		foreign := takes(t, k, "bare", 1)
		over := takes(t, k, "over", 1)
		var ended atomic.Int64
		for _, key := range []string{"own", "bare", "over", "over2"} {
			go func() {
				l, err := k.Acquire(t.Context(), key, 1)
				if err != core.ErrClosed || l.Err() != core.ErrClosed { //nolint:errorlint // unchanged
					t.Errorf("%s: %v, %v", key, err, l.Err())
				}
				ended.Add(1)
			}()
		}
		synctest.Wait()
		require.ErrorIs(t, k.Close(), context.DeadlineExceeded)
		synctest.Wait()
		require.Equal(t, int64(4), ended.Load())
		require.NoError(t, k.Close(), "the second does nothing")
		for _, f := range fakes {
			require.Equal(t, int32(1), f.closed.Load())
		}
		require.False(t, told)
		require.Zero(t, k.Len())
		require.Zero(t, k.Sweep())
		_, ok := k.Get("own")
		require.False(t, ok)
		refused(t, k, "own", 1, core.ErrClosed)
		refused(t, k, "over", 1, core.ErrClosed)

		for _, l := range []core.Lease{own, foreign, over} {
			l.Release()
		}
		for _, l := range made {
			require.Equal(t, 1, l.Available(), "leases still release")
			require.Zero(t, l.Statistics().Queued)
		}
	})
}

// A grant at the instant of Close is refunded, because Close wins.
func TestCloseWinsOverAGrant(t *testing.T) {
	var k *keyed
	f := newFake(busy)
	released := 0
	f.acquire = func(context.Context, int) (core.Lease, error) {
		require.NoError(t, k.Close())
		return core.Grant(1, func() { released++ }), nil
	}
	k = newKeyed(t, options{New: func(string) (core.Limiter, error) { return bare{f}, nil }})
	_, err := k.Acquire(t.Context(), "b", 1)
	require.ErrorIs(t, err, core.ErrClosed)
	require.Equal(t, 1, released)
}

// If Close is called while New runs, the request that called New and those that wait get ErrClosed, and
// the limiter is closed.
func TestCloseWhileNewRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(busy)
		k := newKeyed(t, options{New: func(string) (core.Limiter, error) {
			<-time.NewTimer(time.Second).C
			return f, nil
		}})
		for range 3 {
			go func() {
				if err := k.TryAcquire("a", 1).Err(); err != core.ErrClosed { //nolint:errorlint // unchanged
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		require.NoError(t, k.Close())
		<-time.NewTimer(2 * time.Second).C
		require.Equal(t, int32(1), f.closed.Load())
		require.Equal(t, partition.Counts{}, k.Counts())
	})
}
