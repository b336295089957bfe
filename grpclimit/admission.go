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
	settings *settings // one snapshot for the whole call
	call     Call
	policies policy.Admission[*Call]
	stage    stage
}

// decision is what a policy has decided about a call.
type decision = policy.Decision[*Call]

// stage is how far a call has come.
type stage uint8

const (
	deciding stage = iota // the handler has not been called
	serving               // it runs, or has panicked
	served                // it has returned
)

// begin returns a new admission, or the one that Tap has begun.
func (l *Limits) begin(ctx context.Context, method string) *admission {
	if adm := tapped(ctx, l); adm != nil {
		return adm
	}
	adm := newAdmission(ctx, l.set.Load(), method)
	if adm.settings.looks {
		adm.call.Metadata, _ = metadata.FromIncomingContext(ctx)
	}
	return adm
}

func newAdmission(ctx context.Context, s *policy.Snapshot[*Call], method string) *admission {
	adm := &admission{settings: settingsOf(s), call: Call{FullMethod: method}}
	adm.policies.Snapshot = s
	if p, ok := peer.FromContext(ctx); ok {
		adm.call.Peer, adm.call.Auth = p.Addr, p.AuthInfo
	}
	return adm
}

// skipped reports whether no policy applies to the call. Tap may have decided otherwise.
func (adm *admission) skipped() bool {
	if adm.settings.Skip == nil || !adm.settings.Skip(&adm.call) {
		return false
	}
	adm.policies.Undo()
	return true
}

// admit returns nil if the policies that have not decided yet let the call pass; otherwise the error for
// its client.
func (adm *admission) admit(ctx context.Context, mode policy.Mode, setTrailer func(context.Context, metadata.MD)) error {
	rejected := adm.policies.Admit(ctx, &adm.call, mode)
	if rejected == nil {
		return nil
	}
	adm.policies.Undo() // a rejected call holds nothing while OnRejected runs
	if rejected.Result == httplimit.RequestCanceled {
		return &rejectedError{&statusError{status.FromContextError(ctx.Err()), rejected.Err}}
	}
	return &rejectedError{adm.answer(ctx, newRejection(adm, rejected), setTrailer)}
}

// answer returns the error for the client of a rejected call: OnRejected's, or the standard answer.
func (adm *admission) answer(ctx context.Context, rejection *Rejection, setTrailer func(context.Context, metadata.MD)) *statusError {
	if adm.settings.OnRejected != nil {
		if err := adm.settings.OnRejected(ctx, rejection); err != nil {
			return &statusError{status.Convert(err), err}
		}
	}
	if md := rejection.trailer(); md != nil {
		setTrailer(ctx, md)
	}
	return &statusError{rejection.Status(), rejection.Err}
}

// errPanicked is the outcome of a handler that has panicked, or called runtime.Goexit.
var errPanicked = status.Error(codes.Internal, "the handler panicked")

// end gives back what the call holds, even if the handler, or a function of the user's, has
// panicked. err is the handler's.
func (adm *admission) end(ctx context.Context, err error) {
	switch {
	case adm.stage == deciding || errors.As(err, new(*rejectedError)): // an interceptor inside rejected it
		adm.policies.Undo()
		return
	case adm.stage == serving:
		err = errPanicked
	}
	left := ctx.Err() != nil // the outcome may be unknown
	adm.policies.End(func(d *decision) {
		switch p := adm.policy(d); {
		case p.Refund != nil && !left && p.Refund(&adm.call, err):
			d.Refund()
		case p.Settle != nil:
			d.Settle(p.Settle(&adm.call, err))
		}
	})
}

// policy returns the policy of a decision.
func (adm *admission) policy(d *decision) *Policy { return &adm.settings.Policies[d.Policy.Index] }
