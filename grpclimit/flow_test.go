package grpclimit_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/grpclimit"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/ioreader"
)

// A sender of 1 GB that is as fast as it can be: HTTP/2's flow control holds it, and what has been
// sent and not been handled stays small, for a limit of bytes and for one of messages.
func TestFlowControlHoldsAFastSender(t *testing.T) {
	const perSecond, size = 10_000_000, 50_000
	down, err := core.NewTokenBucket(ioreader.PerSecond(perSecond))
	require.NoError(t, err)
	for name, test := range map[string]struct {
		policy grpclimit.Policy
		total  int
	}{
		"bytes":    {grpclimit.Policy{ReceiveBytes: grpclimit.Shared(down)}, 1_000_000_000},
		"messages": {grpclimit.Policy{Receive: grpclimit.Shared(queued(t, perSecond/size, 1))}, 100_000_000},
	} {
		bubble(t, name, func(t *testing.T) {
			total := test.total
			if testing.Short() || testkit.Race {
				total = 50_000_000
			}
			var between, most, heap atomic.Int64
			sample := func() {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				heap.Store(max(heap.Load(), int64(m.HeapAlloc)))
			}
			c := serve(t, &service{duplex: func(s pb.TestService_FullDuplexCallServer) error {
				for i := 0; ; i++ {
					m, err := s.Recv()
					if err != nil {
						return nil //nolint:nilerr // the stream has ended
					}
					between.Add(-int64(proto.Size(m)))
					if i%1000 == 0 {
						sample()
					}
				}
			}}, limits(t, one(test.policy)).ServerOptions())
			s, err := c.FullDuplexCall(t.Context())
			require.NoError(t, err)
			synctest.Wait()
			sample()
			before := heap.Load()
			message, begun := payload(size), time.Now()
			for range total / size {
				require.NoError(t, s.Send(message))
				most.Store(max(most.Load(), between.Add(int64(proto.Size(message)))))
			}
			require.NoError(t, s.CloseSend())
			require.NoError(t, toTheEnd(s))
			require.InEpsilon(t, float64(total)/perSecond, time.Since(begun).Seconds(), 0.01)
			require.Less(t, most.Load(), int64(2_000_000))
			require.Less(t, heap.Load()-before, int64(50_000_000))
		})
	}
}
