package grpclimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
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

// The leases are held while the handler runs, and released however it ends, wherever an interceptor recovers.
func TestLeasesAreHeldUntilTheHandlerEnds(t *testing.T) {
	for name, end := range map[string]func(){"return": func() {}, "panic": func() { panic("odd") }, "Goexit": runtime.Goexit} {
		for _, outside := range []bool{true, false} {
			bubble(t, fmt.Sprintf("%s, recovery outside: %v", name, outside), func(t *testing.T) {
				calls, messages := concurrency(t, 1, 0), concurrency(t, 1, 0)
				outcome := codes.OK
				l := limits(t, one(grpclimit.Policy{
					Limiter: grpclimit.Shared(calls), Receive: grpclimit.Shared(messages),
					Refund: func(_ *grpclimit.Call, err error) bool { outcome = status.Code(err); return false },
				}))
				o := append(recovering(), l.ServerOptions()...)
				if !outside {
					o = append(l.ServerOptions(), recovering()...)
				}
				held := -1
				c := serve(t, &service{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
					held = 2 - calls.Available() - messages.Available() // that of messages is for streams
					end()
					return &pb.SimpleResponse{}, nil
				}, duplex: func(s pb.TestService_FullDuplexCallServer) error {
					_, _ = s.Recv()
					held = 2 - calls.Available() - messages.Available()
					end()
					return nil
				}}, o)
				released := func(want int) {
					t.Helper()
					synctest.Wait()
					require.Equal(t, want, held)
					require.Equal(t, map[bool]codes.Code{true: codes.OK, false: codes.Internal}[name == "return"], outcome)
					outcome = codes.OK
					require.Equal(t, 1, calls.Available())
					require.Equal(t, 1, messages.Available())
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second) // Goexit ends the server's goroutine
				defer cancel()
				_, err := c.UnaryCall(ctx, &pb.SimpleRequest{})
				require.Equal(t, name == "return", err == nil)
				released(1)
				ctx, cancel = context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				s, err := c.FullDuplexCall(ctx)
				require.NoError(t, err)
				require.NoError(t, s.Send(payload(1)))
				_, err = s.Recv()
				require.Equal(t, name == "return", errors.Is(err, io.EOF))
				released(2)
			})
		}
	}
}

func TestRefundAndSettle(t *testing.T) {
	bubble(t, "the cost is known in the end", func(t *testing.T) {
		b := bucket(t, 1, 10)
		l := limits(t, one(grpclimit.Policy{
			Limiter: grpclimit.Shared(b), Cost: func(*grpclimit.Call) int { return 5 },
			Settle: func(c *grpclimit.Call, _ error) int { return int(c.Message.(*pb.SimpleRequest).GetResponseSize()) },
		}))
		c := serve(t, new(service), l.ServerOptions())
		_, err := c.UnaryCall(t.Context(), &pb.SimpleRequest{ResponseSize: 1})
		require.NoError(t, err)
		require.Equal(t, 9, b.Available())
		_, err = c.UnaryCall(t.Context(), &pb.SimpleRequest{ResponseSize: 12})
		require.NoError(t, err)
		_, err = c.UnaryCall(t.Context(), &pb.SimpleRequest{ResponseSize: 1})
		retry, _, _ := details(err)
		require.Equal(t, 8*time.Second, retry) // 3 are owed, and 5 asked for
	})
}

// refuser is a limiter that fails.
type refuser struct{ err error }

func (r refuser) TryAcquire(int) core.Lease { return core.Fail(r.err) }
func (r refuser) Acquire(context.Context, int) (core.Lease, error) {
	return core.Fail(r.err), r.err
}
func (r refuser) Available() int { return 0 }

