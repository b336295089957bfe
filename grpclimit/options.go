package grpclimit

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/policy"
)

// Policy is a limit on the calls of some methods.
type Policy struct {
	// Name appears in rejections, logs and metrics. It is unique in Options, and has only ASCII
	// letters, digits, '-', '_' and '.'.
	Name string

	// Methods are the methods that the policy applies to: "/shop.v1.Search/Get",
	// "/shop.v1.Search/*" or "*". None: all methods. A call needs the permits of all policies that
	// apply to it; they decide in order, and one that rejects gives the others' permits back.
	Methods []string

	// Limiter decides whether a call may proceed. Its lease is held until the handler has
	// returned or panicked. It is required unless a limiter of messages is set.
	Limiter Limiter

	// Permits returns the cost of a call in permits. nil: 1. If it returns 0 or less, the policy
	// does not apply to the call.
	Permits func(*Call) int

	// MaxWait is the longest wait in the limiter's queue. 0: calls never wait. Below 0: a call
	// waits until its client leaves. A waiting call holds the permits of the policies before.
	MaxWait time.Duration

	// Flow returns on whose behalf a call waits, for a Limiter whose order is [core.FairShare]. It is
	// called for calls that may have to wait, by MaxWait. Its Key must not be of the client's
	// choosing: see [core.WithFlow]. nil: the flow of the call's context.
	Flow func(*Call) core.Flow

	// Code is the status code of a rejection. codes.OK: ResourceExhausted if the limiter limits a
	// rate, Unavailable if it limits concurrency.
	Code codes.Code

	// Refund is called after the handler, with its error: after a panic, one with codes.Internal.
	// If it returns true, the permits are given back, those of a rate limiter too; that way only
	// failures count, for example. Refund is not called if the client has left: the outcome is
	// unknown, and the permits stay taken. nil: no permits are given back.
	Refund func(*Call, error) bool

	// Settle is called after Refund, unless that returned true, and returns the call's actual cost
	// in permits: the difference is given back, or taken as a debt. If it returns a negative
	// number, the cost does not change. nil: it never changes.
	Settle func(*Call, error) int

	// Receive and Send limit the messages of streams, one permit a message. ReceiveBytes and
	// SendBytes limit the encoded bytes of all messages, those of unary calls too. nil: unlimited.
	//
	// A message that has come waits for its permits before the handler gets it, and the next is
	// not read meanwhile: HTTP/2's flow control then stops the sender. A message to be sent waits
	// before it is sent. A permit of Receive is held until the handler asks for the next message,
	// so a concurrency limiter of Receive should not be that of Send too: the handler would wait
	// for its own permit.
	//
	// The limiters need a queue, as in [core.PerSecond]: a rejection ends the call. Messages that
	// are neither of package proto nor []byte, and have no method Size, have no bytes.
	Receive, ReceiveBytes, Send, SendBytes Limiter

	// Shadow makes the policy decide without consequences: the Observer and the Logger are notified
	// of calls that it would have rejected, but all of them pass. No call waits, and messages are
	// not limited.
	Shadow bool

	// FailOpen lets calls pass without a lease while the limiter fails; a rejection is no failure.
	// false: they are answered with codes.Unavailable.
	FailOpen bool
}

// Options are for [New].
type Options struct {
	// Policies decide in this order. None: no call is limited.
	Policies []Policy

	// Skip reports whether the call is exempt from all policies, see [HealthAndReflection]. nil: no
	// call is.
	Skip func(*Call) bool

	// OnRejected is called for a rejected call or message, and returns the error that the client
	// gets. If it returns nil, the client gets [Rejection.Status]. nil: the same.
	OnRejected func(context.Context, *Rejection) error

	// Observer is notified of every decision about a call, of messages not. A rejection's result
	// is [httplimit.GlobalLimiter] if the policy applies to all methods, else
	// [httplimit.EndpointLimiter]. nil: none.
	Observer httplimit.Observer

	// Logger is notified of limiters that fail, and of policies in shadow that would have rejected,
	// each at most once a second for each policy. nil: silent.
	Logger *slog.Logger
}

// ownPolicy is a Policy as this package needs it.
type ownPolicy struct {
	Policy // limiters that are nil pointers have become nil

	options   *Options // the policy's
	seesCalls bool     // whether a function of the user's sees calls; only then their metadata is copied
}

// checked returns the options for a Set, and an error that lists all invalid options.
func (o Options) checked() (policy.Options[*Call, *ownPolicy], error) {
	next := policy.Options[*Call, *ownPolicy]{Skip: o.Skip, Observer: policy.ObserverOf[httplimit.Result](o.Observer), Logger: o.Logger}
	errs := policy.Errors{Package: "grpclimit"}
	for i, p := range o.Policies {
		next.Policies = append(next.Policies, (&ownPolicy{Policy: p, options: &o}).checked(fmt.Sprintf("Policies[%d]", i), &errs))
	}
	return next, errs.Err()
}

// checked returns the policy for a Set, and adds its errors.
func (p *ownPolicy) checked(field string, errs *policy.Errors) policy.Policy[*Call, *ownPolicy] {
	errs.CheckName(field, p.Name)
	for _, m := range p.Methods {
		if !validMethod(m) {
			errs.Addf(`%s.Methods has %q, want "/package.Service/Method", "/package.Service/*" or "*"`, field, m)
		}
	}
	limited := false
	o := p.options
	p.seesCalls = p.Permits != nil || p.Flow != nil || p.Refund != nil || p.Settle != nil || o.Skip != nil || o.OnRejected != nil
	for _, l := range []*Limiter{&p.Limiter, &p.Receive, &p.ReceiveBytes, &p.Send, &p.SendBytes} {
		*l = policy.Present(*l)
		limited = limited || *l != nil
		p.seesCalls = p.seesCalls || *l != nil && reflect.TypeOf(*l) != sharedType
	}
	if !limited {
		errs.Addf("%s.Limiter is nil, want one, or one of Receive, ReceiveBytes, Send and SendBytes", field)
	}
	if p.Code > codes.Unauthenticated {
		errs.Addf("%s.Code = %d, want 0 to %d", field, p.Code, codes.Unauthenticated)
	}
	next := policy.Policy[*Call, *ownPolicy]{
		Name: p.Name, Limiter: p.Limiter, Permits: p.Permits, MaxWait: p.MaxWait, Flow: p.Flow,
		Rejected: policy.GlobalLimiter, FailOpen: p.FailOpen, Shadow: p.Shadow, Own: p,
	}
	if !p.matches(all) {
		next.Applies = func(c *Call) bool { return p.matches(c.FullMethod) }
		next.Rejected = policy.EndpointLimiter
	}
	return next
}

// sharedType is the type of limiters that ignore the call.
var sharedType = reflect.TypeOf(Shared(nil))

func validMethod(m string) bool {
	if m == all {
		return true
	}
	service, method, ok := strings.Cut(strings.TrimPrefix(m, "/"), "/")
	return ok && m[0] == '/' && service != "" && method != "" && !strings.Contains(method, "/") &&
		!strings.Contains(service, all) && (method == all || !strings.Contains(method, all))
}

// all means all methods, of all services or of one.
const all = "*"

// matches reports whether the policy is for the method.
func (p *Policy) matches(method string) bool {
	if len(p.Methods) == 0 {
		return true
	}
	for _, m := range p.Methods {
		if m == all || m == method {
			return true
		}
		if service, ok := strings.CutSuffix(m, all); ok && strings.HasPrefix(method, service) {
			return true
		}
	}
	return false
}
