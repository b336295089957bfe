package grpclimit

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/policy"
)

// Limits applies policies to a server's calls. Create it with [New]; its methods are safe for
// concurrent use. The zero Limits rejects every call, with [core.ErrClosed] and codes.Unavailable.
//
// Most servers give [Limits.ServerOptions] to grpc.NewServer.
type Limits struct {
	set policy.Set[*Call, *ownPolicy]
}

// New returns Limits with these options, or an error that lists all invalid options.
func New(o Options) (*Limits, error) {
	l := new(Limits)
	l.set.Package, l.set.DeadlineCancels = "grpclimit", true
	if err := l.Update(o); err != nil {
		return nil, err
	}
	return l, nil
}

// load returns the current policies. Those of the zero Limits reject everything.
func (l *Limits) load() *policy.Snapshot[*Call, *ownPolicy] {
	if s := l.set.Load(); s != nil {
		return s
	}
	closed := core.Must(New(Options{Policies: []Policy{{Name: "closed", Limiter: Shared(new(core.ConcurrencyLimiter))}}}))
	return closed.set.Load()
}

// Update replaces all options at once. Calls in flight keep the options that they started with. If
// Update returns an error, it has changed nothing.
func (l *Limits) Update(o Options) error {
	next, err := o.checked()
	return l.set.Update(next, err)
}

// ServerOptions returns the options of grpc.NewServer that apply the policies to all calls:
// [Limits.Unary] and [Limits.Stream], chained after the interceptors of earlier options.
func (l *Limits) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(l.Unary()), grpc.ChainStreamInterceptor(l.Stream())}
}

// Unary returns an interceptor for a server's unary calls.
func (l *Limits) Unary() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		adm := l.start(ctx, info.FullMethod)
		adm.call.Message = req
		defer func() { adm.end(ctx, err) }()
		if err := adm.admit(ctx, policy.Wait); err != nil {
			return nil, err
		}
		m := adm.messages(ctx)
		defer m.end()
		if err := m.pay(in, req); err != nil {
			return nil, err
		}
		adm.called, err = true, errPanicked
		if resp, err = handler(ctx, req); err == nil {
			err = m.pay(out, resp)
		}
		return resp, err
	}
}

// Stream returns an interceptor for a server's streams.
func (l *Limits) Stream() grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		ctx := ss.Context()
		adm := l.start(ctx, info.FullMethod)
		adm.call.Stream = true
		defer func() { adm.end(ctx, err) }()
		if err := adm.admit(ctx, policy.Wait); err != nil {
			return err
		}
		if m := adm.messages(ctx); m != nil {
			defer m.end()
			ss = &stream{ss, m}
		}
		adm.called, err = true, errPanicked
		err = handler(srv, ss)
		return err
	}
}

// stream is a server's stream whose messages are limited.
type stream struct {
	grpc.ServerStream

	messages *messages
}

// RecvMsg receives a message, and takes its permits before the handler gets it.
func (s *stream) RecvMsg(msg any) error {
	s.messages.release(in) // the handler is done with the previous message
	if err := s.ServerStream.RecvMsg(msg); err != nil {
		return err
	}
	return s.messages.pay(in, msg)
}

// SendMsg takes the permits of a message and sends it.
func (s *stream) SendMsg(msg any) error {
	if err := s.messages.pay(out, msg); err != nil {
		return err
	}
	defer s.messages.release(out)
	return s.ServerStream.SendMsg(msg)
}

// admission is a call on its way through a server's Limits.
type admission struct {
	call     Call
	policies policy.Admission[*Call, *ownPolicy]
	take     func() bool // if Tap created the admission: reports whether the caller now owns the leases
	called   bool        // whether the handler was called
}

// start returns a new admission, or the one that Tap has created.
func (l *Limits) start(ctx context.Context, method string) *admission {
	if adm := tapped(ctx, l); adm != nil {
		return adm
	}
	adm := newAdmission(ctx, l.load(), method)
	if slices.ContainsFunc(adm.policies.Snapshot.Policies, func(p policy.Policy[*Call, *ownPolicy]) bool { return p.Own.seesCalls }) {
		adm.call.Metadata, _ = metadata.FromIncomingContext(ctx)
	}
	return adm
}

func newAdmission(ctx context.Context, s *policy.Snapshot[*Call, *ownPolicy], method string) *admission {
	adm := &admission{call: Call{FullMethod: method}}
	adm.policies.Snapshot = s
	if p, ok := peer.FromContext(ctx); ok {
		adm.call.Peer, adm.call.Auth = p.Addr, p.AuthInfo
	}
	return adm
}

// admit returns nil if the policies that have not decided yet let the call pass; otherwise the error for
// its client.
func (adm *admission) admit(ctx context.Context, mode policy.Mode) error {
	if skip := adm.policies.Snapshot.Skip; skip != nil && skip(&adm.call) {
		adm.policies.Undo() // Tap may have decided otherwise
		return nil
	}
	rejected := adm.policies.Admit(ctx, &adm.call, mode)
	switch {
	case rejected == nil:
		return nil
	case rejected.Result == policy.RequestCanceled:
		return &statusError{status.FromContextError(ctx.Err()), rejected.Err, true}
	}
	return newRejection(adm, rejected).report(ctx, true)
}

// errPanicked is the error of a handler that has panicked or called runtime.Goexit.
var errPanicked = status.Error(codes.Internal, "the handler panicked")

// end returns the permits that the call holds, also if the handler or a function of the user's has panicked. err is
// the handler's.
func (adm *admission) end(ctx context.Context, err error) {
	var inside *statusError // an interceptor inside may have rejected the call
	if !adm.called || errors.As(err, &inside) && inside.rejected {
		adm.policies.Undo()
		return
	}
	left := ctx.Err() != nil // then the outcome may be unknown, and the permits stay taken
	adm.policies.End(func(p *ownPolicy) (refund bool, cost int) {
		switch {
		case left:
		case p.Refund != nil && p.Refund(&adm.call, err):
			return true, 0
		case p.Settle != nil:
			return false, p.Settle(&adm.call, err)
		}
		return false, -1
	})
}
