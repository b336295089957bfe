package grpclimit_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/grpclimit"
)

func client(t *testing.T, o grpclimit.ClientOptions) *grpclimit.Client {
	t.Helper()
	return core.Must(grpclimit.NewClient(o))
}

func TestClientWaitsForItsLimiter(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		b := bucket(t, 1, 1)
		cl := client(t, grpclimit.ClientOptions{
			Limiter: grpclimit.Shared(b),
			Cost: func(c *grpclimit.Call) int {
				if c.FullMethod == "/grpc.testing.TestService/EmptyCall" {
					return 0
				}
				return 1
			},
		})
		c := serve(t, new(service), nil, cl.DialOptions()...)
		start := time.Now()
		for range 3 {
			ask(t, c, codes.OK)
		}
		require.Equal(t, 2*time.Second, time.Since(start))
		_, err := c.EmptyCall(t.Context(), &pb.Empty{})
		code(t, codes.Unimplemented, err)
		require.Equal(t, 2*time.Second, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = c.UnaryCall(ctx, &pb.SimpleRequest{})
		require.ErrorIs(t, err, core.ErrRejected) // the wait would outlast the deadline
		code(t, codes.ResourceExhausted, err)
		retry, _, _ := details(err)
		require.Equal(t, time.Second, retry)
	})
	bubble(t, "a context that ends", func(t *testing.T) {
		conc := concurrency(t, 1, 1)
		held := conc.TryAcquire(1)
		defer held.Release()
		c := serve(t, new(service), nil, client(t, grpclimit.ClientOptions{Limiter: grpclimit.Shared(conc)}).DialOptions()...)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{})
		code(t, codes.Canceled, err)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestClientHoldsItsLeaseUntilTheStreamEnds(t *testing.T) {
	ends := map[string]func(*testing.T, pb.TestService_FullDuplexCallClient, context.CancelFunc){
		"end": func(t *testing.T, s pb.TestService_FullDuplexCallClient, _ context.CancelFunc) {
			finish(t, s)
		},
		"cancel": func(_ *testing.T, _ pb.TestService_FullDuplexCallClient, cancel context.CancelFunc) { cancel() },
	}
	for name, end := range ends {
		bubble(t, name, func(t *testing.T) {
			conc := concurrency(t, 1, 1)
			cl := client(t, grpclimit.ClientOptions{
				Limiter: grpclimit.Shared(conc), HonorRetryAfter: true,
				Settle: func(c *grpclimit.Call, _ error) int { require.True(t, c.Stream); return -1 },
			})
			c := serve(t, &service{duplex: drain}, nil, cl.DialOptions()...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, err := c.FullDuplexCall(ctx)
			require.NoError(t, err)
			synctest.Wait()
			require.Zero(t, conc.Available())
			end(t, s, cancel)
			synctest.Wait()
			require.Equal(t, 1, conc.Available())
		})
	}
}

// A client backs off for as long as the server asks, in its status or its trailer. The longer of the two counts.
func TestHonorRetryAfter(t *testing.T) {
	for name, c := range map[string]struct {
		code                 codes.Code
		pushback, info, most time.Duration
		want                 time.Duration
	}{
		"pushback alone":        {codes.Unavailable, 2 * time.Second, 0, 0, 2 * time.Second},
		"RetryInfo alone":       {codes.ResourceExhausted, 0, 2 * time.Second, 0, 2 * time.Second},
		"longer pushback":       {codes.Unavailable, 2 * time.Second, time.Second, 0, 2 * time.Second},
		"longer RetryInfo":      {codes.Unavailable, time.Second, 2 * time.Second, 0, 2 * time.Second},
		"at most MaxRetryAfter": {codes.Unavailable, 0, time.Hour, 500 * time.Millisecond, 500 * time.Millisecond},
		"at most a minute":      {codes.Unavailable, 0, time.Hour, 0, time.Minute},
		"no rejection":          {codes.InvalidArgument, 0, time.Hour, 0, 0},
	} {
		bubble(t, name, func(t *testing.T) {
			busy, err := status.New(c.code, "busy").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(c.info)})
			require.NoError(t, err)
			answer := busy.Err()
			server := &service{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", strconv.FormatInt(c.pushback.Milliseconds(), 10)))
				return &pb.SimpleResponse{}, answer
			}}
			o := grpclimit.ClientOptions{HonorRetryAfter: true, MaxRetryAfter: c.most}
			client := serve(t, server, nil, client(t, o).DialOptions()...)
			_, err = client.UnaryCall(t.Context(), &pb.SimpleRequest{})
			code(t, c.code, err)
			answer = nil
			start := time.Now()
			_, err = client.UnaryCall(t.Context(), &pb.SimpleRequest{})
			require.NoError(t, err)
			heldFor(t, c.want, start)
		})
	}
}

// What one server says delays no calls of the others.
func TestHonorRetryAfterOfOneServer(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		o := client(t, grpclimit.ClientOptions{HonorRetryAfter: true}).DialOptions()
		busy := serve(t, new(service), limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(bucket(t, 1, 1))})).ServerOptions(), o...)
		other := serveAt(t, "passthrough:///other", new(service), nil, o...)
		ask(t, busy, codes.OK)
		ask(t, busy, codes.ResourceExhausted)
		start := time.Now()
		ask(t, other, codes.OK)
		require.Zero(t, time.Since(start))
		ask(t, busy, codes.OK)
		heldFor(t, time.Second, start)
	})
}

