package compat_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/pipe"
)

// What passes a context to Acquire waits by its flow: each of these waits in one limiter behind
// a flow that came first and wants more, and is served in turn.
func TestWhatPassesAContextOnWaitsByFlow(t *testing.T) {
	for name, use := range map[string]func(ctx context.Context, l core.Limiter) error{
		"chain": func(ctx context.Context, l core.Limiter) error {
			_, err := core.Must(core.Chain(core.Unlimited(), l)).Acquire(ctx, 1)
			return err
		},
		"view": func(ctx context.Context, l core.Limiter) error {
			_, err := core.WithReason(l, "later").Acquire(ctx, 1)
			return err
		},
		"channel.Send": func(ctx context.Context, l core.Limiter) error {
			return core.Must(channel.New(channel.Options[int]{Limiter: l})).Send(ctx, 1)
		},
		"channel.SendBatch": func(ctx context.Context, l core.Limiter) error {
			_, err := core.Must(channel.New(channel.Options[int]{Limiter: l})).SendBatch(ctx, []int{1})
			return err
		},
		"pipe": func(ctx context.Context, l core.Limiter) error {
			_, w, err := pipe.New(pipe.Options{WriteLimiter: l})
			if err == nil {
				_, err = w.WriteContext(ctx, []byte("a"))
			}
			return err
		},
		"ioreader.NewReader": func(ctx context.Context, l core.Limiter) error {
			_, err := io.ReadAll(ioreader.NewReader(ctx, strings.NewReader("a"), l))
			return err
		},
		"ioreader.NewWriter": func(ctx context.Context, l core.Limiter) error {
			_, err := ioreader.NewWriter(ctx, io.Discard, l).Write([]byte("a"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 9, QueueOrder: core.FairShare}))
				held := l.TryAcquire(1)
				first := make(chan core.Lease, 2)
				for range 2 {
					go func() {
						lease, err := l.Acquire(core.WithFlow(t.Context(), core.Flow{Key: "first"}), 1)
						if err == nil {
							first <- lease
						}
					}()
					synctest.Wait()
				}
				ctx, cancel := context.WithCancel(core.WithFlow(t.Context(), core.Flow{Key: "second"}))
				defer cancel()
				done := make(chan error, 1)
				go func() { done <- use(ctx, l) }()
				synctest.Wait()
				require.Equal(t, 3, l.Statistics().Queued)
				held.Release()
				held = <-first
				require.Empty(t, done)
				held.Release()
				synctest.Wait()
				require.Len(t, done, 1, "its flow is next")
				require.NoError(t, <-done)
				require.NoError(t, l.Close())
			})
		})
	}
}
