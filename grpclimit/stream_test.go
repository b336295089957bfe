package grpclimit_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/grpclimit"
	"github.com/sluice-go/sluice/ioreader"
)

// drain receives messages until the stream ends.
func drain(stream pb.TestService_FullDuplexCallServer) error {
	for {
		if _, err := stream.Recv(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

func payload(n int) *pb.StreamingOutputCallRequest {
	return &pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: make([]byte, n)}}
}

// queued returns a bucket whose queue holds 1,000 permits.
func queued(t *testing.T, perSecond, burst int) core.Limiter {
	t.Helper()
	o := core.PerSecond(perSecond, burst)
	o.QueueLimit = 1000
	l := core.Must(core.NewTokenBucket(o))
	return l
}

func TestReceive(t *testing.T) {
	bubble(t, "bytes, in bounded memory", func(t *testing.T) {
		// 20 MB at 1 MB/s: the sender is stopped by flow control all the while.
		down := core.Must(core.NewTokenBucket(ioreader.PerSecond(1_000_000)))
		c := limited(t, grpclimit.Policy{ReceiveBytes: grpclimit.Shared(down)}, &service{duplex: drain})
		s := duplex(t, c)
		start := time.Now()
		for range 2000 {
			require.NoError(t, s.Send(payload(10_000)))
		}
		sent := time.Now()
		finish(t, s)
		took := time.Since(start)
		require.InDelta(t, 20, took.Seconds(), 0.2)
		require.Less(t, time.Since(sent), 300*time.Millisecond) // so little was in between
	})
	bubble(t, "a concurrency limiter is held while a message is handled", func(t *testing.T) {
		conc := concurrency(t, 1, 5)
		l := limits(t, one(grpclimit.Policy{Receive: grpclimit.Shared(conc)}))
		next := make(chan struct{})
		c := serve(t, &service{duplex: func(s pb.TestService_FullDuplexCallServer) error {
			for {
				if _, err := s.Recv(); err != nil {
					return nil //nolint:nilerr // the stream has ended
				}
				<-next
			}
		}}, l.ServerOptions())
		s := duplex(t, c)
		require.NoError(t, s.Send(payload(1)))
		synctest.Wait()
		require.Zero(t, conc.Available())
		next <- struct{}{}
		synctest.Wait()
		require.Equal(t, 1, conc.Available())
		finish(t, s)
	})
}

func TestSend(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		down := core.Must(core.NewTokenBucket(ioreader.PerSecond(100_000)))
		l := limits(t, one(grpclimit.Policy{Send: grpclimit.Shared(queued(t, 10, 1)), SendBytes: grpclimit.Shared(down)}))
		c := serve(t, &service{duplex: func(s pb.TestService_FullDuplexCallServer) error {
			for range 11 {
				if err := s.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, 100)}}); err != nil {
					return err
				}
			}
			return s.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, 100_000)}})
		}}, l.ServerOptions())
		start := time.Now()
		s := duplex(t, c)
		for range 11 {
			_, err := s.Recv()
			require.NoError(t, err)
		}
		require.Equal(t, time.Second, time.Since(start))
		_, err := s.Recv()
		require.NoError(t, err)
		require.InDelta(t, 2.1, time.Since(start).Seconds(), 0.02)
		require.ErrorIs(t, received(s), io.EOF)
	})
}

// A permit of Send is held until the message has been sent.
func TestSendReturnsItsPermit(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		conc, left := concurrency(t, 1, 0), []int{}
		s := duplex(t, limited(t, grpclimit.Policy{Send: grpclimit.Shared(conc)}, &service{duplex: func(s pb.TestService_FullDuplexCallServer) error {
			for range 2 {
				assert.NoError(t, s.Send(payload100()))
				left = append(left, conc.Available())
			}
			return nil
		}}))
		require.NoError(t, toTheEnd(s))
		require.Equal(t, []int{1, 1}, left)
	})
}

// A client that leaves while its message waits was not rejected, and no limiter has failed.
func TestAClientLeavesWhileItsMessageWaits(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var log bytes.Buffer
		conc := concurrency(t, 1, 5)
		defer conc.TryAcquire(1).Release()
		o := one(grpclimit.Policy{Receive: grpclimit.Shared(conc)})
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		o.OnRejected = func(context.Context, *grpclimit.Rejection) error { t.Error("it was not rejected"); return nil }
		ctx, leave := context.WithCancel(t.Context())
		s := core.Must(serve(t, &service{duplex: drain}, limits(t, o).ServerOptions()).FullDuplexCall(ctx))
		require.NoError(t, s.Send(payload(1)))
		synctest.Wait()
		require.Equal(t, 1, conc.Statistics().Queued)
		leave()
		synctest.Wait()
		require.Zero(t, conc.Statistics().Queued)
		require.Empty(t, log.String())
	})
}

// old is a message of an older API.
type old struct {
	Text string `protobuf:"bytes,1,opt,name=text"`
}

func (*old) Reset()         {}
func (*old) String() string { return "" }
func (*old) ProtoMessage()  {}

// sized is a message of another codec.
type sized int

func (s sized) Size() int { return int(s) }

