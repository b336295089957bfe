package limitertest_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/limitertest"
)

// Limiters far from core's, and what their configs say of them.

// remote is a limiter that asks a server, a goroutine, for every decision.
type remote struct {
	core.Limiter
	calls chan func()
}

func newRemote(l core.Limiter) *remote {
	r := &remote{Limiter: l, calls: make(chan func())}
	go func() {
		for f := range r.calls {
			f()
		}
	}()
	return r
}

// stop stops the server.
func (r *remote) stop() { close(r.calls) }

// asks has the server do something, and returns when it has.
func (r *remote) asks(f func()) {
	done := make(chan struct{})
	r.calls <- func() {
		f()
		close(done)
	}
	<-done
}

func (r *remote) TryAcquire(n int) (l core.Lease) {
	r.asks(func() { l = r.Limiter.TryAcquire(n) })
	return l
}

func (r *remote) Acquire(ctx context.Context, n int) (core.Lease, error) {
	r.asks(func() {})
	return r.Limiter.Acquire(ctx, n)
}

func (r *remote) Available() (n int) {
	r.asks(func() { n = r.Limiter.Available() })
	return n
}

func (r *remote) Statistics() core.Statistics { return r.Limiter.(core.Reporter).Statistics() }

func (r *remote) Close() error { return r.Limiter.(io.Closer).Close() }

func TestALimiterOnAServerConforms(t *testing.T) {
	for _, k := range kinds[:3] {
		for _, order := range []core.QueueOrder{core.OldestFirst, core.NewestFirst} {
			t.Run(fmt.Sprintf("%s/%v", k.name, order), func(t *testing.T) {
				limitertest.Run(t, limitertest.Config{
					New:   func() core.Limiter { return newRemote(k.make(7, order, false)) },
					Done:  func(l core.Limiter) { l.(*remote).stop() },
					Limit: limit, QueueLimit: 7, QueueOrder: order, Refill: k.refill,
				})
			})
		}
	}
}

// Done is called once for each limiter, after its Close, in the same bubble.
func TestDoneIsCalledForEachLimiter(t *testing.T) {
	made, done := 0, 0
	live := map[core.Limiter]chan struct{}{}
	limitertest.Run(t, limitertest.Config{
		Limit: limit, QueueLimit: 3,
		New: func() core.Limiter {
			l, stop := concurrency(3, core.OldestFirst), make(chan struct{})
			go func() { <-stop }() // the bubble would not end without Done
			live[l] = stop
			made++
			return l
		},
		Done: func(l core.Limiter) {
			if err := l.TryAcquire(1).Err(); err != core.ErrClosed { //nolint:errorlint // unchanged
				t.Errorf("not closed: %v", err)
			}
			close(live[l])
			delete(live, l)
			done++
		},
	})
	require.Empty(t, live)
	require.Equal(t, made, done)
	require.Greater(t, done, len(limitertest.PartNames())/2)
}

func TestDoneMayPanic(t *testing.T) {
	v := limitertest.Judge(t, limitertest.Config{
		Limit: limit, QueueLimit: queue,
		New:  plain(queue, core.OldestFirst),
		Done: func(core.Limiter) { panic("no server") },
	}, "requests")
	require.NotEmpty(t, v.Faults)
	require.ErrorContains(t, v.Faults[0], "panic: no server")
}

// valve is a limiter that grants everything, or while it is shut nothing.
type valve struct {
	inner *core.ConcurrencyLimiter // has all of its permits, or none
	shut  core.Lease
	turns uint64
}

func newValve(queueLimit int, order core.QueueOrder) *valve {
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		PermitLimit: math.MaxInt, QueueLimit: queueLimit, QueueOrder: order,
	})
	if err != nil {
		panic(err)
	}
	return &valve{inner: l}
}

func (v *valve) turn(open bool) {
	if open {
		v.shut.Release()
		return
	}
	v.turns++
	v.shut = v.inner.TryAcquire(math.MaxInt)
}

func (v *valve) TryAcquire(n int) core.Lease {
	l := v.inner.TryAcquire(n)
	l.Release()
	return l
}

func (v *valve) Acquire(ctx context.Context, n int) (core.Lease, error) {
	l, err := v.inner.Acquire(ctx, n)
	l.Release()
	return l, err
}

func (v *valve) Available() int { return v.inner.Available() }
func (v *valve) Close() error   { return v.inner.Close() }

func (v *valve) Statistics() core.Statistics {
	st := v.inner.Statistics()
	st.Granted -= v.turns
	return st
}

func valves(queueLimit int, order core.QueueOrder) limitertest.Config {
	return limitertest.Config{
		New:   func() core.Limiter { return newValve(queueLimit, order) },
		Gate:  func(l core.Limiter, open bool) { l.(*valve).turn(open) },
		Limit: math.MaxInt, QueueLimit: queueLimit, QueueOrder: order,
	}
}

func TestALimiterThatShedsConforms(t *testing.T) {
	for _, order := range []core.QueueOrder{core.OldestFirst, core.NewestFirst} {
		for _, n := range []int{0, 1, 3, 7, math.MaxInt} {
			t.Run(fmt.Sprintf("%v/queue=%d", order, n), func(t *testing.T) {
				c := valves(n, order)
				limitertest.Run(t, c)
			})
		}
	}
}

// What a gate shuts can be wrong in all the ways of a queue.
func TestALimiterThatShedsIsJudged(t *testing.T) {
	c := valves(5, core.OldestFirst)
	c.New = func() core.Limiter { return newValve(6, core.OldestFirst) }
	v := limitertest.Judge(t, c, "queue")
	require.NotEmpty(t, v.Faults)
}

// A server's clock may count in microseconds.
func TestACoarseClockConforms(t *testing.T) {
	coarse := func() core.Limiter { return newQuota(time.Minute, time.Microsecond) }
	c := limitertest.Config{New: coarse, Limit: limit, QueueLimit: limitertest.NoQueue, Refill: time.Minute, Grain: time.Microsecond}
	limitertest.Run(t, c)
	c.Grain = 0
	require.NotEmpty(t, limitertest.Judge(t, c, "retry after").Faults)
}

// A view of a limiter that counts nothing has the methods, and says nothing.
func TestWhatALimiterLacksIsNotLookedAt(t *testing.T) {
	c := limitertest.Config{
		New:   func() core.Limiter { return core.WithReason(newQuota(time.Minute, 0), "spent") },
		Limit: limit, QueueLimit: limitertest.NoQueue, Refill: time.Minute,
	}
	require.NotEmpty(t, limitertest.Judge(t, c, "statistics").Faults)
	c.Skip = []string{"statistics", "close", "refunds", "settlements", "resets", "idle"}
	require.NotEmpty(t, limitertest.Judge(t, c, "statistics").Skipped)
	limitertest.Run(t, c)
}
