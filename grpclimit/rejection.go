package grpclimit

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/policy"
)

// Rejection is the reason why a call may not proceed.
type Rejection struct {
	// Policy is the name of the policy that rejected the call or whose limiter failed.
	Policy string

	// Code is the code of the status: the policy's, or Unavailable if its limiter failed.
	Code codes.Code

	// Lease is the lease that the limiter returned. It is not acquired, and has the metadata of the
	// rejection.
	Lease core.Lease

	// Err is the reason: a *[core.RejectedError], [core.ErrPermitsExceedLimit], the error of a
	// context if the wait timed out, or the error of a limiter that failed, whose text clients do
	// not see.
	Err error

	// RetryAfter is the time until the same call could be served. 0 if it is unknown or never.
	RetryAfter time.Duration

	// Call is the rejected call.
	Call *Call

	result  policy.Result
	options *Options
}

// newRejection returns the rejection of a call by a policy.
func newRejection(adm *admission, rejected *policy.Rejection[*Call, *ownPolicy]) *Rejection {
	rejection := &Rejection{
		Policy: rejected.Policy.Name, Code: rejected.Policy.Own.Code, Lease: rejected.Lease,
		Err: rejected.Err, RetryAfter: rejected.RetryAfter, Call: &adm.call, result: rejected.Result, options: rejected.Policy.Own.options,
	}
	switch {
	case rejected.Result == policy.Failed:
		rejection.Code = codes.Unavailable
	case rejection.Code == codes.OK:
		rejection.Code = codeOf(rejected.Lease, rejected.RetryAfter)
	}
	return rejection
}

// codeOf returns the code of a rejection whose policy has no Code. Only rate limiters report a window or a time to
// wait.
func codeOf(lease core.Lease, retryAfter time.Duration) codes.Code {
	if _, rate := core.Window.From(lease); rate || retryAfter > 0 {
		return codes.ResourceExhausted
	}
	return codes.Unavailable
}

// Status returns the standard status, which the client gets unless Options.OnRejected returns another
// error. It contains the Code, a reason phrase set with [core.WithReason] as its message, RetryInfo if
// RetryAfter is known, and QuotaFailure with the policy as its subject.
func (r *Rejection) Status() *status.Status {
	if r.result == policy.Failed {
		return status.New(r.Code, "the limiter failed")
	}
	phrase, ok := policy.Reason(r.Lease)
	if !ok {
		phrase = "the limit is reached"
	}
	details := []protoadapt.MessageV1{&errdetails.QuotaFailure{
		Violations: []*errdetails.QuotaFailure_Violation{{Subject: r.Policy, Description: phrase}},
	}}
	if r.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)})
	}
	plain := status.New(r.Code, phrase)
	if s, err := plain.WithDetails(details...); err == nil {
		return s
	}
	return plain
}

// pushback is the trailer with the time until the next retry, in milliseconds; a negative value forbids retries. See
// gRFC A6, client retries.
const pushback = "grpc-retry-pushback-ms"

// Trailer returns the trailer that goes with the standard status: when a client that retries by itself may try again, or that it must
// not. It is nil if that is unknown. A server that responds to a rejected call itself, such as a proxy, sends it with Status.
func (r *Rejection) Trailer() metadata.MD {
	switch {
	case errors.Is(r.Err, core.ErrPermitsExceedLimit):
		return metadata.Pairs(pushback, "-1")
	case r.RetryAfter > 0:
		// Clients read it as an int, which may have 32 bits.
		ms := min((r.RetryAfter-1)/time.Millisecond+1, math.MaxInt32)
		return metadata.Pairs(pushback, strconv.FormatInt(int64(ms), 10))
	}
	return nil
}

// report returns the error for the client of a rejected call: OnRejected's, or the standard status. unserved reports whether
// the handler has not been called.
func (r *Rejection) report(ctx context.Context, unserved bool) error {
	if f := r.options.OnRejected; f != nil {
		if err := f(ctx, r); err != nil {
			return &statusError{status.Convert(err), err, unserved}
		}
	}
	if md := r.Trailer(); md != nil {
		_ = grpc.SetTrailer(ctx, md) // it fails in Tap, and in a test that calls an interceptor directly
	}
	return &statusError{r.Status(), r.Err, unserved}
}

// statusError is the error of a call that this package ended: a status and its cause.
type statusError struct {
	*status.Status

	cause    error
	rejected bool // whether a server's policy rejected the call, so that outer interceptors see that it had no effect
}

func (e *statusError) Error() string              { return e.Status.Err().Error() }
func (e *statusError) GRPCStatus() *status.Status { return e.Status }
func (e *statusError) Unwrap() error              { return e.cause }
