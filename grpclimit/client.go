package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/backoff"
	"github.com/sluice-go/sluice/internal/limit/policy"
)

// ClientOptions are the options of [NewClient].
type ClientOptions struct {
	// Limiter grants permits for each call. A call waits for them if the limiter's queue has room
	// (QueueLimit), until its context ends, and is rejected otherwise. The lease is held until the
	// call has ended. nil means no limit.
	Limiter Limiter

	// Cost returns the cost of a call in permits. If it is nil, each call costs 1. If it returns
	// 0 or less, the call is not limited.
	Cost func(*Call) int

	// HonorRetryAfter delays the calls of a method, without holding permits, for as long as the
	// server's last rejection asked, in the status's RetryInfo or the trailer grpc-retry-pushback-ms.
	// A rejection has the code ResourceExhausted or Unavailable. The calls then resume at random
	// times, spread over another tenth of that delay, so that they do not all arrive at once. A call
	// that would be delayed beyond its deadline fails immediately, with the code of the rejection.
	HonorRetryAfter bool

	// MaxRetryAfter is the longest delay of HonorRetryAfter, whatever the server asks. It must be at
	// least 0. 0 means 1 minute.
	MaxRetryAfter time.Duration

	// Settle is called when a call has ended, with its error, and returns its actual cost in
	// permits; the difference is refunded or charged as a debt. If it returns a negative number, or
	// is nil, the cost does not change.
	Settle func(*Call, error) int
}

// Client limits the calls of a client. Create it with [NewClient]; calls of the zero Client fail with
// [core.ErrClosed] and codes.Unavailable. It is safe for concurrent use, and several connections can share
// one.
type Client struct {
	options ClientOptions
	held    *backoff.Keys[*status.Status] // times until which calls are held back, by server and method; nil without HonorRetryAfter
}

// NewClient returns a Client with these options, or an error that lists all invalid options.
func NewClient(o ClientOptions) (*Client, error) {
	if o.MaxRetryAfter < 0 {
		return nil, fmt.Errorf("grpclimit: ClientOptions.MaxRetryAfter = %v, want at least 0", o.MaxRetryAfter)
	}
	if o.MaxRetryAfter == 0 {
		o.MaxRetryAfter = time.Minute
	}
	o.Limiter = policy.Present(o.Limiter)
	c := &Client{options: o}
	if o.HonorRetryAfter {
		c.held = new(backoff.Keys[*status.Status])
	}
	return c, nil
}

// DialOptions returns the options of grpc.NewClient that limit all calls of a connection:
// [Client.Unary] and [Client.Stream], chained after the interceptors of earlier options.
func (c *Client) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.Unary()), grpc.WithChainStreamInterceptor(c.Stream())}
}

// Unary returns an interceptor for a client's unary calls.
func (c *Client) Unary() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) (err error) {
		call := outgoing(ctx, method)
		call.Message = req
		a, err := c.start(ctx, call, cc)
		if err != nil {
			return err
		}
		defer func() { a.end(err) }()
		err = errCallPanicked
		var trailer metadata.MD
		if c.options.HonorRetryAfter {
			opts = append(slices.Clip(opts), grpc.Trailer(&trailer))
		}
		err = invoker(ctx, method, req, reply, cc, opts...)
		a.honor(err, trailer)
		return err
	}
}

// Stream returns an interceptor for a client's streams.
func (c *Client) Stream() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (s grpc.ClientStream, err error) {
		call := outgoing(ctx, method)
		call.Stream = true
		a, err := c.start(ctx, call, cc)
		if err != nil {
			return nil, err
		}
		defer func() {
			if err != nil { // there is no stream to finish
				a.end(err)
			}
		}()
		err = errCallPanicked
		if s, err = streamer(ctx, desc, cc, method, append(slices.Clip(opts), grpc.OnFinish(a.end))...); err != nil {
			return nil, err
		}
		if c.options.HonorRetryAfter {
			s = &clientStream{s, a}
		}
		return s, nil
	}
}

