package grpclimit_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/grpclimit"
)

// Calls that wait are served round-robin, by the flow that the policy tells; the handler's context has none.
func TestCallsWaitByFlow(t *testing.T) {
	bubble(t, "round-robin", func(t *testing.T) {
		l := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 9, QueueOrder: core.FairShare}))
		var order []string
		name := func(ctx context.Context) string {
			md, _ := metadata.FromIncomingContext(ctx)
			return md.Get("name")[0]
		}
		limited := limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(l), MaxWait: -1, Flow: func(c *grpclimit.Call) core.Flow {
			return core.Flow{Key: c.Metadata.Get("name")[0][:1]}
		}}))
		s := &service{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			order = append(order, name(ctx)) // one at a time
			if _, ok := core.FlowFromContext(ctx); ok {
				t.Error("the flow is in the context of the handler")
			}
			return &pb.SimpleResponse{}, nil
		}}
		c := serve(t, s, limited.ServerOptions())
		lease := l.TryAcquire(1)
		for _, of := range []string{"a1", "a2", "a3", "b1"} {
			go func() {
				ctx := metadata.AppendToOutgoingContext(t.Context(), "name", of)
				if _, err := c.UnaryCall(ctx, &pb.SimpleRequest{}); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		lease.Release()
		synctest.Wait()
		require.Equal(t, []string{"a1", "b1", "a2", "a3"}, order)
	})
}

// Messages that wait are served round-robin, too.
func TestMessagesWaitByFlow(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		o := core.PerSecond(1, 1)
		o.QueueOrder = core.FairShare
		l := core.Must(core.NewTokenBucket(o))
		order := make(chan string, 4)
		limited := limits(t, one(grpclimit.Policy{Receive: grpclimit.Shared(l), Flow: func(c *grpclimit.Call) core.Flow {
			return core.Flow{Key: c.Metadata.Get("name")[0][:1]}
		}}))
		c := serve(t, &service{duplex: func(s pb.TestService_FullDuplexCallServer) error {
			if _, err := s.Recv(); err != nil {
				return err
			}
			md, _ := metadata.FromIncomingContext(s.Context())
			order <- md.Get("name")[0]
			return nil
		}}, limited.ServerOptions())
		l.TryAcquire(1)
		for _, of := range []string{"a1", "a2", "a3", "b1"} {
			s, err := c.FullDuplexCall(metadata.AppendToOutgoingContext(t.Context(), "name", of))
			require.NoError(t, err)
			require.NoError(t, s.Send(payload(1)))
			t.Cleanup(func() { _ = received(s) })
			synctest.Wait()
		}
		for _, want := range []string{"a1", "b1", "a2", "a3"} { // one per second
			require.Equal(t, want, <-order)
		}
	})
}
