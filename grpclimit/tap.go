package grpclimit

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"

	"github.com/sluice-go/sluice/internal/policy"
)

// Tap returns a handle for [google.golang.org/grpc.InTapHandle].
//
// A server with Tap needs the interceptors of [Limits.ServerOptions] too: Tap alone applies neither
// policies with a MaxWait, nor limits on messages, nor Refund and Settle, and says nothing of it.
//
// Tap asks the policies before the
// server spends a goroutine on the call, where the connection is read: it never waits, and leaves
// policies with a MaxWait to the interceptors. The functions that it calls (a Limiter, Permits,
// Skip, OnRejected) must not block or panic: the whole connection would stand still, or the process
// end. They see no Message.
//
// The interceptors of the same Limits do not ask again what Tap has asked, and call Refund and
// Settle. A policy whose Permits were 0 in Tap is asked again, as is Skip. Without interceptors,
// leases are released when the call has ended, so a concurrency limiter works too. A rejection by
// Tap has no trailer: clients get RetryAfter from RetryInfo only.
func (l *Limits) Tap() tap.ServerInHandle {
	return func(ctx context.Context, info *tap.Info) (context.Context, error) {
		adm := newAdmission(ctx, l.terms.Load(), info.FullMethodName)
		adm.call.Metadata = info.Header
		if adm.skipped() {
			return ctx, nil
		}
		defer func() {
			if adm.stage == asking {
				policy.End(adm.asked, (*ask).Refund)
			}
		}()
		if no := adm.ask(ctx, false); no != nil {
			return nil, adm.reject(ctx, no, func(context.Context, metadata.MD) {})
		}
		adm.stage = serving
		if len(adm.asked) == 0 {
			return ctx, nil
		}
		t := &early{Context: ctx, limits: l, admission: adm}
		t.stop = context.AfterFunc(ctx, func() {
			if t.take() {
				policy.End(adm.asked, (*ask).Release)
			}
		})
		return t, nil
	}
}

// early is the context of a call that Tap has let pass. Its leases are the interceptors', or, if
// they do not come, are released when the call has ended.
type early struct {
	context.Context

	limits    *Limits
	admission *admission
	taken     atomic.Bool
	stop      func() bool
}

// take reports whether the caller has the leases.
func (e *early) take() bool { return e.taken.CompareAndSwap(false, true) }

// earlyKey is the key of a context's value that is the early of these Limits.
type earlyKey struct{ limits *Limits }

// Value returns the call's value for key.
func (e *early) Value(key any) any {
	if key == (earlyKey{e.limits}) {
		return e
	}
	return e.Context.Value(key)
}

// tapped returns the admission that the Tap of l has begun, once; nil if there is none.
func tapped(ctx context.Context, l *Limits) *admission {
	e, _ := ctx.Value(earlyKey{l}).(*early)
	if e == nil || !e.take() {
		return nil
	}
	e.stop()
	e.admission.stage = asking
	return e.admission
}
