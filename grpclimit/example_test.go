package grpclimit_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/grpclimit"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// greeter is a service of the examples.
type greeter struct {
	pb.UnimplementedTestServiceServer
}

func (greeter) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Username: "hello"}, nil
}

// start starts a server with these options, and returns a client of it, and what ends both.
func start(server []grpc.ServerOption, client ...grpc.DialOption) (pb.TestServiceClient, func()) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := grpc.NewServer(server...)
	pb.RegisterTestServiceServer(s, greeter{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(listener)
	}()
	client = append(client, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(listener.Addr().String(), client...)
	if err != nil {
		log.Fatal(err)
	}
	return pb.NewTestServiceClient(conn), func() {
		conn.Close()
		s.Stop()
		<-done
	}
}

// A server accepts 10 calls a second, with bursts of 2.
func Example() {
	bucket := core.Must(core.NewTokenBucket(core.PerSecond(10, 2)))
	limits := core.Must(grpclimit.New(grpclimit.Options{
		Policies: []grpclimit.Policy{{Name: "calls", Limiter: grpclimit.Shared(bucket)}},
		Skip:     grpclimit.HealthAndReflection,
	}))
	client, stop := start(limits.ServerOptions()) // grpc.NewServer(limits.ServerOptions()...)
	defer stop()

	rejected := 0
	for range 20 {
		if _, err := client.UnaryCall(context.Background(), &pb.SimpleRequest{}); err != nil {
			rejected++
			if rejected == 1 {
				fmt.Println(status.Code(err), "-", status.Convert(err).Message())
			}
		}
	}
	fmt.Println(rejected > 0, rejected < 20)
	// Output:
	// ResourceExhausted - the limit is reached
	// true true
}

// A limit for each API key.
func ExampleByMetadata() {
	byKey := core.Must(partition.New(partition.Options[*grpclimit.Call, string]{
		Key: grpclimit.ByMetadata("x-api-key"),
		New: func(string) (core.Limiter, error) {
			return core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
		},
	}))
	limits := core.Must(grpclimit.New(grpclimit.Options{Policies: []grpclimit.Policy{{Name: "keys", Limiter: byKey}}}))
	client, stop := start(limits.ServerOptions())
	defer stop()

	for _, key := range []string{"alice", "alice", "alice", "bob"} {
		ctx := metadata.AppendToOutgoingContext(context.Background(), "x-api-key", key)
		_, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
		fmt.Println(key, status.Code(err))
	}
	// Output:
	// alice OK
	// alice OK
	// alice ResourceExhausted
	// bob OK
}

// Only failed calls count: at most 2 an hour.
func ExamplePolicy_refund() {
	failures := core.Must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 2, TokensPerPeriod: 2, ReplenishmentPeriod: time.Hour}))
	limits := core.Must(grpclimit.New(grpclimit.Options{Policies: []grpclimit.Policy{{
		Name:    "failures",
		Limiter: grpclimit.Shared(failures),
		Refund:  func(_ *grpclimit.Call, err error) bool { return err == nil },
	}}}))
	client, stop := start(limits.ServerOptions())
	defer stop()

	for range 3 {
		_, err := client.UnaryCall(context.Background(), &pb.SimpleRequest{})
		fmt.Println(status.Code(err))
	}
	for range 3 {
		_, err := client.CacheableUnaryCall(context.Background(), &pb.SimpleRequest{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// OK
	// Unimplemented
	// Unimplemented
	// ResourceExhausted
}

// A client backs off for as long as the server's rejections ask.
func ExampleClient() {
	bucket := core.Must(core.NewTokenBucket(core.PerSecond(2, 1)))
	limits := core.Must(grpclimit.New(grpclimit.Options{Policies: []grpclimit.Policy{{Name: "calls", Limiter: grpclimit.Shared(bucket)}}}))
	obedient := core.Must(grpclimit.NewClient(grpclimit.ClientOptions{HonorRetryAfter: true}))
	client, stop := start(limits.ServerOptions(), obedient.DialOptions()...)
	defer stop()

	bucket.TryAcquire(1) // another client's call
	_, err := client.UnaryCall(context.Background(), &pb.SimpleRequest{})
	fmt.Println(status.Code(err))
	_, err = client.UnaryCall(context.Background(), &pb.SimpleRequest{}) // waits
	fmt.Println(status.Code(err))
	// Output:
	// ResourceExhausted
	// OK
}

// These key functions are for partitions: a limit per address, per method or per certificate.
func ExampleByPeer() {
	byPeer := grpclimit.ByPeer(httplimit.IPOptions{})
	call := &grpclimit.Call{
		FullMethod: "/shop.v1.Search/Get",
		Peer:       &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4567},
	}
	fmt.Println(byPeer(call))
	fmt.Println(grpclimit.ByMethod(call))
	fmt.Printf("%q\n", grpclimit.ByIdentity(call)) // the connection has no TLS
	// Output:
	// 192.0.2.1/32
	// /shop.v1.Search/Get
	// ""
}

// With interceptors of your own, put those that run before the limits first.
func ExampleLimits_Unary() {
	calls := core.Must(core.NewTokenBucket(core.PerSecond(100, 20)))
	limits := core.Must(grpclimit.New(grpclimit.Options{Policies: []grpclimit.Policy{{Name: "calls", Limiter: grpclimit.Shared(calls)}}}))
	logged := func(ctx context.Context, r any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		fmt.Println(info.FullMethod)
		return handler(ctx, r)
	}
	client, stop := start([]grpc.ServerOption{
		grpc.ChainUnaryInterceptor(logged, limits.Unary()),
		grpc.ChainStreamInterceptor(limits.Stream()),
	})
	defer stop()
	_, err := client.UnaryCall(context.Background(), &pb.SimpleRequest{})
	fmt.Println(err)
	// Output:
	// /grpc.testing.TestService/UnaryCall
	// <nil>
}

// Tap rejects calls before the server starts a goroutine for them.
func ExampleLimits_Tap() {
	bucket := core.Must(core.NewTokenBucket(core.Every(time.Hour, 1)))
	limits := core.Must(grpclimit.New(grpclimit.Options{Policies: []grpclimit.Policy{{Name: "calls", Limiter: grpclimit.Shared(bucket)}}}))
	client, stop := start(append(limits.ServerOptions(), grpc.InTapHandle(limits.Tap())))
	defer stop()
	for range 2 {
		_, err := client.UnaryCall(context.Background(), &pb.SimpleRequest{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// ResourceExhausted
}

// OnRejected replaces the message of a rejection.
func ExampleRejection_Status() {
	bucket := core.Must(core.NewTokenBucket(core.Every(time.Hour, 1)))
	limits := core.Must(grpclimit.New(grpclimit.Options{
		Policies: []grpclimit.Policy{{Name: "calls", Limiter: grpclimit.Shared(bucket)}},
		OnRejected: func(_ context.Context, rejection *grpclimit.Rejection) error {
			answer := rejection.Status().Proto() // with RetryInfo and QuotaFailure
			answer.Message = "one call an hour, please"
			return status.FromProto(answer).Err()
		},
	}))
	client, stop := start(limits.ServerOptions())
	defer stop()
	for range 2 {
		_, err := client.UnaryCall(context.Background(), &pb.SimpleRequest{})
		fmt.Println(status.Convert(err).Message())
	}
	// Output:
	//
	// one call an hour, please
}

// A client chains the interceptors with its own.
func ExampleClient_Unary() {
	limiter := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 8, QueueLimit: 100}))
	limited := core.Must(grpclimit.NewClient(grpclimit.ClientOptions{Limiter: grpclimit.Shared(limiter)}))
	client, stop := start(nil,
		grpc.WithChainUnaryInterceptor(limited.Unary()), grpc.WithChainStreamInterceptor(limited.Stream()))
	defer stop()
	_, err := client.UnaryCall(context.Background(), &pb.SimpleRequest{})
	fmt.Println(err, limiter.Statistics().Granted)
	// Output: <nil> 1
}
