package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/holdback"
	"github.com/sluice-go/sluice/internal/limiter"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/partition"
)

// ClientOptions are for [NewClient].
type ClientOptions struct {
	// Limiter grants permits for each call, which waits for them until its context ends. The lease
	// is held until the call has ended. nil: unlimited.
	Limiter Limiter

	// Permits returns the cost of a call in permits. nil: 1. If it returns 0 or less, the call is
	// not limited.
	Permits func(*Call) int

	// Obey holds the calls of a method back for as long as the server's last rejection said, in
	// the status's RetryInfo or the trailer grpc-retry-pushback-ms. A call waits at most MaxObey,
	// without a permit. It fails at once, as the server's rejection did, if it would have to wait
	// longer or beyond its deadline.
	Obey bool

	// MaxObey is the longest wait for Obey, at least 0. 0: 1 minute.
	MaxObey time.Duration

	// Settle is called when a call has ended, with its error, and returns its actual cost in
	// permits: the difference is given back, or taken as a debt. If it returns a negative number,
	// the cost does not change. nil: it never changes.
	Settle func(*Call, error) int
}

// Client puts the calls of a client under a limit. Use [NewClient] to create one; it is safe for
// concurrent use, by several connections too.
type Client struct {
	options  ClientOptions
	holdback holdback.Keys[*status.Status]
}

// NewClient returns a Client with these options, or an error that reports all invalid options.
func NewClient(o ClientOptions) (*Client, error) {
	if o.MaxObey < 0 {
		return nil, fmt.Errorf("grpclimit: ClientOptions.MaxObey = %v, want at least 0", o.MaxObey)
	}
	if o.MaxObey == 0 {
		o.MaxObey = time.Minute
	}
	if argument.IsNil(o.Limiter) {
		o.Limiter = nil
	}
	return &Client{options: o}, nil
}

// DialOptions returns the options of grpc.NewClient that put all calls of a connection under the
// limit: [Client.Unary] and [Client.Stream], chained behind the interceptors of the options before
// them.
func (c *Client) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.Unary()), grpc.WithChainStreamInterceptor(c.Stream())}
}

// Unary returns an interceptor for a client's unary calls.
func (c *Client) Unary() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) (err error) {
		call := outgoing(ctx, method)
		call.Message = req
		a, err := c.enter(ctx, call, cc)
		if err != nil {
			return err
		}
		defer func() { c.end(a, err) }()
		err = errPanicked
		var trailer metadata.MD
		if c.options.Obey {
			opts = append(slices.Clip(opts), grpc.Trailer(&trailer))
		}
		err = invoker(ctx, method, req, reply, cc, opts...)
		c.learn(cc, method, err, trailer)
		return err
	}
}

// Stream returns an interceptor for a client's streams.
func (c *Client) Stream() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		call := outgoing(ctx, method)
		call.Stream = true
		a, err := c.enter(ctx, call, cc)
		if err != nil {
			return nil, err
		}
		var ended atomic.Bool
		end := func(err error) {
			if ended.CompareAndSwap(false, true) {
				c.end(a, err)
			}
		}
		begun := false
		defer func() {
			if !begun {
				end(errPanicked)
			}
		}()
		s, err := streamer(ctx, desc, cc, method, append(slices.Clip(opts), grpc.OnFinish(end))...)
		begun = true
		if err != nil {
			end(err)
			return nil, err
		}
		if c.options.Obey {
			s = &clientStream{s, c, cc, method}
		}
		return s, nil
	}
}

// clientStream is a client's stream whose end is learned from.
type clientStream struct {
	grpc.ClientStream

	client *Client
	cc     *grpc.ClientConn
	method string
}

// RecvMsg receives a message, or the status of the call.
func (s *clientStream) RecvMsg(msg any) error {
	err := s.ClientStream.RecvMsg(msg)
	if err != nil {
		s.client.learn(s.cc, s.method, err, s.Trailer())
	}
	return err
}

// key is what calls are held back by: the server and the method.
func key(cc *grpc.ClientConn, method string) string {
	if cc == nil { // an interceptor that is called by hand
		return method
	}
	return cc.Target() + method
}

