package grpclimit

import (
	"context"

	"google.golang.org/grpc/tap"

	"github.com/sluice-go/sluice/internal/limit/policy"
)

// Tap returns a handle for [google.golang.org/grpc.InTapHandle].
//
// A server with Tap also needs the interceptors of [Limits.ServerOptions]. Tap alone silently ignores
// policies with a MaxWait, limits on messages, Refund and Settle.
//
// Tap decides before the server starts a goroutine for the call, on the goroutine that reads the
// connection. It never waits, and leaves policies with a MaxWait to the interceptors. The functions that
// it calls (a Limiter, Cost, Skip, OnRejected) must not block or panic, because they would block the
// whole connection or terminate the process. They see no Message.
//
// With the interceptors of the same Limits, a policy that has decided in Tap does not decide again; the
// interceptors call Refund and Settle. A policy whose Cost was 0 in Tap decides again, and Skip is
// called again. Without interceptors, leases are released when the call has ended, so concurrency
// limiters work too. A rejection by Tap has no trailer: clients get RetryAfter only from RetryInfo.
func (l *Limits) Tap() tap.ServerInHandle {
	return func(ctx context.Context, info *tap.Info) (context.Context, error) {
		adm := newAdmission(ctx, l.load(), info.FullMethodName)
		adm.call.Metadata = info.Header
		if err := adm.admit(ctx, policy.Early); err != nil {
			return nil, err
		}
		if len(adm.policies.Decisions) == 0 {
			return ctx, nil
		}
		// The interceptors take the leases over. Without interceptors, they are released when the call has ended.
		adm.take = context.AfterFunc(ctx, func() { adm.policies.Release() })
		return context.WithValue(ctx, tapKey{l}, adm), nil
	}
}

// tapKey is the context key of the admission that the Tap of these Limits has created.
type tapKey struct{ limits *Limits }

// tapped returns the admission that the Tap of l has created, but only once; nil if there is none.
func tapped(ctx context.Context, l *Limits) *admission {
	adm, _ := ctx.Value(tapKey{l}).(*admission)
	if adm == nil || !adm.take() {
		return nil
	}
	return adm
}
