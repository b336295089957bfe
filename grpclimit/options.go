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
	"github.com/sluice-go/sluice/internal/limit/policy"
)

// Policy is a limit on the calls of some methods.
type Policy struct {
	// Name appears in rejections, logs and metrics. It must be unique in Options, and consist of
	// ASCII letters, digits, '-', '_' and '.'.
	Name string

	// Methods are the methods that the policy applies to: "/shop.v1.Search/Get",
	// "/shop.v1.Search/*" or "*". If there are none, it applies to all methods. A call needs the
	// permits of all policies that apply to it. They decide in order; if one rejects the call, the
	// permits of the others are refunded.
	Methods []string

	// Limiter decides whether a call may proceed. Its lease is held until the handler has
	// returned or panicked. It is required unless a limiter of messages is set.
	Limiter Limiter

	// Cost returns the cost of a call in permits. If it is nil, each call costs 1. If it returns
	// 0 or less, the policy does not apply to the call.
	Cost func(*Call) int

	// MaxWait is how long a call may wait in the limiter's queue. 0 means that calls do not wait. A
	// negative value lets a call wait until its client gives up. MaxWait requires a limiter with a
	// queue (QueueLimit). If none of the limiters has one, New returns an error; where it cannot know,
	// a warning is logged. A waiting call holds the permits of the policies that have decided before.
	MaxWait time.Duration

	// Flow returns the flow of a call, for limiters whose order is [core.FairShare]: Limiter, if
	// MaxWait lets calls wait, and the limiters of messages. The client must not be able to choose the
	// flow's Key: see [core.WithFlow]. If Flow is nil, the call's context determines the flow. Flow
	// requires a MaxWait or a limiter of messages.
	Flow func(*Call) core.Flow

	// Code is the status code of a rejection. codes.OK, the default, means ResourceExhausted if the
	// limiter limits a rate, and Unavailable if it limits concurrency.
	Code codes.Code

	// Refund is called after the handler, with its error: after a panic, one with codes.Internal.
	// If it returns true, the permits are refunded, including those of a rate limiter. For example,
	// it can make only failures count. Refund is not called if the client has given up: the outcome
	// is then unknown, and the permits stay taken. If Refund is nil, no permits are refunded.
	Refund func(*Call, error) bool

	// Settle is called after Refund, unless that returned true, and returns the call's actual cost
	// in permits; the difference is refunded or charged as a debt. If it returns a negative number,
	// or is nil, the cost does not change. Like Refund, it is not called if the client has given up.
	Settle func(*Call, error) int

	// Receive and Send limit the messages of streams; each message takes one permit. ReceiveBytes
	// and SendBytes limit the encoded bytes of all messages, including those of unary calls. nil
	// means no limit.
	//
	// A received message waits for its permits before the handler gets it. Meanwhile the next one is
	// not read, so HTTP/2's flow control stops the sender. A message to be sent waits before it is
	// sent. A permit of Receive is held until the handler asks for the next message, so do not use
	// one concurrency limiter for both Receive and Send: the handler would wait for its own permit.
	//
	// The limiters need a queue, as in [core.PerSecond], because a rejection ends the call. A message
	// counts as 0 bytes if it is not a proto message or a []byte and has no Size method.
	Receive, ReceiveBytes, Send, SendBytes Limiter

	// Shadow makes the policy decide without consequences: the Observer and the Logger are notified
	// of calls that it would have rejected, but all of them pass. One of the two is required. Calls
	// do not wait, and messages are not limited.
	Shadow bool

	// FailOpen lets calls through without a lease when the limiter fails, for example because Redis
	// is unreachable. It does not affect rejections. If FailOpen is false, such calls get
	// codes.Unavailable. Such failures are logged even if Options.Logger is nil, with [slog.Default].
	FailOpen bool
}

// Options are for [New].
type Options struct {
	// Policies decide in this order. There must be at least one.
	Policies []Policy

	// Skip reports whether to exempt the call from all policies, see [HealthAndReflection]. If it is
	// nil, no call is exempt.
	Skip func(*Call) bool

	// OnRejected is called for a rejected call or message, and returns the error that the client
	// gets. If it returns nil, or is nil, the client gets [Rejection.Status].
	OnRejected func(context.Context, *Rejection) error

	// Observer, unless it is nil, is notified of every decision about a call, but not about messages.
	// A rejection's result is [httplimit.RejectedByGlobal] if the policy applies to all methods, and
	// [httplimit.RejectedByPolicy] otherwise.
	Observer httplimit.Observer

	// Logger gets a message if a limiter fails, or if a policy in shadow would have rejected a call,
	// each at most once a second per policy. It also gets warnings of options without effect, at most
	// once a minute. If it is nil, [slog.Default] gets these warnings and the failures of policies with
	// FailOpen, and nothing else is logged.
	Logger *slog.Logger
}

// ownPolicy is a Policy as this package needs it.
type ownPolicy struct {
	Policy // limiters that are nil pointers have become nil

	options   *Options // the policy's
	seesCalls bool     // whether a function of the user's sees calls; only then their metadata is copied
}

// serverOptions are Options for a Set.
type serverOptions = policy.Options[*Call, *ownPolicy]

// checked returns the options for a Set, and an error that lists all invalid options.
func (o Options) checked() (serverOptions, error) {
	next := serverOptions{Skip: o.Skip, Observer: policy.ObserverOf[httplimit.Result](o.Observer), Logger: o.Logger}
	errs := policy.ErrorsOf("grpclimit")
	for i, p := range o.Policies {
		next.Policies = append(next.Policies, (&ownPolicy{Policy: p, options: &o}).checked(&next, fmt.Sprintf("Policies[%d]", i), &errs))
	}
	return next, errs.Err()
}

// checked returns the policy for a Set, and adds its errors.
func (p *ownPolicy) checked(server *serverOptions, field string, errs *policy.Errors) policy.Policy[*Call, *ownPolicy] {
	for _, m := range p.Methods {
		if !validMethod(m) {
			errs.Addf(`%s.Methods has %q, want "/package.Service/Method", "/package.Service/*" or "*"`, field, m)
		}
	}
	messages := false
	o := p.options
	p.seesCalls = p.Cost != nil || p.Flow != nil || p.Refund != nil || p.Settle != nil || o.Skip != nil || o.OnRejected != nil
	for i, l := range []*Limiter{&p.Limiter, &p.Receive, &p.ReceiveBytes, &p.Send, &p.SendBytes} {
		*l = policy.Present(*l)
		messages = messages || i > 0 && *l != nil
		p.seesCalls = p.seesCalls || *l != nil && reflect.TypeOf(*l) != sharedType
	}
	if p.Code > codes.Unauthenticated {
		errs.Addf("%s.Code = %d, want 0 to %d", field, p.Code, codes.Unauthenticated)
	}
	next := policy.Policy[*Call, *ownPolicy]{
		Name: p.Name, Limiter: p.Limiter, Cost: p.Cost, MaxWait: p.MaxWait, Flow: p.Flow,
		Rejected: policy.RejectedByGlobal, FailOpen: p.FailOpen, Shadow: p.Shadow, Own: p,
	}
	if !p.matches(all) {
		next.Applies = func(c *Call) bool { return p.matches(c.FullMethod) }
		next.Rejected = policy.RejectedByPolicy
	}
	policy.Check(errs, server, field, &next, messages, "Receive, ReceiveBytes, Send and SendBytes")
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
