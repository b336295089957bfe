package channel_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

// A channel without room takes nothing from its limiter, and does not count in it.
func TestAFullChannelLeavesItsLimiterAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := refusing(t, 100)
		c := open(t, channel.Options[int]{Limiter: l, Capacity: 1})
		require.NoError(t, c.Send(t.Context(), 1))
		second := startSend(t.Context(), c, 2)
		second.waits(t)
		require.Equal(t, 99, l.Available())
		for range 1000 {
			refuses(t, c.TrySend(3), channel.ReasonCapacity)
		}
		receives(t, c, 1)
		second.ends(t, nil)
		holds(t, c, 2)
		require.Equal(t, core.Statistics{Limit: 100, Available: 100, Granted: 2}, l.Statistics())
	})
}

// counting counts the calls of a limiter.
type counting struct {
	core.Limiter

	asked atomic.Int32
}

func (c *counting) TryAcquire(n int) core.Lease {
	c.asked.Add(1)
	return c.Limiter.TryAcquire(n)
}

func (c *counting) TryQuietly(n int) (core.Lease, bool) {
	c.asked.Add(1)
	return core.TryQuietly(c.Limiter, n)
}

func (c *counting) Acquire(ctx context.Context, n int) (core.Lease, error) {
	c.asked.Add(1)
	return c.Limiter.Acquire(ctx, n)
}

// A Send that has to wait asks its limiter three times at most, and not while it waits for room.
func TestABlockedSendAsksItsLimiterThreeTimesAtMost(t *testing.T) {
	for name, view := range map[string]func(l core.Limiter) core.Limiter{
		"itself": func(l core.Limiter) core.Limiter { return l },
		"view":   func(l core.Limiter) core.Limiter { return core.WithReason(l, "busy") },
		"switch": func(l core.Limiter) core.Limiter { return core.NewSwitch(l) },
		"chain":  func(l core.Limiter) core.Limiter { return core.Must(core.Chain(core.Unlimited(), l)) },
	} {
		bubble(t, name, func(t *testing.T) {
			l := &counting{Limiter: permits(t, 2)}
			used := l.TryAcquire(1)
			c := open(t, channel.Options[int]{Limiter: view(l), Capacity: 2})
			sends(t, c, 1)
			l.asked.Store(0)
			second := startSend(t.Context(), c, 2)
			second.waits(t)
			used.Release()
			second.ends(t, nil)
			require.LessOrEqual(t, l.asked.Load(), int32(3))
			third := startSend(t.Context(), c, 3)
			l.asked.Store(0)
			third.waits(t)
			require.Zero(t, l.asked.Load(), "there is no room")
			receives(t, c, 1)
			third.ends(t, nil)
			require.LessOrEqual(t, l.asked.Load(), int32(3))
			holds(t, c, 2, 3)
		})
	}
}

// A Send that waits for permits has its place.
func TestASendThatWaitsForPermitsHasItsPlace(t *testing.T) {
	for _, bucket := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var l core.Limiter = refusing(t, 1)
			if bucket {
				l = core.Must(core.NewTokenBucket(core.Every(time.Second, 1)))
			}
			used := l.TryAcquire(1)
			c := open(t, channel.Options[int]{Limiter: l, Capacity: 1})
			first := startSend(t.Context(), c, 1)
			first.waits(t)
			refuses(t, c.TrySend(2), channel.ReasonCapacity)
			second := startSend(t.Context(), c, 2)
			second.waits(t)
			used.Release()
			time.Sleep(time.Second)
			first.ends(t, nil)
			second.waits(t)
			receives(t, c, 1)
			time.Sleep(time.Second)
			second.ends(t, nil)
			holds(t, c, 2)
		})
	}
}

// Sends that have waited for room get in before those that come later, even while they have not run yet.
func TestNobodyOvertakesASendThatWasGivenRoom(t *testing.T) {
	for name, l := range map[string]func() core.Limiter{
		"bucket":      func() core.Limiter { return core.Must(core.NewTokenBucket(core.Every(time.Hour, 3))) },
		"concurrency": func() core.Limiter { return refusing(t, 2) },
		"key of some": func() core.Limiter { return core.WithReason(refusing(t, 2), "busy") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := open(t, channel.Options[int]{Limiter: l(), Capacity: 2})
				sends(t, c, 1, 2)
				third := startSend(t.Context(), c, 3)
				third.waits(t)
				receives(t, c, 1, 2)
				if c.TrySend(4) == nil { // it may be behind the third
					receives(t, c, 3, 4)
				} else {
					third.ends(t, nil)
					receives(t, c, 3)
				}
				require.NoError(t, c.Close())
			})
		})
	}
}

