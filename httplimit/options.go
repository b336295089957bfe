package httplimit

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/policy"
	"github.com/sluice-go/sluice/partition"
)

// Limiter limits requests. [Shared] turns a [core.Limiter] into one limit for all requests; a
// [partition.Keyed] has a core.Limiter per client, or per whatever its Key returns.
type Limiter = partition.Limiter[*http.Request]

// Shared returns l as the Limiter of a [Policy] or a [Transport]: one limit for all requests. It is
// [partition.Shared] for requests.
func Shared(l core.Limiter) Limiter { return partition.Shared[*http.Request](l) }

// Policy is a limit on requests, and defines what happens to requests that it rejects.
type Policy struct {
	// Name appears in rejections, headers, logs and metrics. It must be unique in Options, and
	// consist of ASCII letters, digits, '-', '_' and '.'. The default name of Options.Global is
	// "global".
	Name string

	// Limiter decides whether a request may proceed. It is required unless Upload or Download is
	// set. Use [Shared] for a core.Limiter: one limit for all requests.
	Limiter Limiter

	// Cost returns the cost of a request. If it is nil, each request costs 1. If it returns 0 or
	// less, this policy limits neither the request nor its bytes.
	Cost func(*http.Request) int

	// MaxWait is how long a request may wait in the limiter's queue. 0 means that requests do not
	// wait. A negative value lets a request wait until its client disconnects. MaxWait requires a
	// limiter with a queue (QueueLimit). If none of the limiters has one, New returns an error; where
	// it cannot know, for example because a partition's New creates the limiters, a warning is logged.
	// Do not put a per-client limit with MaxWait inside a shared concurrency limit: its waiting
	// requests hold the shared permits, and one client can take them all.
	MaxWait time.Duration

	// Flow returns the flow of a request, for limiters whose order is [core.FairShare]: Limiter, if
	// MaxWait lets requests wait, and Upload and Download. The client must not be able to choose the
	// flow's Key: see [core.WithFlow]. If Flow is nil, the request's context determines the flow. Flow
	// requires a MaxWait, Upload or Download.
	Flow func(*http.Request) core.Flow

	// Status is the HTTP status of a rejection, from 400 to 599; 0 means 429. Use 503 if the client is
	// not responsible for reaching the limit, for example a limit that all clients share.
	Status int

	// OnRejected replaces Options.OnRejected for rejections by this policy, unless it is nil.
	OnRejected func(http.ResponseWriter, *http.Request, *Rejection)

	// Refund is called when the handler has returned or panicked, with the status that was sent. If
	// it returns true, the permits are refunded, including those of a rate limiter. For example, it
	// can make only failures count. It is not called if the request's context has ended, for example
	// because the client has disconnected: the outcome is then unknown, and the permits stay taken.
	// If Refund is nil, no permits are refunded.
	Refund func(r *http.Request, status int) bool

	// Settle is called after Refund, unless that returned true, with the status and the header that
	// were sent. It returns the request's actual cost in permits; the difference is refunded or
	// charged as a debt. If it returns a negative number, or is nil, the cost does not change. Like
	// Refund, it is not called if the request's context has ended.
	Settle func(r *http.Request, status int, h http.Header) int

	// FailOpen lets requests through without a lease when the limiter fails, for example because
	// Redis is unreachable. It does not affect rejections. If FailOpen is false, such requests get
	// a 503. Such failures are logged even if Options.Logger is nil, with [slog.Default].
	FailOpen bool

	// Shadow makes the policy decide without consequences: the Observer and the Logger are
	// notified of requests that it would have rejected, but all of them pass. One of the two is
	// required. In shadow, requests do not wait, no headers are sent, and Upload and Download do not
	// throttle.
	Shadow bool

	// Upload throttles the request's body; its permits are bytes. nil means no limit.
	Upload Limiter

	// Download throttles the response's body; its permits are bytes. It ends with the request's
	// context, which net/http also cancels for a client that closes only its sending side over
	// HTTP/1; the connection is then closed. nil means no limit.
	Download Limiter
}

