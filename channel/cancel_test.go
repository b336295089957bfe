package channel_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
)

// TestTheEarlierDecides has a ctx that ends before room is made or an item comes, while the
// caller lets others run and may not have looked yet.
func TestTheEarlierDecides(t *testing.T) {
	kinds := map[string]func() *channel.LimitedChannel[int]{
		"bounded": func() *channel.LimitedChannel[int] { return bounded(t, 1) },
		"limiter": func() *channel.LimitedChannel[int] { return open(t, channel.Options[int]{Limiter: permits(t, 1)}) },
		"capacity": func() *channel.LimitedChannel[int] {
			return open(t, channel.Options[int]{Limiter: permits(t, 9), Capacity: 1})
		},
		"wrapped": func() *channel.LimitedChannel[int] {
			return open(t, channel.Options[int]{Limiter: wrapped{permits(t, 1)}})
		},
	}
	for name, kind := range kinds {
		for yields := range 8 {
			t.Run(name+" Receive", func(t *testing.T) {
				c := kind()
				ctx, cancel := context.WithCancel(t.Context())
				end := make(chan error)
				go func() {
					_, err := c.Receive(ctx)
					end <- err
				}()
				for range yields {
					runtime.Gosched()
				}
				cancel()
				sends(t, c, 1)
				err := <-end
				if err == nil { // Receive looked at ctx before it ended, and did not wait
					require.Zero(t, c.Len())
					return
				}
				require.Equal(t, context.Canceled, err)
				holds(t, c, 1)
			})
			t.Run(name+" Send", func(t *testing.T) {
				c := kind()
				sends(t, c, 1)
				ctx, cancel := context.WithCancel(t.Context())
				end := make(chan error)
				go func() { end <- c.Send(ctx, 2) }()
				for range yields {
					runtime.Gosched()
				}
				cancel()
				receives(t, c, 1)
				err := <-end
				if err == nil { // Send looked at ctx before it ended, and did not wait
					holds(t, c, 2)
					return
				}
				require.Equal(t, context.Canceled, err)
				require.Zero(t, c.Len())
			})
		}
		t.Run(name+" waits", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := kind()
				ctx, cancel := context.WithCancel(t.Context())
				end := make(chan error)
				go func() {
					_, err := c.Receive(ctx)
					end <- err
				}()
				synctest.Wait()
				cancel()
				sends(t, c, 1)
				require.Equal(t, context.Canceled, <-end)
				holds(t, c, 1)

				sends(t, c, 1)
				ctx, cancel = context.WithCancel(t.Context())
				go func() { end <- c.Send(ctx, 2) }()
				synctest.Wait()
				cancel()
				receives(t, c, 1)
				require.Equal(t, context.Canceled, <-end)
				require.Zero(t, c.Len())
			})
		})
	}
}