// paid is what a call holds.
type paid struct {
	call    *Call
	limiter core.Limiter // bound to the call; nil: the call is not limited
	lease   core.Lease
}

// enter waits until the call may be sent, and returns what it holds.
func (c *Client) enter(ctx context.Context, call *Call, cc *grpc.ClientConn) (paid, error) {
	p, permits := paid{call: call}, 1
	if c.options.Permits != nil {
		permits = c.options.Permits(call)
	}
	if permits > 0 && c.options.Limiter != nil {
		p.limiter = partition.For(c.options.Limiter, call)
	}
	for {
		if c.options.Obey {
			if err := c.obey(ctx, key(cc, call.FullMethod)); err != nil {
				return p, err
			}
		}
		if p.limiter == nil {
			return p, nil
		}
		lease, err := p.limiter.Acquire(ctx, permits)
		if lease, err = limiter.Checked(p.limiter, lease, err); err != nil {
			return p, refusal(ctx, lease, err)
		}
		// While this waited for permits, the server may have rejected another call.
		if c.options.Obey {
			if left, _ := c.holdback.Held(key(cc, call.FullMethod)); left > 0 {
				limiter.Refund(p.limiter, lease)
				continue
			}
		}
		p.lease = lease
		return p, nil
	}
}

// refusal returns the error of a call that the client's own limiter does not let pass.
func refusal(ctx context.Context, lease core.Lease, err error) error {
	if ended := ctx.Err(); ended != nil {
		return &statusError{status.FromContextError(ended), err}
	}
	if !policy.Rejected(err) {
		return &statusError{status.New(codes.Unavailable, "the limiter failed"), err}
	}
	no := &Rejection{Lease: lease, Err: err, RetryAfter: policy.RetryAfter(lease, err)}
	no.Code = codeOf(lease, no.RetryAfter)
	no.Policy, _ = core.LimiterName.From(lease)
	return &statusError{no.Status(), err}
}

// end gives back what a call holds that has ended with err.
func (c *Client) end(p paid, err error) {
	defer p.lease.Release()
	if c.options.Settle != nil && p.limiter != nil {
		policy.Settle(p.limiter, p.lease, c.options.Settle(p.call, err))
	}
}

// obey waits for as long as the server has said.
func (c *Client) obey(ctx context.Context, key string) error {
	err := c.holdback.Wait(ctx, key, func(left time.Duration, said *status.Status) error {
		deadline, ok := ctx.Deadline()
		tooSoon := ok && left > time.Until(deadline)
		if left <= c.options.MaxObey && !tooSoon {
			return nil
		}
		no := &core.RejectedError{Limiter: key, Permits: 1, Reason: "the server has asked to wait", RetryAfter: left}
		if tooSoon {
			no.Cause = context.DeadlineExceeded
		}
		s := status.New(said.Code(), said.Message())
		if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(left)}); err == nil {
			s = detailed
		}
		return &statusError{s, no}
	})
	if err != nil && !errors.As(err, new(*statusError)) {
		return &statusError{status.FromContextError(err), err}
	}
	return err
}

// learn remembers what the server has said about the next call of the method.
func (c *Client) learn(cc *grpc.ClientConn, method string, err error, trailer metadata.MD) {
	if err == nil || !c.options.Obey {
		return
	}
	s, ok := status.FromError(err)
	if !ok {
		return
	}
	if d := toldBy(s, trailer); d > 0 {
		c.holdback.Hold(key(cc, method), d, s)
	}
}

// toldBy returns how long the server wants to be left alone: the longer of RetryInfo and pushback.
func toldBy(s *status.Status, trailer metadata.MD) time.Duration {
	var d time.Duration
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			d = max(d, info.GetRetryDelay().AsDuration())
		}
	}
	if values := trailer[pushback]; len(values) == 1 {
		if ms, err := strconv.ParseInt(values[0], 10, 32); err == nil {
			d = max(d, time.Duration(ms)*time.Millisecond)
		}
	}
	return d
}
