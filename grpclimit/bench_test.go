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

	"github.com/sluice-go/sluice/grpclimit"
)

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
