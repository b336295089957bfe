package grpclimit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/tap"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/grpclimit"
)

// A handler may return while another goroutine of its still receives.
func TestAHandlerThatReturnsBeforeItsReceiver(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		conc := concurrency(t, 1, 5)
		held := conc.TryAcquire(1)
		l := limits(t, one(grpclimit.Policy{Receive: grpclimit.Shared(conc)}))
		var received sync.WaitGroup
		var err error
		outside := grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			defer func() {
				time.Sleep(time.Second) // the call has not ended yet, but the wait has
				assert.Zero(t, conc.Statistics().Queued)
				held.Release()
				received.Wait()
			}()
			return h(srv, ss)
		})
		c := serve(t, &service{duplex: func(s pb.TestService_FullDuplexCallServer) error {
			received.Go(func() { _, err = s.Recv() })
			synctest.Wait() // it waits for a permit
			return nil
		}}, append([]grpc.ServerOption{outside}, l.ServerOptions()...))
		s, err2 := c.FullDuplexCall(t.Context())
		require.NoError(t, err2)
		require.NoError(t, s.Send(payload(1)))
		_, _ = s.Recv()
		code(t, codes.Canceled, err)
		require.Equal(t, 1, conc.Available())
	})
}

// What a client's limit rejects inside a handler is that handler's outcome, and no reason to
// refund the server's permits.
func TestAClientsRejectionInsideAHandler(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		outer := bucket(t, 1, 5)
		inner := client(t, grpclimit.ClientOptions{Limiter: grpclimit.Shared(bucket(t, 1, 1)), Cost: func(*grpclimit.Call) int { return 2 }})
		l := limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(outer)}))
		backend := serve(t, new(service), nil, inner.DialOptions()...)
		c := serve(t, &service{unary: func(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			return backend.UnaryCall(ctx, r)
		}}, l.ServerOptions())
		ask(t, c, codes.ResourceExhausted)
		require.Equal(t, 4, outer.Available())
	})
}

// A stream that has done work and then exceeds the limit of its messages keeps its permit.
func TestARejectedMessageIsAnOutcome(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		calls, impatient := bucket(t, 1, 5), core.Must(core.NewTokenBucket(core.TokenBucketOptions{
			TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second,
		}))
		var outcome error
		l := limits(t, one(grpclimit.Policy{
			Limiter: grpclimit.Shared(calls), Receive: grpclimit.Shared(impatient),
			Refund: func(_ *grpclimit.Call, err error) bool { outcome = err; return false },
		}))
		c := serve(t, &service{duplex: drain}, l.ServerOptions())
		s := duplex(t, c)
		require.NoError(t, s.Send(payload(1)))
		require.NoError(t, s.Send(payload(1)))
		code(t, codes.ResourceExhausted, received(s))
		code(t, codes.ResourceExhausted, outcome)
		require.Equal(t, 4, calls.Available())
	})
}

// An interceptor inside that rejects is another matter: the outer one refunds.
func TestAnInterceptorInsideRejects(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		outer := bucket(t, 1, 5)
		l := limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(outer)}))
		inside := limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(concurrency(t, 1, 0)), Cost: func(*grpclimit.Call) int { return 2 }}))
		c := serve(t, &service{duplex: drain}, append(l.ServerOptions(), inside.ServerOptions()...))
		ask(t, c, codes.Unavailable)
		s := duplex(t, c)
		code(t, codes.Unavailable, received(s))
		require.Equal(t, 5, outer.Available())
	})
}

// Skip may say another thing in Tap, which does not know the message.
func TestACallThatIsSkippedAfterTap(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		conc, calls := concurrency(t, 1, 0), bucket(t, 1, 5)
		l := limits(t, grpclimit.Options{
			Policies: []grpclimit.Policy{{Name: "a", Limiter: grpclimit.Shared(conc)}, {Name: "b", Limiter: grpclimit.Shared(calls)}},
			Skip:     func(c *grpclimit.Call) bool { return c.Message != nil },
		})
		held := -1
		c := serve(t, notes(&held, conc), append(l.ServerOptions(), grpc.InTapHandle(l.Tap())))
		ask(t, c, codes.OK)
		require.Zero(t, held)
		require.Equal(t, 1, conc.Available())
		require.Equal(t, 5, calls.Available())
	})
}

// The taps of two Limits may be one behind the other.
func TestTwoTaps(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		a, b := bucket(t, 1, 5), bucket(t, 1, 5)
		la, lb := limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(a)})), limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(b)}))
		both := func(ctx context.Context, info *tap.Info) (context.Context, error) {
			ctx, err := la.Tap()(ctx, info)
			if err != nil {
				return nil, err
			}
			return lb.Tap()(ctx, info)
		}
		c := serve(t, new(service), append(append(la.ServerOptions(), lb.ServerOptions()...), grpc.InTapHandle(both)))
		ask(t, c, codes.OK)
		require.Equal(t, 4, a.Available())
		require.Equal(t, 4, b.Available())
	})
}

type nilLimiter struct{ grpclimit.Limiter }

// A nil pointer is no limiter, whatever its type.
func TestNilPointersAreNoLimiters(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var none *nilLimiter
		c := limited(t, grpclimit.Policy{Limiter: grpclimit.Shared(bucket(t, 1, 5)), ReceiveBytes: none, Receive: none, Send: none, SendBytes: grpclimit.Shared(queued(t, 1000, 1000))}, &service{duplex: drain})
		_, err := c.UnaryCall(t.Context(), &pb.SimpleRequest{ResponseSize: 1})
		require.NoError(t, err)
	})
}