// Senders that wait for room are served in the order that the limiter had when they came.
func TestOrderOfSendersThatChanges(t *testing.T) {
	o := core.ConcurrencyLimiterOptions{PermitLimit: 100}
	for name, through := range map[string]func(l core.Limiter) core.Limiter{
		"limiter": func(l core.Limiter) core.Limiter { return l },
		"switch":  func(l core.Limiter) core.Limiter { return core.NewSwitch(l) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := core.Must(core.NewConcurrencyLimiter(o))
				c := open(t, channel.Options[int]{Limiter: through(l), Capacity: 1})
				sends(t, c, 0)
				wait := func(order core.QueueOrder, values ...int) {
					o.QueueOrder = order
					require.NoError(t, l.Update(o))
					for _, v := range values {
						startSend(t.Context(), c, v).waits(t)
					}
				}
				wait(core.OldestFirst, 1, 2)
				wait(core.NewestFirst, 3, 4)
				wait(core.OldestFirst, 5, 6)
				for _, want := range []int{0, 1, 2, 4, 3, 5, 6} {
					receives(t, c, want)
					synctest.Wait()
				}
			})
		})
	}
}

// Negative costs are reported first, then a done context, then Close, then the limit.
func TestOrderOfErrors(t *testing.T) {
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, mode := range []channel.Overflow{channel.Wait, channel.DropOldest, channel.DropNewest, channel.DropIncoming} {
		c := open(t, channel.Options[int]{Limiter: refusing(t, 10), Cost: itself, Overflow: mode, Capacity: 1})
		sends(t, c, 1)
		for _, closed := range []bool{false, true} {
			above := core.ErrPermitsExceedLimit
			if closed {
				require.NoError(t, c.Close())
				above = channel.ErrClosed
			}
			for name, send := range map[string]func(ctx context.Context, v int) error{
				"Send":      c.Send,
				"SendBatch": func(ctx context.Context, v int) error { _, err := c.SendBatch(ctx, []int{v}); return err },
			} {
				require.Equal(t, core.ErrNegativePermits, send(done, -1), name)
				require.Equal(t, context.Canceled, send(done, 1), name)
				require.Equal(t, context.Canceled, send(done, 11), name)
				require.ErrorIs(t, send(t.Context(), 11), above, name)
			}
			require.Equal(t, core.ErrNegativePermits, c.TrySend(-1))
			require.ErrorIs(t, c.TrySend(11), above)
			require.Equal(t, 1, c.Len(), "nothing is dropped")
		}
	}
}

// What OnDrop dropped before it panicked is reported all the same.
func TestOnDropThatPanicsReportsAll(t *testing.T) {
	var c *channel.LimitedChannel[int]
	var reported []int
	c = open(t, channel.Options[int]{Limiter: refusing(t, 1), Overflow: channel.DropOldest, OnDrop: func(v int) {
		reported = append(reported, v)
		if v == 1 {
			_ = c.TrySend(3) // drops 2
			panic("odd")
		}
	}})
	sends(t, c, 1)
	require.PanicsWithValue(t, "odd", func() { _ = c.TrySend(2) })
	require.Equal(t, []int{1, 2}, reported)
	holds(t, c, 3)
}

// Many senders drop at once, also in OnDrop: it is told of each item once, and of all before the last send returns.
func TestStressOnDropThatPanics(t *testing.T) {
	const senders, each = 4, 5000
	var c *channel.LimitedChannel[int]
	var told, panics atomic.Int64
	seen := make([]atomic.Bool, 2*senders*each)
	c = open(t, channel.Options[int]{Limiter: refusing(t, 1), Overflow: channel.DropOldest, OnDrop: func(v int) {
		if seen[v].Swap(true) {
			t.Error("reported twice")
		}
		told.Add(1)
		switch {
		case v%7 == 0 && v < senders*each:
			_ = c.TrySend(senders*each + v)
		case v%11 == 0:
			panics.Add(1)
			panic(v)
		case v%13 == 0:
			runtime.Gosched()
		}
	}})
	var sending sync.WaitGroup
	var sent, caught atomic.Int64
	for s := range senders {
		sending.Go(func() {
			for i := range each {
				func() {
					defer func() {
						if recover() != nil {
							caught.Add(1)
						}
					}()
					_ = c.TrySend(s*each + i)
				}()
			}
		})
	}
	sending.Wait()
	for i := range seen {
		if seen[i].Load() && i >= senders*each {
			sent.Add(1)
		}
	}
	last, ok := c.TryReceive()
	require.True(t, ok)
	if last >= senders*each {
		sent.Add(1)
	}
	require.Equal(t, senders*each+sent.Load()-1, told.Load())
	require.Positive(t, caught.Load())
	require.LessOrEqual(t, caught.Load(), panics.Load())
}
