package ioreader_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// embedding overrides what it embeds.
type embedding struct{ *core.TokenBucket }

func (e embedding) Acquire(ctx context.Context, n int) (core.Lease, error) {
	return e.TokenBucket.Acquire(ctx, n)
}

// TestALimiterIsPacedByWhatItsLeasesSay: whoever's it is.
func TestALimiterIsPacedByWhatItsLeasesSay(t *testing.T) {
	chain := func(first, second core.Limiter) core.Limiter {
		c, err := core.Chain(first, second)
		require.NoError(t, err)
		return c
	}
	ample := semaphore(t, 1<<30)
	for name, seen := range map[string]func(core.Limiter) core.Limiter{
		"bare":                    func(l core.Limiter) core.Limiter { return l },
		"with a reason":           func(l core.Limiter) core.Limiter { return core.WithReason(l, "bandwidth") },
		"embedded":                func(l core.Limiter) core.Limiter { return embedding{l.(*core.TokenBucket)} },
		"a limiter only":          func(l core.Limiter) core.Limiter { return struct{ core.Limiter }{l} },
		"first in a chain":        func(l core.Limiter) core.Limiter { return chain(l, ample) },
		"second in a chain":       func(l core.Limiter) core.Limiter { return chain(ample, l) },
		"on a server":             func(l core.Limiter) core.Limiter { return distant{l} },
		"a chain with no windows": func(l core.Limiter) core.Limiter { return chain(l, core.Unlimited()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := bucketOf(t, 1_000_000, 10, 10*time.Microsecond) // 1 MB/s, and a second of it at once
				require.True(t, bucket.TryAcquire(1_000_000).Acquired())
				sink := newMeter()
				_, err := ioreader.NewWriter(t.Context(), sink, seen(bucket)).Write(make([]byte, 1_000_000))
				require.NoError(t, err)
				require.Equal(t, time.Second, time.Since(sink.begun))
				for _, size := range sink.sizes[1:] { // the first lease tells the rate
					require.LessOrEqual(t, size, 2000)
				}
				require.LessOrEqual(t, len(sink.sizes), 1100)
			})
		})
	}
}

// distant is a limiter whose leases tell what a server said, and nothing of the window.
type distant struct{ core.Limiter }

func (d distant) Acquire(ctx context.Context, n int) (core.Lease, error) {
	lease, err := d.Limiter.Acquire(ctx, n)
	if err != nil {
		return lease, err
	}
	limit, _ := core.PermitLimit.From(lease)
	left, _ := core.Remaining.From(lease)
	reset, _ := core.ResetAfter.From(lease)
	return core.Grant(n, nil, core.PermitLimit.With(limit), core.Remaining.With(left), core.ResetAfter.With(reset)), nil
}

func TestStreamsOfLimitersSeenThroughOthersAreFair(t *testing.T) {
	for name, seen := range map[string]func(core.Limiter) core.Limiter{
		"with a reason": func(l core.Limiter) core.Limiter { return core.WithReason(l, "bandwidth") },
		"in a chain": func(l core.Limiter) core.Limiter {
			c, err := core.Chain(perSecond(t, 2_000_000), core.WithReason(l, "bandwidth"))
			require.NoError(t, err)
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, part := range shares(t, seen(perSecond(t, 1_000_000)), 100, 100, 1<<20, 1<<20) {
					require.InEpsilon(t, 0.25, part, 0.1)
				}
			})
		})
	}
}

// TestAChainWhoseLeaseMisleadsIsFollowed: its lease tells the limit of one limiter and the
// window of another, so that a byte seems to take a second.
func TestAChainWhoseLeaseMisleadsIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// 1 MB/s, counted over half an hour; of which 64 KiB may be on their way.
		rate := bucketOf(t, 1_800_000_000, 10, 10*time.Microsecond)
		require.True(t, rate.TryAcquire(1_800_000_000).Acquired())
		l, err := core.Chain(semaphore(t, 64<<10), rate)
		require.NoError(t, err)
		sink := newMeter()
		_, err = ioreader.NewWriter(t.Context(), sink, l).Write(make([]byte, 1_000_000))
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(sink.begun))
		require.LessOrEqual(t, len(sink.sizes), 2000)
		require.Less(t, sink.most(10*time.Millisecond), 20_000)
	})
}

func TestAWindowIsNotSpentByteByByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 1_000_000, Window: time.Hour, QueueLimit: 1_000_000})
		require.NoError(t, err)
		sink := newMeter()
		n, err := ioreader.NewWriter(t.Context(), sink, l).Write(make([]byte, 999_000))
		require.NoError(t, err)
		require.Equal(t, 999_000, n)
		require.Less(t, len(sink.sizes), 200)
		require.Zero(t, time.Since(sink.begun))
	})
}

// keeping keeps the context that it was asked with, and waits on it.
type keeping struct {
	core.Limiter
	kept []context.Context
}

func (k *keeping) Acquire(ctx context.Context, n int) (core.Lease, error) {
	k.kept = append(k.kept, ctx)
	return k.Limiter.Acquire(ctx, n)
}

func TestAContextThatALimiterKeepsEndsWithItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		l := &keeping{Limiter: bucketOf(t, 1000, 1, time.Millisecond)}
		w := ioreader.NewWriter(ctx, io.Discard, l)
		for range 3 {
			_, err := w.Write(make([]byte, 600))
			require.NoError(t, err)
		}
		require.NotEmpty(t, l.kept)
		for _, kept := range l.kept {
			<-kept.Done() // a goroutine that waits for it leaks no longer than the call
			require.Equal(t, context.Canceled, kept.Err())
		}
		done := writing(w, make([]byte, 1000))
		synctest.Wait()
		last := l.kept[len(l.kept)-1]
		require.NoError(t, last.Err())
		cancel()
		require.Equal(t, context.Canceled, (<-done).err)
		<-last.Done()
	})
}

// polling waits for permits by asking its context again and again, as a limiter on a
// server might.
type polling struct{ core.Limiter }

func (p polling) Acquire(ctx context.Context, n int) (core.Lease, error) {
	for ctx.Err() == nil {
		if l := p.Limiter.TryAcquire(n); l.Acquired() {
			return l, nil
		}
		time.Sleep(time.Second)
	}
	return core.Fail(ctx.Err()), ctx.Err()
}

func TestALimiterThatPollsItsContextIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		empty := bucketOf(t, 1, 1, 1000*time.Hour)
		require.True(t, empty.TryAcquire(1).Acquired())
		c, _ := conns(t, ioreader.ConnOptions{Write: polling{empty}})
		begun := time.Now()
		done := writing(c, []byte("a"))
		require.NoError(t, c.SetDeadline(time.Now().Add(2500*time.Millisecond)))
		require.ErrorContains(t, (<-done).err, "timeout")
		require.Equal(t, 3*time.Second, time.Since(begun), "when it looked next")

		w := ioreader.NewWriter(t.Context(), io.Discard, polling{empty})
		done = writing(w, []byte("a"))
		synctest.Wait()
		require.NoError(t, w.Close())
		require.Equal(t, io.ErrClosedPipe, (<-done).err)
	})
}

func TestWhatIsPrinted(t *testing.T) {
	l := &limiterOf{}
	require.Equal(t, "throttled reader, limited by *ioreader_test.limiterOf", ioreader.NewReader(t.Context(), strings.NewReader(""), l).String())
	require.Equal(t, "throttled writer, unlimited", ioreader.NewWriter(t.Context(), io.Discard, nil).String())
	require.Equal(t, "throttled writer, unlimited", new(ioreader.Writer).String())
	c, _ := conns(t, ioreader.ConnOptions{Read: l})
	require.Equal(t, "connection pipe to pipe, reading limited by *ioreader_test.limiterOf, writing unlimited", fmt.Sprint(c))
	require.Equal(t, "throttled listener on hall", fmt.Sprint(listen(t, newHall(), ioreader.ListenerOptions{})))
}
