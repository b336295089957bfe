package channel_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

func TestSendBatchWhosePermitsPanicsLosesNone(t *testing.T) {
	l := permits(t, 10)
	c := open(t, channel.Options[int]{Limiter: l, Cost: func(v int) int {
		if v == 3 {
			panic("odd")
		}
		return v
	}})
	require.PanicsWithValue(t, "odd", func() { _, _ = c.SendBatch(t.Context(), []int{1, 2, 3}) })
	c.Discard()
	require.Equal(t, 10, l.Available())
}

func TestPermitsIsAskedOncePerItem(t *testing.T) {
	for name, capacity := range map[string]int{"for want of permits": 0, "for want of capacity": 3} {
		bubble(t, name, func(t *testing.T) {
			asked := map[int]int{}
			c := open(t, channel.Options[int]{Limiter: permits(t, 20), Capacity: capacity, Cost: func(v int) int {
				asked[v]++
				return 2
			}})
			batch := start(func() (int, error) { return c.SendBatch(t.Context(), numbers(40)) })
			for i := range 40 {
				v, err := c.Receive(t.Context())
				require.NoError(t, err)
				require.Equal(t, numbers(40)[i], v)
				synctest.Wait()
			}
			require.Equal(t, 40, batch.ends(t, nil))
			for v, n := range asked {
				require.Equal(t, 1, n, "item %d", v)
			}
		})
	}
}

// panicking is a context whose Done panics, or its Err when it is called so often.
type panicking struct {
	context.Context

	left int // calls of Err until then; 0: Done
	err  int
}

func (c *panicking) Err() error {
	c.err++
	if c.err == c.left {
		panic("odd")
	}
	return c.Context.Err()
}

func (c *panicking) Done() <-chan struct{} {
	if c.left == 0 {
		panic("odd")
	}
	return c.Context.Done()
}

// Whichever call of its context panics, a Send holds nothing, and sends nothing.
func TestASendWhoseContextPanicsHoldsNothing(t *testing.T) {
	for name, inner := range map[string]core.Limiter{
		"plain permits": permits(t, 4),
		"leases":        core.WithReason(permits(t, 4), "full"),
		"of a user":     &user{Limiter: permits(t, 4)},
	} {
		for _, how := range []string{"immediately", "for permits", "for room", "canceled"} {
			bubble(t, name+" "+how, func(t *testing.T) {
				for call := range 100 {
					c := open(t, channel.Options[int]{Limiter: inner, Capacity: 2})
					ctx, cancel := context.WithCancel(t.Context())
					left := 4
					switch how {
					case "for permits":
						held := inner.TryAcquire(4)
						time.AfterFunc(time.Second, held.Release)
					case "for room":
						sends(t, c, 1, 2)
						time.AfterFunc(time.Second, func() { c.Discard() })
					case "canceled":
						sends(t, c, 1, 2)
						left = 2
						time.AfterFunc(time.Second, cancel)
					}
					panicked, sent := func() (panicked, sent bool) {
						defer func() { panicked = recover() != nil }()
						return false, c.Send(&panicking{Context: ctx, left: call}, 3) == nil
					}()
					time.Sleep(2 * time.Second)
					synctest.Wait()
					if sent {
						require.Equal(t, 1, c.Len())
						left--
					}
					require.Equal(t, left, inner.Available(), "at call %d", call)
					require.False(t, panicked && sent)
					c.Discard()
					cancel()
					require.NoError(t, c.Close())
					if !panicked && call > 0 {
						require.Equal(t, how != "canceled", sent)
						return
					}
				}
			})
		}
	}
}

// The calls of OnDrop are not inside each other, however many items its own calls drop, and each item is reported
// before the send that dropped the first returns.
func TestOnDropThatDropsMore(t *testing.T) {
	const items = 300
	for name, again := range map[string]func(c *channel.LimitedChannel[int], v int){
		"TrySend": func(c *channel.LimitedChannel[int], v int) { _ = c.TrySend(v) },
		"Send":    func(c *channel.LimitedChannel[int], v int) { _ = c.Send(t.Context(), v) },
		"Discard": func(c *channel.LimitedChannel[int], v int) { _ = c.TrySend(v); c.Discard() },
	} {
		for _, mode := range []channel.Overflow{channel.DropOldest, channel.DropNewest, channel.DropIncoming} {
			counted := refusing(t, 1)
			for kind, l := range limiters(t, counted) {
				var c *channel.LimitedChannel[int]
				depth, deepest, left := 0, 0, items
				reported := map[int]bool{}
				c = open(t, channel.Options[int]{Limiter: l, Overflow: mode, OnDrop: func(v int) {
					depth++
					deepest = max(deepest, depth)
					reported[v] = true
					left--
					if left > 0 {
						again(c, items-left)
					}
					depth--
				}})
				sends(t, c, 0, 0)
				require.Equal(t, 1, deepest, "%s %v %s", name, mode, kind)
				c.Discard()
				for v := range items - 1 {
					require.True(t, reported[v], "%s %v %s: item %d", name, mode, kind, v)
				}
				require.Equal(t, 1, counted.Available())
			}
		}
	}
}
