package grpclimit

import (
	"context"

	"google.golang.org/grpc/tap"

	"github.com/sluice-go/sluice/internal/policy"
)

// Tap returns a handle for [google.golang.org/grpc.InTapHandle].
//
// A server with Tap needs the interceptors of [Limits.ServerOptions] too: Tap alone applies neither
// policies with a MaxWait, nor limits on messages, nor Refund and Settle, and says nothing of it.
//
// The policies decide before the server spends a goroutine on the call, where the connection is read:
// Tap never waits, and leaves policies with a MaxWait to the interceptors. The functions that it calls (a Limiter, Permits,
// Skip, OnRejected) must not block or panic: the whole connection would stand still, or the process
// end. They see no Message.
//
// With the interceptors of the same Limits, a policy that has decided in Tap does not decide again; they
// call Refund and Settle. A policy whose Permits were 0 in Tap decides again, and Skip is called again. Without interceptors,
// leases are released when the call has ended, so a concurrency limiter works too. A rejection by
// Tap has no trailer: clients get RetryAfter from RetryInfo only.
func (l *Limits) Tap() tap.ServerInHandle {
	return func(ctx context.Context, info *tap.Info) (context.Context, error) {
		adm := newAdmission(ctx, l.set.Load(), info.FullMethodName)
		adm.call.Metadata = info.Header
		if err := adm.admit(ctx, policy.Early); err != nil {
			return nil, err
		}
		if len(adm.policies.Decisions) == 0 {
			return ctx, nil
		}
		// The leases are the interceptors', or, if these do not come, are released when the call has ended.
		adm.take = context.AfterFunc(ctx, func() { adm.policies.Release() })
		return context.WithValue(ctx, tapKey{l}, adm), nil
	}
}

// tapKey is the key of a context's value that is the admission that the Tap of these Limits has begun.
type tapKey struct{ limits *Limits }

// tapped returns the admission that the Tap of l has begun, once; nil if there is none.
func tapped(ctx context.Context, l *Limits) *admission {
	adm, _ := ctx.Value(tapKey{l}).(*admission)
	if adm == nil || !adm.take() {
		return nil
	}
	return adm
}
