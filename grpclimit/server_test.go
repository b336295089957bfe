package grpclimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/grpclimit"
)

func TestRejection(t *testing.T) {
	bubble(t, "rate", func(t *testing.T) {
		l := limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(bucket(t, 10, 1))}))
		c := serve(t, new(service), l.ServerOptions())
		_, err := c.UnaryCall(t.Context(), &pb.SimpleRequest{})
		require.NoError(t, err)
		var trailer metadata.MD
		_, err = c.UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Trailer(&trailer))
		code(t, codes.ResourceExhausted, err)
		retry, subject, description := details(err)
		require.Equal(t, 100*time.Millisecond, retry)
		require.Equal(t, "calls", subject)
		require.Equal(t, "the limit is reached", description, "a built-in reason is not for clients")
		require.NotContains(t, err.Error(), "permits exhausted")
		require.Equal(t, []string{"100"}, trailer["grpc-retry-pushback-ms"])
		time.Sleep(100 * time.Millisecond)
		_, err = c.UnaryCall(t.Context(), &pb.SimpleRequest{})
		require.NoError(t, err)
	})
	for retry, pushback := range map[time.Duration]string{
		1: "1", 1500 * time.Microsecond: "2", 2 * time.Millisecond: "2", 100 * 24 * time.Hour: "2147483647",
	} {
		bubble(t, "again after "+retry.String(), func(t *testing.T) {
			l := limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(refuser{&core.RejectedError{RetryAfter: retry}})}))
			c := serve(t, new(service), l.ServerOptions())
			var trailer metadata.MD
			_, err := c.UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Trailer(&trailer))
			got, _, _ := details(err)
			require.Equal(t, retry, got)
			require.Equal(t, []string{pushback}, trailer["grpc-retry-pushback-ms"])
		})
	}
	bubble(t, "a reason of one's own", func(t *testing.T) {
		l := limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(core.WithReason(bucket(t, 10, 1), "ask sales"))}))
		c := serve(t, new(service), l.ServerOptions())
		_, _ = c.UnaryCall(t.Context(), &pb.SimpleRequest{})
		_, err := c.UnaryCall(t.Context(), &pb.SimpleRequest{})
		_, _, description := details(err)
		require.Equal(t, "ask sales", description)
		require.Contains(t, err.Error(), "ask sales")
	})
	bubble(t, "concurrency", func(t *testing.T) {
		conc := concurrency(t, 1, 0)
		l := limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(conc)}))
		release := make(chan struct{})
		c := serve(t, &service{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			<-release
			return &pb.SimpleResponse{}, nil
		}}, l.ServerOptions())
		go func() { _, _ = c.UnaryCall(t.Context(), &pb.SimpleRequest{}) }()
		synctest.Wait()
		require.Equal(t, 0, conc.Available())
		var trailer metadata.MD
		_, err := c.UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Trailer(&trailer))
		code(t, codes.Unavailable, err)
		require.Empty(t, trailer["grpc-retry-pushback-ms"])
		close(release)
		synctest.Wait()
		require.Equal(t, 1, conc.Available())
	})
	bubble(t, "more than the limit", func(t *testing.T) {
		l := limits(t, one(grpclimit.Policy{
			Limiter: grpclimit.Shared(bucket(t, 10, 10)), Permits: func(*grpclimit.Call) int { return 11 },
		}))
		c := serve(t, new(service), l.ServerOptions())
		var trailer metadata.MD
		_, err := c.UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Trailer(&trailer))
		code(t, codes.ResourceExhausted, err)
		require.Equal(t, []string{"-1"}, trailer["grpc-retry-pushback-ms"])
	})
}
