package grpclimit_test

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/grpclimit"
)

// service is a test service whose calls do what its fields say.
type service struct {
	pb.UnimplementedTestServiceServer

	unary  func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error)
	duplex func(pb.TestService_FullDuplexCallServer) error
}

func (s *service) UnaryCall(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if s.unary == nil {
		return &pb.SimpleResponse{}, nil
	}
	return s.unary(ctx, r)
}

func (s *service) FullDuplexCall(stream pb.TestService_FullDuplexCallServer) error {
	return s.duplex(stream)
}

// notes returns a service whose calls note how many permits of a limiter of one are held.
func notes(held *int, l core.Limiter) *service {
	return &service{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		*held = 1 - l.Available()
		return &pb.SimpleResponse{}, nil
	}}
}

// serve starts a server in memory, and returns a client of it. Both end with the test.
func serve(t *testing.T, s pb.TestServiceServer, server []grpc.ServerOption, client ...grpc.DialOption) pb.TestServiceClient {
	t.Helper()
	return serveAt(t, "passthrough:///memory", s, server, client...)
}

// serveAt is serve for a server that clients know by this target.
func serveAt(t *testing.T, target string, s pb.TestServiceServer, server []grpc.ServerOption, client ...grpc.DialOption) pb.TestServiceClient {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	client = append(client, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	return serveOn(t, l, target, s, server, client...)
}

// overTCP does so on the loopback.
func overTCP(t *testing.T, s pb.TestServiceServer, server []grpc.ServerOption) pb.TestServiceClient {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return serveOn(t, l, l.Addr().String(), s, server)
}

func serveOn(t *testing.T, l net.Listener, target string, s pb.TestServiceServer, server []grpc.ServerOption, client ...grpc.DialOption) pb.TestServiceClient {
	t.Helper()
	srv := grpc.NewServer(server...)
	pb.RegisterTestServiceServer(srv, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	cc, err := grpc.NewClient(target, append(client, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = cc.Close()
		srv.Stop()
		<-done
	})
	return pb.NewTestServiceClient(cc)
}

// recovering returns interceptors for handlers that panic or call runtime.Goexit.
func recovering() []grpc.ServerOption {
	recovers := func(handle func() error) (err error) {
		returned := false
		defer func() {
			if recover() != nil || !returned {
				err = status.Error(codes.Internal, "recovered")
			}
		}()
		err = handle()
		returned = true
		return err
	}
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (resp any, err error) {
			err = recovers(func() (err error) {
				resp, err = h(ctx, req)
				return err
			})
			return resp, err
		}),
		grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			return recovers(func() error { return h(srv, ss) })
		}),
	}
}

// bubble runs a test in a synctest bubble.
func bubble(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func limits(t *testing.T, o grpclimit.Options) *grpclimit.Limits {
	t.Helper()
	return core.Must(grpclimit.New(o))
}

func bucket(t *testing.T, perSecond, burst int) *core.TokenBucket {
	t.Helper()
	return core.Must(core.NewTokenBucket(core.PerSecond(perSecond, burst)))
}

func concurrency(t *testing.T, permits, queue int) *core.ConcurrencyLimiter {
	t.Helper()
	return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: queue}))
}

func one(p grpclimit.Policy) grpclimit.Options {
	if p.Name == "" {
		p.Name = "calls"
	}
	return grpclimit.Options{Policies: []grpclimit.Policy{p}}
}

// code asserts err's code.
func code(t *testing.T, want codes.Code, err error) {
	t.Helper()
	require.Equal(t, want, status.Code(err), "%v", err)
}

// limited starts a server under one policy.
func limited(t *testing.T, p grpclimit.Policy, s pb.TestServiceServer) pb.TestServiceClient {
	t.Helper()
	return serve(t, s, limits(t, one(p)).ServerOptions())
}

// ask makes a unary call, and asserts its code.
func ask(t *testing.T, c pb.TestServiceClient, want codes.Code) {
	t.Helper()
	_, err := c.UnaryCall(t.Context(), &pb.SimpleRequest{})
	code(t, want, err)
}

// duplex opens a stream for messages of both sides.
func duplex(t *testing.T, c pb.TestServiceClient) pb.TestService_FullDuplexCallClient {
	t.Helper()
	return core.Must(c.FullDuplexCall(t.Context()))
}

// received returns the error of the next message.
func received(s pb.TestService_FullDuplexCallClient) error {
	_, err := s.Recv()
	return err
}

// finish ends a stream, and wants the server to end it well.
func finish(t *testing.T, s pb.TestService_FullDuplexCallClient) {
	t.Helper()
	require.NoError(t, s.CloseSend())
	require.ErrorIs(t, received(s), io.EOF)
}

// details returns what a status tells of a rejection.
func details(err error) (retry time.Duration, subject, description string) {
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			retry = d.GetRetryDelay().AsDuration()
		case *errdetails.QuotaFailure:
			subject, description = d.GetViolations()[0].GetSubject(), d.GetViolations()[0].GetDescription()
		}
	}
	return retry, subject, description
}
