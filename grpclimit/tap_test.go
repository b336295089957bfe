package grpclimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/tap"

	"github.com/sluice-go/sluice/grpclimit"
)

func TestTap(t *testing.T) {
	bubble(t, "alone", func(t *testing.T) {
		b, conc := bucket(t, 1, 1), concurrency(t, 1, 0)
		l := limits(t, grpclimit.Options{Policies: []grpclimit.Policy{
			{Name: "at-once", Limiter: grpclimit.Shared(conc)}, {Name: "rate", Limiter: grpclimit.Shared(b)},
		}})
		held := 0
		c := serve(t, notes(&held, conc), []grpc.ServerOption{grpc.InTapHandle(l.Tap())})
		ask(t, c, codes.OK)
		require.Equal(t, 1, held)
		synctest.Wait()
		require.Equal(t, 1, conc.Available())
		_, err := c.UnaryCall(t.Context(), &pb.SimpleRequest{})
		code(t, codes.ResourceExhausted, err)
		retry, _, _ := details(err)
		require.Equal(t, time.Second, retry)
		require.Equal(t, 1, conc.Available())
	})
	bubble(t, "with the interceptors", func(t *testing.T) {
		b, conc := bucket(t, 1, 3), concurrency(t, 1, 1)
		l := limits(t, grpclimit.Options{Policies: []grpclimit.Policy{
			{Name: "rate", Limiter: grpclimit.Shared(b), Settle: func(*grpclimit.Call, error) int { return 2 }},
			{Name: "waits", Limiter: grpclimit.Shared(conc), MaxWait: -1},
		}})
		held := 0
		c := serve(t, notes(&held, conc), append(l.ServerOptions(), grpc.InTapHandle(l.Tap())))
		ask(t, c, codes.OK)
		require.Equal(t, 1, b.Available()) // asked once, and settled
		require.Equal(t, 1, held)
		require.Equal(t, 1, conc.Available())
	})
	bubble(t, "with the interceptors twice", func(t *testing.T) {
		b := bucket(t, 1, 3)
		l := limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(b)}))
		c := serve(t, new(service), append(append(l.ServerOptions(), l.ServerOptions()...), grpc.InTapHandle(l.Tap())))
		ask(t, c, codes.OK)
		require.Equal(t, 1, b.Available()) // the first has what Tap took, the second takes it again
	})
	bubble(t, "of a call that has ended", func(t *testing.T) {
		conc := concurrency(t, 1, 0)
		l := limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(conc)}))
		ctx, cancel := context.WithCancel(t.Context())
		ctx, err := l.Tap()(ctx, &tap.Info{FullMethodName: "/a.B/C"})
		require.NoError(t, err)
		require.Zero(t, conc.Available())
		cancel()
		synctest.Wait()
		require.Equal(t, 1, conc.Available())
		_, err = l.Unary()(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}, func(context.Context, any) (any, error) {
			require.Zero(t, conc.Available(), "the interceptor takes a permit of its own")
			return nil, nil
		})
		require.NoError(t, err)
		require.Equal(t, 1, conc.Available())
	})
}
