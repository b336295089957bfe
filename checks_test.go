package sluice_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/worker"
)

// asking is something that asks a limiter of 10 permits for n of them, and can be closed.
type asking struct {
	wait  func(ctx context.Context, n int) error
	try   func(n int) error
	close func() error
}

// TestOrderOfChecks checks that limiters, channels, pools and keys report negative permits first, then a done
// context, then that they are closed, then more than the limit; and that all of them match the same errors.
func TestOrderOfChecks(t *testing.T) {
	limiter := func() core.Limiter {
		return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 10, QueueLimit: 10}))
	}
	asks := func(l core.Limiter, end func() error) asking {
		return asking{
			func(ctx context.Context, n int) error { _, err := l.Acquire(ctx, n); return err },
			func(n int) error { return l.TryAcquire(n).Err() },
			end,
		}
	}
	sends := func(mode channel.Overflow) asking {
		c := core.Must(channel.New(channel.Options[int]{
			Limiter: limiter(), Cost: func(n int) int { return n }, Overflow: mode, Capacity: 1,
		}))
		return asking{c.Send, c.TrySend, c.Close}
	}
	submits := func(queue int) asking {
		p := core.Must(worker.New(worker.Options{Limiter: limiter(), Queue: queue}))
		task := func(context.Context) error { return nil }
		return asking{
			func(ctx context.Context, n int) error { return p.SubmitN(ctx, n, task) },
			func(n int) error { return p.TrySubmitN(n, task) },
			func() error { return p.Close(t.Context()) },
		}
	}
	l := limiter()
	switched := core.NewSwitch(limiter())
	chained := core.Must(core.Chain(limiter()))
	keyed := core.Must(partition.NewByKey(func(string) (core.Limiter, error) { return limiter(), nil }))
	for name, a := range map[string]asking{
		"limiter":         asks(l, l.(*core.ConcurrencyLimiter).Close),
		"chain":           asks(chained, chained.Close),
		"switch":          asks(switched, switched.Close),
		"key":             asks(partition.For(keyed, "a"), keyed.Close),
		"channel":         sends(channel.Wait),
		"drop-oldest":     sends(channel.DropOldest),
		"drop-incoming":   sends(channel.DropIncoming),
		"pool":            submits(0),
		"pool with queue": submits(1),
	} {
		t.Run(name, func(t *testing.T) {
			done, cancel := context.WithCancel(t.Context())
			cancel()
			for _, closed := range []bool{false, true} {
				above := core.ErrPermitsExceedLimit
				if closed {
					require.NoError(t, a.close())
					above = core.ErrClosed
				}
				require.ErrorIs(t, a.wait(done, -1), core.ErrNegativePermits)
				require.Equal(t, context.Canceled, a.wait(done, 1))
				require.Equal(t, context.Canceled, a.wait(done, 11))
				require.ErrorIs(t, a.wait(t.Context(), 11), above)
				require.ErrorIs(t, a.try(-1), core.ErrNegativePermits)
				require.ErrorIs(t, a.try(11), above)
			}
		})
	}
}
