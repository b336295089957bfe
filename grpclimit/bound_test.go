package grpclimit_test

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/grpclimit"
	"github.com/sluice-go/sluice/partition"
)

// counted counts the permits of a limiter, which it hides.
type counted struct {
	core.Limiter

	granted atomic.Int64
}

func (c *counted) Statistics() core.Statistics { return c.Limiter.(core.Reporter).Statistics() }

func (c *counted) Acquire(ctx context.Context, n int) (core.Lease, error) {
	lease, err := c.Limiter.Acquire(ctx, n)
	c.granted.Add(int64(lease.Permits()))
	return lease, err
}

// Eight streams of one key: no more messages are with the handlers than the limiter of messages has permits,
// and no byte comes that the limiter of bytes has not granted, also where a call is canceled.
func TestStreamsOfOneLimiterNeverHoldMore(t *testing.T) {
	const most = 3
	test := func(t *testing.T, inBytes bool) {
		t.Helper()
		held := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: most, QueueLimit: 100}))
		rate := core.Must(core.NewTokenBucket(core.TokenBucketOptions{
			TokenLimit: 1000, TokensPerPeriod: 1, ReplenishmentPeriod: 10 * time.Microsecond, QueueLimit: math.MaxInt,
		}))
		bytes := &counted{Limiter: rate}
		keyed := func(l core.Limiter) grpclimit.Limiter {
			return core.Must(partition.New(partition.Options[*grpclimit.Call, string]{
				Key: func(*grpclimit.Call) string { return "all" },
				New: func(string) (core.Limiter, error) { return l, nil },
			}))
		}
		var with, came atomic.Int64
		policy := grpclimit.Policy{Receive: keyed(held)}
		if inBytes {
			policy = grpclimit.Policy{ReceiveBytes: keyed(bytes)}
		}
		l := limits(t, one(policy))
		c := serve(t, &service{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
			for {
				m, err := stream.Recv()
				if err != nil {
					return err
				}
				if n := with.Add(1); n > most && !inBytes {
					t.Errorf("%d messages are with handlers", n)
				}
				if n, granted := came.Add(int64(proto.Size(m))), bytes.granted.Load(); n > granted && inBytes {
					t.Errorf("%d bytes came, %d were granted", n, granted)
				}
				time.Sleep(10 * time.Microsecond)
				with.Add(-1)
			}
		}}, l.ServerOptions())
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
	}
	bubble(t, "messages", func(t *testing.T) { test(t, false) })
	bubble(t, "bytes", func(t *testing.T) { test(t, true) })
}
