package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/grpclimit"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// kinds are calls of all four kinds, each with two messages where there can be several. They
// return the error of the call.
var kinds = map[string]func(context.Context, pb.TestServiceClient) error{
	"unary": func(ctx context.Context, c pb.TestServiceClient) error {
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{})
		return err
	},
	"client stream": func(ctx context.Context, c pb.TestServiceClient) error {
		s, err := c.StreamingInputCall(ctx)
		if err != nil {
			return err
		}
		for range 2 {
			_ = s.Send(&pb.StreamingInputCallRequest{}) // RecvMsg has its error
		}
		_, err = s.CloseAndRecv()
		return err
	},
	"server stream": func(ctx context.Context, c pb.TestServiceClient) error {
		s, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
		if err != nil {
			return err
		}
		return toTheEnd(s)
	},
	"both": func(ctx context.Context, c pb.TestServiceClient) error {
		s, err := c.FullDuplexCall(ctx)
		if err != nil {
			return err
		}
		for range 2 {
			_ = s.Send(&pb.StreamingOutputCallRequest{})
		}
		_ = s.CloseSend()
		return toTheEnd(s)
	},
}

func toTheEnd(s interface {
	Recv() (*pb.StreamingOutputCallResponse, error)
},
) error {
	for {
		if _, err := s.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// echo is a service that answers each message.
type echo struct {
	pb.UnimplementedTestServiceServer
}

func (echo) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{}, nil
}

func (echo) StreamingInputCall(s pb.TestService_StreamingInputCallServer) error {
	for {
		if _, err := s.Recv(); errors.Is(err, io.EOF) {
			return s.SendAndClose(&pb.StreamingInputCallResponse{})
		} else if err != nil {
			return err
		}
	}
}

func (echo) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
	for range 2 {
		if err := s.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
	return nil
}

func (echo) FullDuplexCall(s pb.TestService_FullDuplexCallServer) error {
	for {
		if _, err := s.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// Each kind of call over TCP, by a client whose address is the key: the third is rejected. One that is skipped passes.
func TestAllKindsOverTCP(t *testing.T) {
	for name, call := range kinds {
		t.Run(name, func(t *testing.T) {
			keyed := core.Must(partition.New(partition.Options[*grpclimit.Call, string]{
				Key: func(c *grpclimit.Call) string {
					return grpclimit.ByPeer(httplimit.IPOptions{})(c).String() + c.FullMethod
				},
				New: func(string) (core.Limiter, error) {
					return core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
				},
			}))
			atOnce, in, out := concurrency(t, 1, 0), concurrency(t, 1, 10), concurrency(t, 1, 10)
			o := grpclimit.Options{Policies: []grpclimit.Policy{
				{Name: "rate", Limiter: keyed},
				{Name: "at-once", Limiter: grpclimit.Shared(atOnce), Receive: grpclimit.Shared(in), Send: grpclimit.Shared(out)},
			}}
			c := overTCP(t, echo{}, limits(t, o).ServerOptions())
			for i := range 3 {
				// The handler's lease comes back just after the client has its answer.
				require.Eventually(t, func() bool { return atOnce.Available() == 1 }, time.Minute, time.Millisecond)
				err := call(t.Context(), c)
				if i < 2 {
					require.NoError(t, err)
					continue
				}
				code(t, codes.ResourceExhausted, err)
				retry, subject, _ := details(err)
				require.Positive(t, retry)
				require.Equal(t, "rate", subject)
			}
			require.Eventually(t, func() bool { return in.Available()+out.Available() == 2 }, time.Minute, time.Millisecond)
			held := atOnce.TryAcquire(1)
			defer held.Release()
			o.Skip = func(*grpclimit.Call) bool { return true }
			skipping := limits(t, o)
			require.NoError(t, call(t.Context(), overTCP(t, echo{}, append(skipping.ServerOptions(), grpc.InTapHandle(skipping.Tap())))))
		})
	}
}

// A client that leaves, or has no time left, while its call of any kind is queued, was not rejected.
func TestAllKindsLeaveTheQueue(t *testing.T) {
	for name, call := range kinds {
		for _, canceled := range []bool{true, false} {
			bubble(t, name, func(t *testing.T) {
				conc := concurrency(t, 1, 5)
				held := conc.TryAcquire(1)
				o := one(grpclimit.Policy{Limiter: grpclimit.Shared(conc), MaxWait: time.Hour})
				var seen tally
				o.Observer = &seen
				o.OnRejected = func(context.Context, *grpclimit.Rejection) error { panic("it was not rejected") }
				c := serve(t, echo{}, limits(t, o).ServerOptions())
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				want, took := codes.DeadlineExceeded, time.Minute
				if canceled {
					want, took = codes.Canceled, time.Second
					time.AfterFunc(time.Second, cancel)
				}
				start := time.Now()
				code(t, want, call(ctx, c))
				require.Equal(t, took, time.Since(start))
				synctest.Wait()
				require.Zero(t, conc.Statistics().Queued)
				require.Zero(t, seen.queued.Load())
				require.Equal(t, []int64{1, 1}, []int64{seen.decided.Load(), seen.canceled.Load()})
				held.Release()
				require.Equal(t, 1, conc.Available())
			})
		}
	}
}
