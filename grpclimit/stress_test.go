package grpclimit_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/grpclimit"
	"github.com/sluice-go/sluice/httplimit"
)

// tally is an Observer whose sums are zero when nothing is in flight.
type tally struct{ queued, active, decided, granted, canceled, released, last atomic.Int64 }

func (o *tally) Queued(_ context.Context, _ string, delta int) { o.queued.Add(int64(delta)) }
func (o *tally) Active(_ context.Context, _ string, delta int) { o.active.Add(int64(delta)) }
func (o *tally) Decided(_ context.Context, _ string, r httplimit.Result, _ time.Duration) {
	o.decided.Add(1)
	o.last.Store(int64(r))
	switch r {
	case httplimit.Acquired:
		o.granted.Add(1)
	case httplimit.RequestCanceled:
		o.canceled.Add(1)
	}
}
func (o *tally) Released(context.Context, string, time.Duration) { o.released.Add(1) }

// odd is a service whose handlers take their time, fail, panic, and return before their receivers.
type odd struct {
	echo

	under   atomic.Int64
	most    atomic.Int64
	waiting sync.WaitGroup
}

// work does something odd, and counts how many do at once.
func (o *odd) work() error {
	n := o.under.Add(1)
	defer o.under.Add(-1)
	for most := o.most.Load(); n > most && !o.most.CompareAndSwap(most, n); most = o.most.Load() {
	}
	time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
	switch rand.IntN(12) {
	case 0:
		panic("odd")
	case 1:
		return status.Error(codes.Internal, "odd")
	}
	return nil
}

func (o *odd) UnaryCall(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if err := o.work(); err != nil {
		return nil, err
	}
	return o.echo.UnaryCall(ctx, r)
}

func (o *odd) FullDuplexCall(s pb.TestService_FullDuplexCallServer) error {
	if rand.IntN(4) == 0 {
		o.waiting.Go(func() { _, _ = s.Recv() })
		runtime.Gosched()
		return o.work()
	}
	if err := o.work(); err != nil {
		return err
	}
	return o.echo.FullDuplexCall(s)
}

// TestStress has calls of all kinds that fail, panic, are canceled and come too late, under
// policies of all kinds that are replaced meanwhile. In the end nothing is held and no request waits.
func TestStress(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		atOnce := concurrency(t, 5, 20)
		spare := []*core.ConcurrencyLimiter{concurrency(t, 3, 10), concurrency(t, 3, 10), concurrency(t, 3, 10), concurrency(t, 3, 10)}
		var seen tally
		oddly := func(*grpclimit.Call, error) bool {
			if rand.IntN(50) == 0 {
				panic("odd")
			}
			return rand.IntN(2) == 0
		}
		options := func() grpclimit.Options {
			return grpclimit.Options{
				Observer: &seen,
				Policies: []grpclimit.Policy{
					{Name: "rate", Limiter: grpclimit.Shared(queued(t, 2000, 50)), Refund: oddly},
					{Name: "spare", Limiter: grpclimit.Shared(spare[0]), Shadow: rand.IntN(2) == 0, Settle: func(*grpclimit.Call, error) int { return rand.IntN(4) - 1 }},
					{Name: "at-once", Limiter: grpclimit.Shared(atOnce), MaxWait: time.Duration(rand.IntN(20)) * time.Millisecond, Refund: oddly},
					{
						Name: "messages", Methods: []string{"/grpc.testing.TestService/*"}, Limiter: grpclimit.Shared(spare[1]), MaxWait: -1,
						Receive: grpclimit.Shared(spare[2]), Send: grpclimit.Shared(spare[3]), ReceiveBytes: grpclimit.Shared(queued(t, 100_000, 1000)),
					},
				},
			}
		}
		l := limits(t, options())
		s, client := new(odd), client(t, grpclimit.ClientOptions{Limiter: grpclimit.Shared(concurrency(t, 40, 1000)), HonorRetryAfter: true, MaxRetryAfter: 5 * time.Millisecond})
		c := serve(t, s, append(append(recovering(), l.ServerOptions()...), grpc.InTapHandle(l.Tap())), client.DialOptions()...)
		var all sync.WaitGroup
		for range 60 {
			all.Go(func() {
				for range 20 {
					for _, call := range kinds { // in a random order
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(60))*time.Millisecond)
						if rand.IntN(3) == 0 {
							time.AfterFunc(time.Duration(1+rand.IntN(10))*time.Millisecond, cancel) // 0: see testkit.Bubble
						}
						_ = call(ctx, c)
						cancel()
					}
				}
			})
		}
		all.Go(func() {
			for range 50 {
				time.Sleep(10 * time.Millisecond)
				if err := l.Update(options()); err != nil {
					t.Error(err)
				}
			}
		})
		all.Wait()
		s.waiting.Wait()
		synctest.Wait()
		require.Equal(t, 5, atOnce.Available())
		require.LessOrEqual(t, s.most.Load(), int64(5))
		for _, l := range append(spare, atOnce) {
			require.Zero(t, l.Statistics().Queued)
			require.Equal(t, l.Statistics().Limit, l.Available())
		}
		require.Zero(t, seen.queued.Load())
		require.Zero(t, seen.active.Load())
		require.Equal(t, seen.granted.Load(), seen.released.Load())
		require.Greater(t, seen.decided.Load(), int64(1000))
	})
}
