package grpclimit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/sluice-go/sluice/grpclimit"
)

// Eight streams of one limiter: no more messages are with the handlers than it has permits, also where a call
// is canceled.
func TestStreamsOfOneLimiterNeverHoldMore(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		const most = 3
		held := concurrency(t, most, 100)
		var with, came atomic.Int64
		c := limited(t, grpclimit.Policy{Receive: grpclimit.Shared(held)}, &service{duplex: func(s pb.TestService_FullDuplexCallServer) error {
			for {
				if _, err := s.Recv(); err != nil {
					return err
				}
				if n := with.Add(1); n > most {
					t.Errorf("%d messages are with handlers", n)
				}
				came.Add(1)
				time.Sleep(10 * time.Microsecond)
				with.Add(-1)
			}
		}})
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s, err := c.FullDuplexCall(ctx)
				assert.NoError(t, err)
				for range 500 {
					if s.Send(payload(i)) != nil {
						break
					}
				}
				time.Sleep(time.Duration(i) * 50 * time.Millisecond)
			})
		}
		all.Wait()
		require.Positive(t, came.Load())
		time.Sleep(time.Second)
		require.Equal(t, most, held.Available())
	})
}
