package grpc

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/ratelimit"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/grpclimit"
)

// perSecond is the rate of all calls, which none of them reaches.
const perSecond = 1_000_000_000

// interceptors are of one limit on the rate of all calls.
var interceptors = []struct {
	name string
	make func(b *testing.B) grpc.UnaryServerInterceptor
}{
	{"none", func(*testing.B) grpc.UnaryServerInterceptor {
		return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			return handler(ctx, req)
		}
	}},
	{"sluice", newSluice},
	{"middleware", func(*testing.B) grpc.UnaryServerInterceptor {
		return ratelimit.UnaryServerInterceptor(allowing{rate.NewLimiter(perSecond, perSecond)})
	}},
	{"failsafe", func(*testing.B) grpc.UnaryServerInterceptor {
		return failsafegrpc.NewUnaryServerInterceptor[*pb.SimpleResponse](ratelimiter.NewBursty[*pb.SimpleResponse](perSecond, time.Second))
	}},
}

func newSluice(b *testing.B) grpc.UnaryServerInterceptor {
	b.Helper()
	l, err := core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: perSecond, TokensPerPeriod: perSecond / 1000, ReplenishmentPeriod: time.Millisecond,
	})
	if err != nil {
		b.Fatal(err)
	}
	limits, err := grpclimit.New(grpclimit.Options{
		Policies: []grpclimit.Policy{{Name: "calls", Limiter: grpclimit.Shared(l)}},
	})
	if err != nil {
		b.Fatal(err)
	}
	return limits.Unary()
}

// allowing is what users of go-grpc-middleware write.
type allowing struct{ limiter *rate.Limiter }

var errLimited = errors.New("limited")

func (a allowing) Limit(context.Context) error {
	if !a.limiter.Allow() {
		return errLimited
	}
	return nil
}

// BenchmarkInterceptor is a granted unary call, without a connection.
func BenchmarkInterceptor(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(":authority", "a", "content-type", "application/grpc", "user-agent", "grpc-go/1"))
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(1, 2, 3, 4), Port: 5}})
	request, response := &pb.SimpleRequest{}, &pb.SimpleResponse{}
	info := &grpc.UnaryServerInfo{FullMethod: "/grpc.testing.TestService/UnaryCall"}
	handler := func(context.Context, any) (any, error) { return response, nil }
	var impls []sidebyside.Impl
	for _, i := range interceptors {
		impls = append(impls, sidebyside.Impl{Name: i.name, Run: func(b *testing.B) {
			intercept := i.make(b)
			for b.Loop() {
				if _, err := intercept(ctx, request, info, handler); err != nil {
					b.Fatal(err)
				}
			}
		}})
	}
	sidebyside.Compare(b, impls...)
}