// The limiters of calls and those of messages are of one policy: in shadow they do not limit, and with FailOpen their failures
// let calls and messages pass. A rejection of bytes is one of a rate, even if the limiter does not say so.
func TestFailuresAndRejectionsOfAPolicy(t *testing.T) {
	fails, rejects := grpclimit.Shared(refuser{errors.New("secret")}), grpclimit.Shared(refuser{&core.RejectedError{}})
	for name, c := range map[string]struct {
		policy grpclimit.Policy
		want   codes.Code
		logged string
	}{
		"shadow":              {grpclimit.Policy{ReceiveBytes: rejects, SendBytes: fails, Shadow: true}, codes.OK, ""},
		"a failure of calls":  {grpclimit.Policy{Limiter: fails}, codes.Unavailable, "secret"},
		"calls, FailOpen":     {grpclimit.Policy{Limiter: fails, FailOpen: true}, codes.OK, "secret"},
		"a failure":           {grpclimit.Policy{ReceiveBytes: fails}, codes.Unavailable, "secret"},
		"a failure, FailOpen": {grpclimit.Policy{ReceiveBytes: fails, FailOpen: true}, codes.OK, "secret"},
		"a rejection":         {grpclimit.Policy{ReceiveBytes: rejects, FailOpen: true}, codes.ResourceExhausted, ""},
		"its own code":        {grpclimit.Policy{ReceiveBytes: rejects, Code: codes.Aborted}, codes.Aborted, ""},
	} {
		bubble(t, name, func(t *testing.T) {
			var log bytes.Buffer
			o := one(c.policy)
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			l := limits(t, o)
			_, err := serve(t, new(service), l.ServerOptions()).UnaryCall(t.Context(), &pb.SimpleRequest{ResponseSize: 7})
			code(t, c.want, err)
			if c.want == codes.Unavailable {
				require.Equal(t, "the limiter failed", status.Convert(err).Message())
				require.Empty(t, status.Convert(err).Details())
			}
			if c.logged == "" {
				require.Empty(t, log.String())
				return
			}
			require.Contains(t, log.String(), `msg="grpclimit: a limiter failed" policy=calls error=`+c.logged)
		})
	}
}

// A policy for all methods is a global one for the Observer.
func TestResultsOfDecisions(t *testing.T) {
	for want, methods := range map[httplimit.Result][]string{
		httplimit.RejectedByGlobal: {"/s/m", "*"}, httplimit.RejectedByPolicy: {"/s/*"},
	} {
		o, seen := one(grpclimit.Policy{Limiter: grpclimit.Shared(core.Blocked()), Methods: methods}), new(tally)
		o.Observer = seen
		_, err := limits(t, o).Unary()(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/s/m"}, nil)
		code(t, codes.Unavailable, err)
		require.Equal(t, want, httplimit.Result(seen.last.Load()))
	}
}

// An Update is for the calls that come after it, and one that is refused changes nothing.
func TestOnRejectedAndUpdate(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		o := one(grpclimit.Policy{Limiter: grpclimit.Shared(bucket(t, 1, 1)), Cost: func(*grpclimit.Call) int { return 1 }})
		var answer error
		var seen *grpclimit.Rejection
		o.OnRejected = func(_ context.Context, rejection *grpclimit.Rejection) error { seen = rejection; return answer }
		l := limits(t, o)
		c := serve(t, new(service), l.ServerOptions())
		ask(t, c, codes.OK)
		ask(t, c, codes.ResourceExhausted)
		require.Equal(t, "/grpc.testing.TestService/UnaryCall", seen.Call.FullMethod)
		require.Equal(t, time.Second, seen.RetryAfter)
		require.ErrorIs(t, seen.Err, core.ErrRejected)
		answer = status.Error(codes.PermissionDenied, "own")
		ask(t, c, codes.PermissionDenied)
		require.Error(t, l.Update(one(grpclimit.Policy{})))
		ask(t, c, codes.PermissionDenied)
		require.ErrorContains(t, l.Update(grpclimit.Options{}), "grpclimit: Options has no policy, want at least one")
		require.NoError(t, l.Update(one(grpclimit.Policy{Limiter: grpclimit.Shared(core.Unlimited())})))
		ask(t, c, codes.OK)
	})
}

// The zero values reject everything.
func TestZeroValues(t *testing.T) {
	info := &grpc.UnaryServerInfo{FullMethod: "/s/m"}
	never := func(context.Context, any) (any, error) { t.Error("it was called"); return nil, nil } //nolint:nilnil // never
	_, err := new(grpclimit.Limits).Unary()(t.Context(), nil, info, never)
	code(t, codes.Unavailable, err)
	require.ErrorIs(t, err, core.ErrClosed)
	err = new(grpclimit.Client).Unary()(t.Context(), "/s/m", nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		t.Error("it was called")
		return nil
	})
	code(t, codes.Unavailable, err)
	require.ErrorIs(t, err, core.ErrClosed)
}

// If the client has given up, nobody knows what it got: neither Refund nor Settle is called, and the permits stay taken.
func TestNoOutcomeOfAClientThatHasGone(t *testing.T) {
	for name, p := range map[string]grpclimit.Policy{
		"Refund": {Refund: func(*grpclimit.Call, error) bool { t.Error("Refund was called"); return true }},
		"Settle": {Settle: func(*grpclimit.Call, error) int { t.Error("Settle was called"); return 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			b := bucket(t, 1, 3)
			p.Limiter = grpclimit.Shared(b)
			ctx, leave := context.WithCancel(t.Context())
			_, err := limits(t, one(p)).Unary()(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/s/m"}, func(context.Context, any) (any, error) {
				leave()
				return "done", nil
			})
			require.NoError(t, err)
			require.Equal(t, 2, b.Available())
		})
	}
}
