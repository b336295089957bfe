package grpclimit

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/policy"
)

// visit is a call on its way through a server's Limits.
type visit struct {
	terms *terms
	call  Call
	asked []ask
	one   [1]ask // where asked begins: most calls are under one policy
	stage stage
}

// stage is how far a call has come.
type stage uint8

const (
	asking  stage = iota // the handler has not been called
	serving              // it runs, or has panicked
	served               // it has returned
)

// visit returns a new visit, or the one that Tap has begun.
func (l *Limits) visit(ctx context.Context, method string) *visit {
	if v := tapped(ctx, l); v != nil {
		return v
	}
	v := newVisit(ctx, l.terms.Load(), method)
	if v.terms.looks {
		v.call.Metadata, _ = metadata.FromIncomingContext(ctx)
	}
	return v
}

func newVisit(ctx context.Context, t *terms, method string) *visit {
	v := &visit{terms: t, call: Call{FullMethod: method}}
	v.asked = v.one[:0]
	if p, ok := peer.FromContext(ctx); ok {
		v.call.Peer, v.call.Auth = p.Addr, p.AuthInfo
	}
	return v
}

// skipped reports whether no policy applies to the call.
func (v *visit) skipped() bool { return v.terms.Skip != nil && v.terms.Skip(&v.call) }

// ask asks the policies of the call that were not asked before, in order, up to the first that
// rejects it. Without wait it asks only those that never wait.
func (v *visit) ask(ctx context.Context, wait bool) *Rejection {
	for _, l := range v.terms.limits {
		if !l.matches(v.call.FullMethod) || v.has(l) || !wait && l.MaxWait != 0 {
			continue
		}
		result, passed, err := v.terms.asker.Ask(ctx, &v.call, &l.asked, wait, &v.asked)
		if !passed {
			return newRejection(&v.call, &v.asked[len(v.asked)-1], l.Code, result, err)
		}
	}
	return nil
}

// has reports whether the policy was asked by Tap.
func (v *visit) has(l *limit) bool {
	for i := range v.asked {
		if v.asked[i].Policy == &l.asked {
			return true
		}
	}
	return false
}

// reject ends the asks of a rejected call, and returns the error for its client.
func (v *visit) reject(ctx context.Context, no *Rejection, setTrailer func(context.Context, metadata.MD)) error {
	v.undo() // a rejected call holds nothing while OnRejected runs
	if no.result == httplimit.RequestCanceled {
		return &rejectedError{&statusError{status.FromContextError(ctx.Err()), no.Err}}
	}
	return &rejectedError{v.answer(ctx, no, setTrailer)}
}

// undo gives all permits of the call back.
func (v *visit) undo() {
	asked := v.asked
	v.asked = nil
	policy.End(asked, (*ask).Refund)
}

// answer returns the error for the client of a rejected call: OnRejected's, or the standard answer.
func (v *visit) answer(ctx context.Context, no *Rejection, setTrailer func(context.Context, metadata.MD)) *statusError {
	if v.terms.OnRejected != nil {
		if err := v.terms.OnRejected(ctx, no); err != nil {
			return &statusError{status.Convert(err), err}
		}
	}
	if md := no.trailer(); md != nil {
		setTrailer(ctx, md)
	}
	return &statusError{no.Status(), no.Err}
}

// errPanicked is the outcome of a handler that has panicked, or called runtime.Goexit.
var errPanicked = status.Error(codes.Internal, "the handler panicked")

// end gives back what the call holds, even if the handler, or a function of the user's, has
// panicked. err is the handler's.
func (v *visit) end(ctx context.Context, err error) {
	switch {
	case v.stage == asking || errors.As(err, new(*rejectedError)): // an interceptor inside rejected it
		v.undo()
		return
	case v.stage == serving:
		err = errPanicked
	}
	known := ctx.Err() == nil
	policy.End(v.asked, func(a *ask) { a.Settle(&v.call, err, known) })
}