// Messages count as many bytes as their encoding has, as far as that is known.
func TestSizesOfMessages(t *testing.T) {
	for want, message := range map[int]any{
		9: &pb.SimpleResponse{Payload: &pb.Payload{Body: []byte("12345")}}, 7: &old{"12345"}, 5: []byte("12345"), 3: sized(3), 0: "12345",
	} {
		bucket := core.Must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}))
		l := limits(t, one(grpclimit.Policy{ReceiveBytes: grpclimit.Shared(bucket)}))
		_, err := l.Unary()(t.Context(), message, &grpc.UnaryServerInfo{FullMethod: "/s/m"}, func(context.Context, any) (any, error) { return "", nil })
		require.NoError(t, err)
		require.Equal(t, 100-want, bucket.Available(), "%T", message)
	}
}

// A message that one policy rejects refunds what it took of the others, also if the handler goes on.
func TestARejectedMessageHoldsNothing(t *testing.T) {
	for name, policies := range map[string]func(each, bytes grpclimit.Limiter) []grpclimit.Policy{
		"one policy": func(each, bytes grpclimit.Limiter) []grpclimit.Policy {
			return []grpclimit.Policy{{Name: "p", Send: each, SendBytes: bytes, Receive: each, ReceiveBytes: bytes}}
		},
		"a later policy": func(each, bytes grpclimit.Limiter) []grpclimit.Policy {
			return []grpclimit.Policy{{Name: "p", Send: each, Receive: each}, {Name: "q", SendBytes: bytes, ReceiveBytes: bytes}}
		},
	} {
		for kind, each := range map[string]core.Limiter{"at once": concurrency(t, 10, 0), "an hour": bucket(t, 1, 10)} {
			bubble(t, name+", "+kind, func(t *testing.T) {
				full := concurrency(t, 1, 0)
				defer full.TryAcquire(1).Release()
				l := limits(t, grpclimit.Options{Policies: policies(grpclimit.Shared(each), grpclimit.Shared(full))})
				left := []int{}
				c := serve(t, &service{duplex: func(s pb.TestService_FullDuplexCallServer) error {
					for range 5 {
						assert.Error(t, s.Send(payload100()))
						left = append(left, each.Available())
					}
					_, err := s.Recv()
					assert.Error(t, err)
					left = append(left, each.Available())
					return nil
				}}, l.ServerOptions())
				s := duplex(t, c)
				require.NoError(t, s.Send(payload(100)))
				_ = received(s)
				require.Equal(t, []int{10, 10, 10, 10, 10, 10}, left)
			})
		}
	}
}

// The code of a rejected message is that of its limiter's kind, as for calls.
func TestCodeOfARejectedMessage(t *testing.T) {
	for name, c := range map[string]struct {
		limiter func() core.Limiter // of one permit
		want    codes.Code
	}{
		"rate": {func() core.Limiter {
			return core.Must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}))
		}, codes.ResourceExhausted},
		"concurrency": {func() core.Limiter { return concurrency(t, 1, 0) }, codes.Unavailable},
	} {
		bubble(t, name, func(t *testing.T) {
			l := c.limiter()
			defer l.TryAcquire(1).Release()
			s := duplex(t, limited(t, grpclimit.Policy{Receive: grpclimit.Shared(l)}, &service{duplex: drain}))
			require.NoError(t, s.Send(payload(1)))
			code(t, c.want, received(s))
		})
	}
}

func payload100() *pb.StreamingOutputCallResponse {
	return &pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, 100)}}
}

// slow is a limiter that grants a permit only once it may continue.
type slow struct {
	core.Limiter

	asked, goOn chan struct{}
}

func (s *slow) TryQuietly(permits int) (core.Lease, bool) {
	close(s.asked)
	<-s.goOn
	return core.TryQuietly(s.Limiter, permits)
}

func TestAPermitThatComesAfterTheHandlerIsReturned(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		asked, goOn, got := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		conc := concurrency(t, 1, 0)
		l := limits(t, one(grpclimit.Policy{Receive: grpclimit.Shared(&slow{conc, asked, goOn})}))
		c := serve(t, &service{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
			go func() {
				_, err := stream.Recv()
				got <- err
			}()
			<-asked
			return nil
		}}, l.ServerOptions())
		s := duplex(t, c)
		require.NoError(t, s.Send(payload(1)))
		require.ErrorIs(t, received(s), io.EOF)
		close(goOn)
		code(t, codes.Canceled, <-got)
		require.Equal(t, 1, conc.Available())
	})
}

// The response of a unary call takes permits for its bytes.
func TestBytesOfAUnaryResponse(t *testing.T) {
	bytes := core.Must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1000, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}))
	l := limits(t, one(grpclimit.Policy{SendBytes: grpclimit.Shared(bytes)}))
	response := &pb.SimpleResponse{Payload: &pb.Payload{Body: make([]byte, 300)}}
	_, err := l.Unary()(t.Context(), &pb.SimpleRequest{}, &grpc.UnaryServerInfo{FullMethod: "/s/m"}, func(context.Context, any) (any, error) {
		return response, nil
	})
	require.NoError(t, err)
	require.Equal(t, 1000-proto.Size(response), bytes.Available())
}
