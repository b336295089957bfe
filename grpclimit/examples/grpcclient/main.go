// Grpcclient makes calls to a server of its own that limits them, until each has been served: once as
// fast as it can, and once as the server's rejections ask for.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/grpclimit"
)

func main() {
	calls := flag.Int("n", 20, "calls that each client makes")
	rate := flag.Int("rate", 50, "calls a second that the server serves")
	flag.Parse()
	if *calls < 1 || *rate < 1 {
		fmt.Fprintln(os.Stderr, "-n and -rate: want at least 1")
		os.Exit(2)
	}
	for _, client := range []struct {
		name string
		obey bool
	}{{"rude", false}, {"polite", true}} {
		if err := compare(client.name, client.obey, *calls, *rate); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// compare makes the calls of one client, and prints what they took.
func compare(name string, obey bool, calls, rate int) error {
	addr, stop, err := serve(rate)
	if err != nil {
		return err
	}
	defer stop()
	limited, err := grpclimit.NewClient(grpclimit.ClientOptions{HonorRetryAfter: obey})
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(addr, append(limited.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return err
	}
	defer conn.Close()

	client, start := pb.NewTestServiceClient(conn), time.Now()
	attempts, rejected := 0, 0
	for served := 0; served < calls; {
		attempts++
		switch _, err := client.UnaryCall(context.Background(), &pb.SimpleRequest{}); status.Code(err) {
		case codes.OK:
			served++
		case codes.ResourceExhausted:
			rejected++
		default:
			return err
		}
	}
	fmt.Printf("%-7s %d calls with %d attempts, %d of them rejected, in %v\n",
		name, calls, attempts, rejected, time.Since(start).Round(10*time.Millisecond))
	return nil
}

// serve starts a server, and returns its address and what stops it.
func serve(rate int) (addr string, stop func(), err error) {
	bucket, err := core.NewTokenBucket(core.PerSecond(rate, 1))
	if err != nil {
		return "", nil, err
	}
	limits, err := grpclimit.New(grpclimit.Options{
		Policies: []grpclimit.Policy{{Name: "calls", Limiter: grpclimit.Shared(bucket)}},
	})
	if err != nil {
		return "", nil, err
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := grpc.NewServer(limits.ServerOptions()...)
	pb.RegisterTestServiceServer(server, service{})
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String(), server.Stop, nil
}

// service is a service of which one method works.
type service struct {
	pb.UnimplementedTestServiceServer
}

func (service) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{}, nil
}
