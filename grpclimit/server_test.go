package grpclimit_test

import (
	"testing"
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
	rejecting := func(retry time.Duration) func(*testing.T) core.Limiter {
		return func(*testing.T) core.Limiter { return refuser{&core.RejectedError{RetryAfter: retry}} }
	}
	for name, c := range map[string]struct {
		limiter     func(*testing.T) core.Limiter // whose first permit is taken
		permits     int
		want        codes.Code
		retry       time.Duration
		description string
		pushback    []string // in ms
	}{
		"rate": {func(t *testing.T) core.Limiter { t.Helper(); return bucket(t, 10, 1) }, 1, codes.ResourceExhausted, 100 * time.Millisecond, "the limit is reached", []string{"100"}},
		"a reason of one's own": {func(t *testing.T) core.Limiter {
			t.Helper()
			return core.WithReason(bucket(t, 10, 1), "ask sales")
		}, 1, codes.ResourceExhausted, 100 * time.Millisecond, "ask sales", []string{"100"}},
		"concurrency":            {func(t *testing.T) core.Limiter { t.Helper(); return concurrency(t, 1, 0) }, 1, codes.Unavailable, 0, "the limit is reached", nil},
		"more than the limit":    {func(t *testing.T) core.Limiter { t.Helper(); return bucket(t, 10, 10) }, 11, codes.ResourceExhausted, 0, "the limit is reached", []string{"-1"}},
		"again after 1ns":        {rejecting(1), 1, codes.ResourceExhausted, 1, "the limit is reached", []string{"1"}},
		"again after 1.5ms":      {rejecting(1500 * time.Microsecond), 1, codes.ResourceExhausted, 1500 * time.Microsecond, "the limit is reached", []string{"2"}},
		"again after 2ms":        {rejecting(2 * time.Millisecond), 1, codes.ResourceExhausted, 2 * time.Millisecond, "the limit is reached", []string{"2"}},
		"again after a 100 days": {rejecting(2400 * time.Hour), 1, codes.ResourceExhausted, 2400 * time.Hour, "the limit is reached", []string{"2147483647"}},
	} {
		bubble(t, name, func(t *testing.T) {
			limiter := c.limiter(t)
			limiter.TryAcquire(1)
			l := limits(t, one(grpclimit.Policy{Limiter: grpclimit.Shared(limiter), Cost: func(*grpclimit.Call) int { return c.permits }}))
			var trailer metadata.MD
			_, err := serve(t, new(service), l.ServerOptions()).UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Trailer(&trailer))
			code(t, c.want, err)
			retry, subject, description := details(err)
			require.Equal(t, c.retry, retry)
			require.Equal(t, "calls", subject)
			require.Equal(t, c.description, description)
			require.Contains(t, err.Error(), description)
			require.Equal(t, c.pushback, trailer["grpc-retry-pushback-ms"])
		})
	}
}