// clientStream is a client's stream whose status is honored.
type clientStream struct {
	grpc.ClientStream

	attempt *attempt
}

// RecvMsg receives a message, or the status of the call.
func (s *clientStream) RecvMsg(msg any) error {
	err := s.ClientStream.RecvMsg(msg)
	if err != nil {
		s.attempt.honor(err, s.Trailer())
	}
	return err
}

// errCallPanicked is the error of a call that panicked or called runtime.Goexit.
var errCallPanicked = status.Error(codes.Internal, "the call panicked")

// keyOf returns the key by which calls back off: the server and the method.
func keyOf(cc *grpc.ClientConn, method string) string {
	if cc == nil { // in a test that calls the interceptor directly
		return method
	}
	return cc.Target() + method
}

// attempt is a call that may be sent.
type attempt struct {
	policy.Attempt

	client *Client
	call   *Call
	key    string // key of its server and method
}

// start waits until the call may be sent.
func (c *Client) start(ctx context.Context, call *Call, cc *grpc.ClientConn) (*attempt, error) {
	if c.options.MaxRetryAfter == 0 { // NewClient has set it
		return nil, &statusError{status.New(codes.Unavailable, "the Client was not created with NewClient"), core.ErrClosed, false}
	}
	a := &attempt{client: c, call: call, key: keyOf(cc, call.FullMethod)}
	if lease, err := policy.Start(ctx, &a.Attempt, call, c.options.Limiter, c.options.Cost, c.held, a.key); err != nil {
		return nil, rejected(ctx, lease, err)
	}
	return a, nil
}

// rejected returns the error of a call that has to back off, or that the client's own limiter did not grant.
func rejected(ctx context.Context, lease core.Lease, err error) error {
	var held *backoff.HeldError[*status.Status]
	if errors.As(err, &held) {
		return heldBack(held)
	}
	if ended := ctx.Err(); ended != nil {
		return &statusError{status.FromContextError(ended), err, false}
	}
	if !policy.Rejected(err) {
		return &statusError{status.New(codes.Unavailable, "the limiter failed"), err, false}
	}
	rejection := &Rejection{Lease: lease, Err: err, RetryAfter: policy.RetryAfter(lease, err)}
	rejection.Code = codeOf(lease, rejection.RetryAfter)
	rejection.Policy, _ = core.LimiterName.From(lease)
	return &statusError{rejection.Status(), err, false}
}

// end settles and releases the lease, once. err is the call's.
func (a *attempt) end(err error) {
	if settle := a.client.options.Settle; settle != nil {
		a.End(func() int { return settle(a.call, err) })
	} else {
		a.End(nil)
	}
}

// heldBack returns the error of a call whose deadline is before the end of the hold.
func heldBack(held *backoff.HeldError[*status.Status]) error {
	left := held.Rejected.RetryAfter
	s := status.New(held.Why.Code(), fmt.Sprintf("%s %v longer, beyond the deadline: %s", held.Rejected.Reason, left, held.Why.Message()))
	if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(left)}); err == nil {
		s = detailed
	}
	return &statusError{s, held.Rejected, false}
}

// honor holds the key back if the server's status or trailer asks for that.
func (a *attempt) honor(err error, trailer metadata.MD) {
	o := &a.client.options
	if err == nil || !o.HonorRetryAfter {
		return
	}
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.ResourceExhausted && s.Code() != codes.Unavailable {
		return // another status, such as that of an invalid argument, is about this call alone
	}
	if d := retryAfter(s, trailer); d > 0 {
		a.client.held.Hold(a.key, min(d, o.MaxRetryAfter), s)
	}
}

// retryAfter returns how long the server asks to wait: the longer of RetryInfo and pushback.
func retryAfter(s *status.Status, trailer metadata.MD) time.Duration {
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
