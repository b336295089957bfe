package channel_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

// user is a limiter of a user, made of functions; nil: the inner limiter's.
type user struct {
	core.Limiter

	try     func(n int) core.Lease
	acquire func(ctx context.Context, n int) (core.Lease, error)
	refund  func(core.Lease)
}

func (u *user) TryAcquire(n int) core.Lease {
	if u.try != nil {
		return u.try(n)
	}
	return u.Limiter.TryAcquire(n)
}

func (u *user) Acquire(ctx context.Context, n int) (core.Lease, error) {
	if u.acquire != nil {
		return u.acquire(ctx, n)
	}
	return u.Limiter.Acquire(ctx, n)
}

func (u *user) Refund(l core.Lease) {
	if u.refund != nil {
		u.refund(l)
		return
	}
	l.Release()
}

// denies embeds a limiter of core's, and grants nothing.
type denies struct{ *core.ConcurrencyLimiter }

func (denies) TryAcquire(int) core.Lease { return core.Reject(core.ReasonPhrase.With("denied")) }

func (d denies) Acquire(context.Context, int) (core.Lease, error) {
	l := d.TryAcquire(1)
	return l, l.Err()
}

func TestEmbeddedLimiterIsAskedThroughItsOwnMethods(t *testing.T) {
	for mode := channel.Wait; mode <= channel.DropNewest; mode++ {
		c := open(t, channel.Options[int]{Limiter: denies{permits(t, 1)}, Overflow: mode})
		refuses(t, c.TrySend(1), "denied")
		refuses(t, c.Send(t.Context(), 1), "denied")
		n, err := c.SendBatch(t.Context(), []int{1, 2})
		refuses(t, err, "denied")
		require.Zero(t, n)
		refuses(t, c.WaitToSend(t.Context()), "denied")
		require.Zero(t, c.Len())
	}
}

func TestLimiterThatOnlyPollsItsContext(t *testing.T) {
	poll := func(ctx context.Context, _ int) (core.Lease, error) {
		for ctx.Err() == nil {
			time.Sleep(time.Second)
		}
		return core.Fail(ctx.Err()), ctx.Err()
	}
	bubble(t, "learns of Close", func(t *testing.T) {
		c := open(t, channel.Options[int]{Limiter: &user{Limiter: permits(t, 9), acquire: poll}})
		send := startSend(t.Context(), c, 1)
		wait := start(func() (int, error) { return 0, c.WaitToSend(t.Context()) })
		require.NoError(t, c.Close())
		time.Sleep(time.Second)
		send.ends(t, channel.ErrClosed)
		wait.ends(t, channel.ErrClosed)
	})
	bubble(t, "learns of the caller's deadline", func(t *testing.T) {
		c := open(t, channel.Options[int]{Limiter: &user{Limiter: permits(t, 9), acquire: poll}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		send := startSend(ctx, c, 1)
		time.Sleep(time.Minute + time.Second)
		send.ends(t, context.DeadlineExceeded)
	})
	bubble(t, "the cause says that the channel is closed", func(t *testing.T) {
		var cause error
		l := &user{Limiter: permits(t, 9), acquire: func(ctx context.Context, _ int) (core.Lease, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return core.Lease{}, cause
		}}
		c := open(t, channel.Options[int]{Limiter: l})
		send := startSend(t.Context(), c, 1)
		require.NoError(t, c.Close())
		send.ends(t, channel.ErrClosed)
		require.Equal(t, channel.ErrClosed, cause)
	})
}

func TestLimiterThatLies(t *testing.T) {
	for mode := channel.Wait; mode <= channel.DropNewest; mode++ {
		t.Run("no lease and no error "+mode.String(), func(t *testing.T) {
			l := &user{
				Limiter: permits(t, 9), acquire: func(context.Context, int) (core.Lease, error) { return core.Lease{}, nil },
				try: func(int) core.Lease { return core.Lease{} },
			}
			c := open(t, channel.Options[int]{Limiter: l, Overflow: mode})
			require.ErrorIs(t, c.Send(t.Context(), 1), core.ErrRejected)
			require.ErrorIs(t, c.TrySend(1), core.ErrRejected)
			require.ErrorIs(t, c.WaitToSend(t.Context()), core.ErrRejected)
			require.Zero(t, c.Len())
		})
	}
	t.Run("a lease and an error", func(t *testing.T) {
		odd := errors.New("odd")
		l := &user{Limiter: permits(t, 9)}
		l.acquire = func(_ context.Context, n int) (core.Lease, error) { return l.Limiter.TryAcquire(n), odd }
		c := open(t, channel.Options[int]{Limiter: l})
		require.Equal(t, odd, c.Send(t.Context(), 1))
		require.Equal(t, 9, l.Available())
	})
}

func TestLimiterThatPanics(t *testing.T) {
	for mode := channel.Wait; mode <= channel.DropNewest; mode++ {
		bubble(t, "when it is asked "+mode.String(), func(t *testing.T) {
			inner := refusing(t, 2)
			l := &user{
				Limiter: inner, try: func(int) core.Lease { panic("burst") },
				acquire: func(context.Context, int) (core.Lease, error) { panic("burst") },
			}
			c := open(t, channel.Options[int]{Limiter: l, Overflow: mode})
			receiver := startReceive(t.Context(), c)
			require.Panics(t, func() { _ = c.TrySend(1) })
			require.Panics(t, func() { _ = c.Send(t.Context(), 1) })
			require.Panics(t, func() { _ = c.WaitToSend(t.Context()) })
			l.try, l.acquire = nil, nil
			receiver.waits(t)
			require.NoError(t, c.Send(t.Context(), 2))
			require.Equal(t, 2, receiver.ends(t, nil))
			sends(t, c, 3, 4)
			if mode != channel.Wait {
				sends(t, c, 5)
			}
			require.Equal(t, 2, c.Discard())
			require.Equal(t, 2, inner.Available())
		})
	}
}

func TestSenderCallsBackFromItsLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A limiter that looks at the channel it limits: no lock is held while it is asked.
		var c *channel.LimitedChannel[int]
		var seen atomic.Int64
		l := &user{Limiter: refusing(t, 2)}
		l.try = func(n int) core.Lease {
			seen.Store(int64(c.Len()))
			return l.Limiter.TryAcquire(n)
		}
		c = open(t, channel.Options[int]{Limiter: l, Overflow: channel.DropNewest})
		sends(t, c, 1, 2, 3)
		require.EqualValues(t, 1, seen.Load())
		holds(t, c, 1, 3)
	})
}
