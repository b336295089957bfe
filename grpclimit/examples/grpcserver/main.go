// Grpcserver is a gRPC server under limits: a rate per client, a number of calls at once, and a
// bandwidth for the messages of streams. With -selftest it calls itself, and prints what came of it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/grpclimit"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
)

type settings struct {
	rate, burst, atOnce, bytes int
}

func main() {
	var s settings
	addr := flag.String("addr", "127.0.0.1:50051", "where to listen")
	flag.IntVar(&s.rate, "rate", 10, "calls a second of one client")
	flag.IntVar(&s.burst, "burst", 20, "calls that one client may make at once")
	flag.IntVar(&s.atOnce, "at-once", 100, "calls of all clients in flight")
	flag.IntVar(&s.bytes, "bytes", 1_000_000, "bytes a second that all streams may send to the server")
	selftest := flag.Bool("selftest", false, "listen on any port, call the server, and exit")
	flag.Parse()
	limits, err := s.limits()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if *selftest {
		*addr = "127.0.0.1:0"
	}
	if err := run(*addr, limits, *selftest); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// limits returns the server's limits.
func (s settings) limits() (*grpclimit.Limits, error) {
	perClient, err := partition.New(partition.Options[*grpclimit.Call, netip.Prefix]{
		Key: grpclimit.ByPeer(httplimit.IPOptions{}),
		New: func(netip.Prefix) (core.Limiter, error) { return core.NewTokenBucket(core.PerSecond(s.rate, s.burst)) },
	})
	_, invalid := core.NewTokenBucket(core.PerSecond(s.rate, s.burst)) // otherwise New would return it for each call
	atOnce, invalid2 := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: s.atOnce, QueueLimit: s.atOnce})
	bandwidth, invalid3 := core.NewTokenBucket(ioreader.PerSecond(s.bytes))
	if err := errors.Join(err, invalid, invalid2, invalid3); err != nil {
		return nil, err
	}
	return grpclimit.New(grpclimit.Options{
		Policies: []grpclimit.Policy{
			{Name: "per-client", Limiter: perClient},
			{Name: "at-once", Limiter: grpclimit.Shared(atOnce), MaxWait: time.Second},
			{Name: "uploads", Methods: []string{"/grpc.testing.TestService/StreamingInputCall"}, ReceiveBytes: grpclimit.Shared(bandwidth)},
		},
		Skip: grpclimit.HealthAndReflection,
	})
}

// run serves until it fails, or calls the server and ends.
func run(addr string, limits *grpclimit.Limits, selftest bool) error {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return err
	}
	server := grpc.NewServer(limits.ServerOptions()...)
	defer server.Stop()
	pb.RegisterTestServiceServer(server, service{})
	healthpb.RegisterHealthServer(server, health.NewServer())
	if !selftest {
		fmt.Println("listening on", listener.Addr())
		return server.Serve(listener)
	}
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	return call(context.Background(), conn)
}

// call calls the server, and prints what came of it.
func call(ctx context.Context, conn *grpc.ClientConn) error {
	client, results := pb.NewTestServiceClient(conn), make(map[codes.Code]int)
	for range 30 {
		_, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
		results[status.Code(err)]++
	}
	fmt.Printf("30 unary calls: %d OK, %d ResourceExhausted\n", results[codes.OK], results[codes.ResourceExhausted])
	if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		return err
	}
	fmt.Println("health checks pass")

	time.Sleep(time.Second)
	start := time.Now()
	stream, err := client.StreamingInputCall(ctx)
	if err != nil {
		return err
	}
	message := &pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: make([]byte, 10_000)}}
	for range 50 {
		if err := stream.Send(message); err != nil {
			break // CloseAndRecv has the reason
		}
	}
	if _, err := stream.CloseAndRecv(); err != nil {
		return err
	}
	fmt.Printf("500 kB in %.1f s\n", time.Since(start).Seconds())
	return nil
}

// service is a service of which two methods work.
type service struct {
	pb.UnimplementedTestServiceServer
}

func (service) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{}, nil
}

func (service) StreamingInputCall(s pb.TestService_StreamingInputCallServer) error {
	for {
		if _, err := s.Recv(); errors.Is(err, io.EOF) {
			return s.SendAndClose(&pb.StreamingInputCallResponse{})
		} else if err != nil {
			return err
		}
	}
}
