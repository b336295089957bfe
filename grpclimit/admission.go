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

// admission is a call on its way through a server's Limits.
type admission struct {
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

// admit returns a new admission, or the one that Tap has begun.
func (l *Limits) admit(ctx context.Context, method string) *admission {
	if adm := tapped(ctx, l); adm != nil {
		return adm
	}
	adm := newAdmission(ctx, l.terms.Load(), method)
	if adm.terms.looks {
		adm.call.Metadata, _ = metadata.FromIncomingContext(ctx)
	}
	return adm
}

func newAdmission(ctx context.Context, t *terms, method string) *admission {
	adm := &admission{terms: t, call: Call{FullMethod: method}}
	adm.asked = adm.one[:0]
	if p, ok := peer.FromContext(ctx); ok {
		adm.call.Peer, adm.call.Auth = p.Addr, p.AuthInfo
	}
	return adm
}

// skipped reports whether no policy applies to the call.
func (adm *admission) skipped() bool { return adm.terms.Skip != nil && adm.terms.Skip(&adm.call) }

// ask asks the policies of the call that were not asked before, in order, up to the first that
// rejects it. Without wait it asks only policies that never wait.
func (adm *admission) ask(ctx context.Context, wait bool) *Rejection {
	for _, l := range adm.terms.limits {
		if !l.matches(adm.call.FullMethod) || adm.has(l) || !wait && l.MaxWait != 0 {
			continue
		}
		result, passed, err := adm.terms.asker.Ask(ctx, &adm.call, &l.asked, wait, &adm.asked)
		if !passed {
			return newRejection(&adm.call, &adm.asked[len(adm.asked)-1], l.Code, result, err)
		}
	}
	return nil
}

// has reports whether the policy was asked by Tap.
func (adm *admission) has(l *limit) bool {
	for i := range adm.asked {
		if adm.asked[i].Policy == &l.asked {
			return true
		}
	}
	return false
}

// reject ends the asks of a rejected call, and returns the error for its client.
func (adm *admission) reject(ctx context.Context, no *Rejection, setTrailer func(context.Context, metadata.MD)) error {
	adm.undo() // a rejected call holds nothing while OnRejected runs
	if no.result == httplimit.RequestCanceled {
		return &rejectedError{&statusError{status.FromContextError(ctx.Err()), no.Err}}
	}
	return &rejectedError{adm.answer(ctx, no, setTrailer)}
}

// undo gives all permits of the call back.
func (adm *admission) undo() {
	asked := adm.asked
	adm.asked = nil
	policy.End(asked, (*ask).Refund)
}

// answer returns the error for the client of a rejected call: OnRejected's, or the standard answer.
func (adm *admission) answer(ctx context.Context, no *Rejection, setTrailer func(context.Context, metadata.MD)) *statusError {
	if adm.terms.OnRejected != nil {
		if err := adm.terms.OnRejected(ctx, no); err != nil {
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
func (adm *admission) end(ctx context.Context, err error) {
	switch {
	case adm.stage == asking || errors.As(err, new(*rejectedError)): // an interceptor inside rejected it
		adm.undo()
		return
	case adm.stage == serving:
		err = errPanicked
	}
	known := ctx.Err() == nil
	policy.End(adm.asked, func(a *ask) { a.Settle(&adm.call, err, known) })
}
