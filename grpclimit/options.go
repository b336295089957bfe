package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/policy"
)

// Policy is a limit, and what follows from it.
type Policy struct {
	// Name appears in rejections, logs and metrics. It is unique in Options, and has only ASCII
	// letters, digits, '-', '_' and '.'.
	Name string

	// Methods are those that the policy is for: "/shop.v1.Search/Get", "/shop.v1.Search/*" or "*".
	// None: "*", all methods. All policies that match a call apply, in order, all or nothing.
	Methods []string

	// Limiter decides whether a call may proceed. Its lease is held until the handler has
	// returned. It is required unless one of the limiters below is set.
	Limiter Limiter

	// Permits returns the cost of a call. nil: 1. If it returns 0 or less, Limiter is not asked.
	Permits func(*Call) int

	// MaxWait is how long a call may wait in the limiter's queue. 0: it never waits. Below 0: as
	// long as its client does. A waiting call holds what the policies before have granted it.
	MaxWait time.Duration

	// Code is that of a rejection. codes.OK: ResourceExhausted of a rate limiter, Unavailable of a
	// concurrency limiter.
	Code codes.Code

	// Refund is called when the handler has returned or panicked, with its error: after a panic
	// one with codes.Internal. If it returns true, the permits are given back, those of a rate
	// limiter too, so that only failures count, for example. It is not called if the client has
	// left: the outcome is unknown then, and the permits stay taken. nil: no permits are given back.
	Refund func(*Call, error) bool

	// Settle is called after Refund, unless the permits were given back, and returns what the call
	// has cost in permits: the difference is given back, or taken as a debt. Below 0: the cost
	// stays as it is. nil: the same.
	Settle func(*Call, error) int

	// Receive and Send throttle the messages of streams, one permit a message, and ReceiveBytes and
	// SendBytes the bytes of all messages, those of unary calls too. A message counts when it has
	// been received, and before it is sent; the next is not read before that, so that HTTP/2's flow
	// control holds the sender. A permit of Receive is held until the handler receives the next
	// message. The limiters need a queue, as [ioreader.PerSecond] has: a rejection ends the call.
	Receive, ReceiveBytes, Send, SendBytes Limiter

	// Shadow makes the policy decide without consequences: the Observer and the Logger are notified
	// of calls that it would have rejected, but all of them pass. In shadow no call waits, and
	// messages are not throttled.
	Shadow bool

	// FailOpen lets calls pass without a lease while the limiter fails (not: if it rejects).
	// false: they are answered with codes.Unavailable.
	FailOpen bool
}

// Options are for [New].
type Options struct {
	// Policies are asked in this order.
	Policies []Policy

	// Skip reports whether no policy applies to the call. nil: none is skipped.
	Skip func(*Call) bool

	// OnRejected is called for a rejected call and returns the error of the answer. If it returns
	// nil, the standard answer follows, see [Rejection.Status]. nil: the standard answer.
	OnRejected func(context.Context, *Rejection) error

	// Observer is notified of every decision: with the result [httplimit.GlobalLimiter] for a
	// policy that is for all methods, else [httplimit.EndpointLimiter]. nil: none.
	Observer httplimit.Observer

	// Logger is notified of limiters that fail and of policies in shadow that would have rejected,
	// at most once a second for each policy. nil: silent.
	Logger *slog.Logger
}

// validate returns an error that reports all faults.
func (o *Options) validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("grpclimit: "+format, args...)) }
	names := make(map[string]bool)
	for i := range o.Policies {
		p := &o.Policies[i]
		at := fmt.Sprintf("Options.Policies[%d]", i)
		switch {
		case !validName(p.Name):
			fault("%s.Name = %q, want ASCII letters, digits, '-', '_' and '.'", at, p.Name)
		case names[p.Name]:
			fault("%s.Name = %q, want a name of its own", at, p.Name)
		}
		names[p.Name] = true
		for _, m := range p.Methods {
			if !validMethod(m) {
				fault("%s.Methods has %q, want \"/package.Service/Method\", \"/package.Service/*\" or \"*\"", at, m)
			}
		}
		if argument.IsNil(p.Limiter) && !p.throttles() {
			fault("%s.Limiter is nil, want one, or one of Receive, ReceiveBytes, Send and SendBytes", at)
		}
		if p.Code > codes.Unauthenticated {
			fault("%s.Code = %d, want 0 to %d", at, p.Code, codes.Unauthenticated)
		}
	}
	return errors.Join(errs...)
}

func (p *Policy) throttles() bool {
	return !argument.IsNil(p.Receive) || !argument.IsNil(p.ReceiveBytes) || !argument.IsNil(p.Send) || !argument.IsNil(p.SendBytes)
}

func validName(name string) bool {
	for _, c := range []byte(name) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && !strings.ContainsRune("-_.", rune(c)) {
			return false
		}
	}
	return name != ""
}

func validMethod(m string) bool {
	if m == all {
		return true
	}
	service, method, ok := strings.Cut(strings.TrimPrefix(m, "/"), "/")
	return ok && m[0] == '/' && service != "" && method != "" && !strings.Contains(method, "/") &&
		!strings.Contains(service, all) && (method == all || !strings.Contains(method, all))
}

// all stands for all methods, of all services or of one.
const all = "*"

// ask is what a policy has answered about a call, whose outcome is the handler's error.
type ask = policy.Ask[*Call, error, httplimit.Result]

// limit is a Policy in use.
type limit struct {
	Policy

	asked policy.Policy[*Call, error, httplimit.Result]
}

func newLimit(p Policy) *limit {
	for _, limiter := range []*Limiter{&p.Limiter, &p.Receive, &p.ReceiveBytes, &p.Send, &p.SendBytes} {
		if argument.IsNil(*limiter) {
			*limiter = nil
		}
	}
	l := &limit{Policy: p, asked: policy.Policy[*Call, error, httplimit.Result]{
		Name: p.Name, Limiter: p.Limiter, Permits: p.Permits, MaxWait: p.MaxWait,
		Rejected: httplimit.EndpointLimiter, Refund: p.Refund, Settle: p.Settle, FailOpen: p.FailOpen, Shadow: p.Shadow,
	}}
	if l.matches(all) {
		l.asked.Rejected = httplimit.GlobalLimiter
	}
	return l
}

// looks reports whether the policy has a function of the user's that sees calls.
func (l *limit) looks() bool {
	for _, limiter := range []Limiter{l.Limiter, l.Receive, l.ReceiveBytes, l.Send, l.SendBytes} {
		if limiter != nil && reflect.TypeOf(limiter) != sharedType {
			return true
		}
	}
	return l.Permits != nil || l.Refund != nil || l.Settle != nil
}

var sharedType = reflect.TypeOf(Shared(nil))

// matches reports whether the policy is for the method.
func (l *limit) matches(method string) bool {
	if len(l.Methods) == 0 {
		return true
	}
	for _, m := range l.Methods {
		if m == all || m == method {
			return true
		}
		if service, ok := strings.CutSuffix(m, all); ok && strings.HasPrefix(method, service) {
			return true
		}
	}
	return false
}
