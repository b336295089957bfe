package partition_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
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

// All of 16 partitions are looked at, wherever the idle one is.
func TestRoomIsFoundAmongSixteen(t *testing.T) {
	for idle := range 16 {
		k := newKeyed(t, options{MaxPartitions: 16})
		for i := range 16 {
			l := takes(t, k, strconv.Itoa(i), 1)
			if i == idle {
				l.Release()
			}
		}
		takes(t, k, "new", 1)
	}
}

func TestOverflow(t *testing.T) {
	overflow := semaphore("overflow", 2)
	k := newKeyed(t, options{MaxPartitions: 1, Overflow: overflow})
	takes(t, k, "a", 1)
	name, _ := core.LimiterName.From(takes(t, k, "b", 1))
	require.Equal(t, "overflow", name)
	_, err := k.Acquire(t.Context(), "c", 1)
	require.NoError(t, err)
	refused(t, k, "d", 1, core.ErrRejected)
	require.Equal(t, partition.Counts{Live: 1, Created: 1, Overflowed: 3}, k.Counts())
}

// A lease of Overflow is settled and refunded by Overflow, even if its key has a partition by then. Without Settle and
// Refund it is released.
func TestOverflowKeepsItsLeases(t *testing.T) {
	for _, settles := range []bool{true, false} {
		overflow := semaphore("overflow", 5)
		k := newKeyed(t, options{MaxPartitions: 1, Overflow: overflow})
		if !settles {
			k = newKeyed(t, options{MaxPartitions: 1, Overflow: bare{overflow}})
		}
		a := takes(t, k, "a", 1)
		b, again := takes(t, k, "b", 3), takes(t, k, "b", 1)
		a.Release()
		own := takes(t, k, "b", 1)
		b = k.Settle("b", b, 4)
		require.Equal(t, settles, overflow.Available() == 0)
		k.Refund("b", b)
		again.Release()
		require.Equal(t, 5, overflow.Available())
		refused(t, k, "b", 1, core.ErrRejected) // the partition's own lease is still out
		k.Refund("b", own)
		takes(t, k, "b", 1)
	}
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
		overflow := semaphore("overflow", 1)
		fakes := map[string]*fake{}
		told := false
		k := newKeyed(t, options{
			MaxPartitions: 4, Overflow: overflow,
			OnEvict: func(string, core.Limiter) { told = true },
			New: func(key string) (core.Limiter, error) {
				switch key {
				case "fake1", "fake2":
					f := newFake(busy)
					f.onClose = func() error { return context.DeadlineExceeded }
					fakes[key] = f
					return f, nil
				case "bare":
					return bare{semaphore(key, 1)}, nil
				}
				return semaphore(key, 1), nil
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
		require.Equal(t, 2, overflow.Statistics().Queued)

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

		// Leases still release, and Overflow is open.
		own.Release()
		foreign.Release()
		require.Zero(t, overflow.Statistics().Queued)
		k.Refund("over", over)
		require.Equal(t, 1, overflow.Available())
		require.True(t, overflow.TryAcquire(1).Acquired())
	})
}

// A grant of Overflow at the instant of Close is refunded, because Close wins.
func TestCloseWinsOverAGrantOfOverflow(t *testing.T) {
	var k *keyed
	f := newFake(busy)
	released := 0
	f.acquire = func(context.Context, int) (core.Lease, error) {
		require.NoError(t, k.Close())
		return core.Grant(1, func() { released++ }), nil
	}
	k = newKeyed(t, options{MaxPartitions: 1, Overflow: f})
	takes(t, k, "a", 1)
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