// What the client's own limiter says is in the status of the call.
func TestAClientsRejection(t *testing.T) {
	empty := core.Must(core.NewTokenBucket(core.TokenBucketOptions{Name: "own", TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}))
	empty.TryAcquire(1)
	for name, c := range map[string]struct {
		limiter          core.Limiter
		want             codes.Code
		message, subject string
	}{
		"rate":        {empty, codes.ResourceExhausted, "the limit is reached", "own"},
		"concurrency": {core.Blocked(), codes.Unavailable, "the limit is reached", ""},
		"failure":     {refuser{errors.New("secret")}, codes.Unavailable, "the limiter failed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := client(t, grpclimit.ClientOptions{Limiter: grpclimit.Shared(c.limiter)}).Unary()(t.Context(), "/a.B/C", nil, nil, nil, nil)
			code(t, c.want, err)
			_, subject, _ := details(err)
			require.Equal(t, c.subject, subject)
			require.Equal(t, c.message, status.Convert(err).Message())
		})
	}
}

// The server's limit is one call a second. What it says of one method delays no other.
func TestHonorRetryAfterOfALimitedServer(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		calls := 0
		l := limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(bucket(t, 1, 1))}))
		count := grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			calls++
			return h(ctx, req)
		})
		o := client(t, grpclimit.ClientOptions{HonorRetryAfter: true}).DialOptions()
		c := serve(t, &service{duplex: drain}, append([]grpc.ServerOption{count}, l.ServerOptions()...), o...)
		ask(t, c, codes.OK)
		s := duplex(t, c)
		code(t, codes.ResourceExhausted, received(s))
		start := time.Now()
		ask(t, c, codes.ResourceExhausted) // was not delayed
		require.Zero(t, time.Since(start))
		s = duplex(t, c)
		heldFor(t, time.Second, start)
		finish(t, s)

		time.Sleep(time.Minute)
		ask(t, c, codes.OK)
		ask(t, c, codes.ResourceExhausted)
		calls = 0
		ctx, cancel := context.WithTimeout(t.Context(), 999*time.Millisecond)
		defer cancel()
		start = time.Now()
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{})
		code(t, codes.ResourceExhausted, err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, core.ErrRejected)
		require.Contains(t, status.Convert(err).Message(), "the server has asked to wait 1s longer, beyond the deadline: the limit is reached")
		retry, _, _ := details(err)
		require.Equal(t, time.Second, retry)
		require.Zero(t, time.Since(start))
		require.Zero(t, calls)
	})
}

// heldFor asserts that a call was delayed by d, and a tenth at most.
func heldFor(t *testing.T, d time.Duration, start time.Time) {
	t.Helper()
	require.GreaterOrEqual(t, time.Since(start), d)
	require.LessOrEqual(t, time.Since(start), d+d/10)
}

// A call that fails, panics or ends its goroutine, and a stream that does so before it starts, is settled, and
// holds nothing. A client's own panic is not that of a handler.
func TestClientSettlesACallHoweverItEnds(t *testing.T) {
	odd, panicked := errors.New("odd"), status.Error(codes.Internal, "the call panicked")
	for name, c := range map[string]struct {
		end  func() error
		want error
	}{
		"error":  {func() error { return odd }, odd},
		"panic":  {func() error { panic("odd") }, panicked},
		"Goexit": {func() error { runtime.Goexit(); return nil }, panicked},
	} {
		bubble(t, name, func(t *testing.T) {
			conc := concurrency(t, 1, 0)
			var outcome error
			cl := client(t, grpclimit.ClientOptions{Limiter: grpclimit.Shared(conc), Settle: func(_ *grpclimit.Call, err error) int {
				outcome = err
				return -1
			}})
			for _, call := range []func(){
				func() {
					_ = cl.Unary()(t.Context(), "/a.B/C", nil, nil, nil,
						func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return c.end() })
				},
				func() {
					_, _ = cl.Stream()(t.Context(), new(grpc.StreamDesc), nil, "/a.B/C",
						func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
							return nil, c.end()
						})
				},
			} {
				outcome = nil
				go func() {
					defer func() { _ = recover() }()
					call()
				}()
				synctest.Wait()
				require.Equal(t, c.want, outcome)
				require.Equal(t, 1, conc.Available())
			}
		})
	}
}

// The retries of gRPC itself obey the trailer.
func TestRetriesOfTheServiceConfig(t *testing.T) {
	const config = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.001s",
		"maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`
	bubble(t, "waits", func(t *testing.T) {
		l := limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(bucket(t, 1, 1))}))
		c := serve(t, new(service), l.ServerOptions(), grpc.WithDefaultServiceConfig(config))
		start := time.Now()
		for range 3 {
			ask(t, c, codes.OK)
		}
		require.Equal(t, 2*time.Second, time.Since(start))
	})
	bubble(t, "gives up where waiting cannot help", func(t *testing.T) {
		b, asked := bucket(t, 1, 1), 0
		l := limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(b), Cost: func(*grpclimit.Call) int { asked++; return 2 }}))
		c := serve(t, new(service), l.ServerOptions(), grpc.WithDefaultServiceConfig(config))
		ask(t, c, codes.ResourceExhausted)
		require.Equal(t, 1, asked)
	})
}

func TestClientSettles(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		b := bucket(t, 1, 5)
		c := serve(t, new(service), nil, client(t, grpclimit.ClientOptions{
			Limiter: grpclimit.Shared(b), Settle: func(_ *grpclimit.Call, err error) int {
				require.NoError(t, err)
				return 3
			},
		}).DialOptions()...)
		ask(t, c, codes.OK)
		require.Equal(t, 2, b.Available())
	})
}

func TestClientOptions(t *testing.T) {
	_, err := grpclimit.NewClient(grpclimit.ClientOptions{MaxRetryAfter: -1})
	require.ErrorContains(t, err, "grpclimit: ClientOptions.MaxRetryAfter = -1ns, want at least 0")
}