// Options are for [New]. At least one policy is required.
type Options struct {
	// Global is the policy for every request. nil means that there is none.
	Global *Policy

	// Policies are for the handlers that name them.
	Policies []Policy

	// Skip reports whether to exempt the request from all policies. Every wrapper calls it, and so
	// does Check. If it is nil, no request is exempt.
	Skip func(*http.Request) bool

	// OnRejected is called for a rejected request. The headers of the response are already set, and
	// Rejection.Status is the status that will be sent. OnRejected may change both, write the
	// response itself, or call [Rejection.ServeHTTP]. If it writes nothing, or is nil, the standard
	// response is sent.
	OnRejected func(http.ResponseWriter, *http.Request, *Rejection)

	// Headers are the response headers that report the quota to clients.
	Headers Headers

	// ProblemJSON makes the bodies of rejections application/problem+json (RFC 9457).
	ProblemJSON bool

	// Logger gets a message if a limiter fails, or if a policy in shadow would have rejected a
	// request, each at most once a second per policy. It also gets warnings of options without
	// effect, at most once a minute. If it is nil, [slog.Default] gets these warnings and the failures
	// of policies with FailOpen, and nothing else is logged.
	Logger *slog.Logger

	// Observer, unless it is nil, is notified of every decision.
	Observer Observer
}

// ownPolicy is a Policy as this package needs it.
type ownPolicy struct {
	Policy // limiters that are nil pointers have become nil

	options *Options // the policy's
}

// serverOptions are Options for a Set.
type serverOptions = policy.Options[*http.Request, *ownPolicy]

// checked returns the options for a Set, and an error that lists all invalid options.
func (o Options) checked() (serverOptions, error) {
	next := serverOptions{Skip: o.Skip, Observer: policy.ObserverOf[Result](o.Observer), Logger: o.Logger}
	errs := policy.ErrorsOf("httplimit")
	if o.Global != nil {
		p := *o.Global
		if p.Name == "" {
			p.Name = "global"
		}
		global := (&ownPolicy{p, &o}).checked(&next, "Global", policy.RejectedByGlobal, &errs)
		next.Global = &global
	}
	for i, p := range o.Policies {
		next.Policies = append(next.Policies, (&ownPolicy{p, &o}).checked(&next, fmt.Sprintf("Policies[%d]", i), policy.RejectedByPolicy, &errs))
	}
	if int(o.Headers) >= len(headersNames) {
		errs.Addf("Headers = %v, want one of %s", o.Headers, strings.Join(headersNames[:], ", "))
	}
	return next, errs.Err()
}

// checked returns the policy for a Set, and adds its errors.
func (p *ownPolicy) checked(server *serverOptions, field string, rejected policy.Result, errs *policy.Errors) policy.Policy[*http.Request, *ownPolicy] {
	p.Limiter, p.Upload, p.Download = policy.Present(p.Limiter), policy.Present(p.Upload), policy.Present(p.Download)
	if p.Status != 0 && (p.Status < 400 || p.Status > 599) {
		errs.Addf("%s.Status = %d, want 400 to 599, or 0 for 429", field, p.Status)
	}
	next := policy.Policy[*http.Request, *ownPolicy]{
		Name: p.Name, Limiter: p.Limiter, Cost: p.Cost, MaxWait: p.MaxWait, Flow: p.Flow,
		Rejected: rejected, FailOpen: p.FailOpen, Shadow: p.Shadow, Own: p,
	}
	policy.Check(errs, server, field, &next, p.Upload != nil || p.Download != nil, "Upload and Download")
	return next
}

// Result is the outcome of a policy's decision about a request.
type Result uint8

// The results.
const (
	Acquired         = Result(policy.Acquired)         // the request may proceed
	RejectedByGlobal = Result(policy.RejectedByGlobal) // the global policy rejected it
	RejectedByPolicy = Result(policy.RejectedByPolicy) // a named policy rejected it
	RequestCanceled  = Result(policy.RequestCanceled)  // the client disconnected while the request waited
	Failed           = Result(policy.Failed)           // the limiter failed, whether the request passed or not
	Shadowed         = Result(policy.Shadowed)         // a policy in shadow would have rejected it
)

// String returns "acquired", "global_limiter", "endpoint_limiter", "request_canceled", "failed" or
// "shadowed", and "Result(n)" for any other value.
func (r Result) String() string { return policy.Result(r).String() }

// Observer is notified of what happens to requests, on their goroutines, with no lock held. It
// must be safe for concurrent use, and fast. ctx is the request's. If a method panics, the
// request panics, but no lease is lost.
type Observer interface {
	// Queued is called when a request starts to wait for a policy's permits (+1), and when its wait has
	// ended (-1). A request counts as waiting if MaxWait allows a wait and its permits were not
	// available immediately, even if the limiter's queue then rejects it.
	Queued(ctx context.Context, policy string, delta int)

	// Decided is called once per request and policy, with the outcome and how long the request
	// waited for it.
	Decided(ctx context.Context, policy string, r Result, waited time.Duration)

	// Active is called when a lease was granted (+1), and when it was released (-1).
	Active(ctx context.Context, policy string, delta int)

	// Released is called when a lease was released, with how long it was held.
	Released(ctx context.Context, policy string, held time.Duration)
}
