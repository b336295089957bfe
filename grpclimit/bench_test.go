package grpclimit_test

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/grpclimit"
)

// BenchmarkUnary is a unary call through an interceptor, without a connection: the empty one, and
// one of one policy.
func BenchmarkUnary(b *testing.B) {
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1000})
	if err != nil {
		b.Fatal(err)
	}
	limits, err := grpclimit.New(grpclimit.Options{Policies: []grpclimit.Policy{{Name: "calls", Limiter: grpclimit.Shared(l)}}})
	if err != nil {
		b.Fatal(err)
	}
	ctx := metadata.NewIncomingContext(b.Context(), metadata.Pairs(":authority", "a", "content-type", "application/grpc", "user-agent", "grpc-go/1"))
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(1, 2, 3, 4), Port: 5}})
	request, response := &pb.SimpleRequest{}, &pb.SimpleResponse{}
	info := &grpc.UnaryServerInfo{FullMethod: "/grpc.testing.TestService/UnaryCall"}
	handler := func(context.Context, any) (any, error) { return response, nil }
	for name, intercept := range map[string]grpc.UnaryServerInterceptor{
		"empty": func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			return h(ctx, req)
		},
		"sluice": limits.Unary(),
	} {
		b.Run("impl="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := intercept(ctx, request, info, handler); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A grant of one policy costs three allocations: the admission, the limiter bound to the call, and the
// function that ends the ask.
func TestAllocations(t *testing.T) {
	l := limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(concurrency(t, 1000, 0))}))
	unary, stream := l.Unary(), l.Stream()
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(":authority", "a", "user-agent", "grpc-go/1"))
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(1, 2, 3, 4), Port: 5}})
	request, response := &pb.SimpleRequest{}, &pb.SimpleResponse{}
	info, streamInfo := &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}, &grpc.StreamServerInfo{FullMethod: "/a.B/C"}
	handler := func(context.Context, any) (any, error) { return response, nil }
	ss := &bareStream{ctx: ctx}
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() { _, _ = unary(ctx, request, info, handler) }), 3.0)
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		_ = stream(nil, ss, streamInfo, func(any, grpc.ServerStream) error { return nil })
	}), 3.0)
}

// bareStream is a stream without a connection.
type bareStream struct {
	grpc.ServerStream

	ctx context.Context
}

func (s *bareStream) Context() context.Context { return s.ctx }
