package httplimit

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/policy"
)

// Limits applies policies to requests. Create it with [New]; its methods are safe for concurrent
// use. The zero Limits rejects every request, with [core.ErrClosed] and status 503.
//
// Most servers wrap everything in [Limits.Handler], which applies the global policy, and wrap
// individual handlers in [Limits.Policy]. [Limits.Check] only decides; it writes no response.
type Limits struct {
	set     policy.Set[*http.Request, *ownPolicy]
	applied atomic.Bool // whether the global policy is: by a Handler or by Check
}

// New returns Limits with these options, or an error that lists all invalid options.
func New(o Options) (*Limits, error) {
	l := new(Limits)
	l.set.Package = "httplimit"
	if err := l.Update(o); err != nil {
		return nil, err
	}
	return l, nil
}

// load returns the current policies. Those of the zero Limits reject everything.
func (l *Limits) load() *policy.Snapshot[*http.Request, *ownPolicy] {
	if s := l.set.Load(); s != nil {
		return s
	}
	closed := core.Must(New(Options{Global: &Policy{Limiter: Shared(new(core.ConcurrencyLimiter))}}))
	return closed.set.Load()
}

// Update replaces all options at once. Requests in flight keep the options that they started with;
// existing handlers use the new policies with their names. The new options must include every
// policy that a handler names. If Update returns an error, it has changed nothing.
func (l *Limits) Update(o Options) error {
	next, err := o.checked()
	return l.set.Update(next, err)
}

// Handler is middleware: it returns a handler that calls next if the global policy lets the request
// pass. Without a global policy, every request passes until an Update sets one.
func (l *Limits) Handler(next http.Handler) http.Handler {
	l.applied.Store(true)
	return &handler{l, next, []string{policy.Global}}
}

// Policy returns middleware that applies the named policies, in this order, and calls the next handler if
// all of them let the request pass. It does not apply the global policy, which [Limits.Handler] applies. A
// request that passes through two handlers with the same policy counts twice. The middleware panics if
// there is no policy with one of the names. If there is a global policy and nothing applies it, the
// Logger gets a warning, at most once a minute; without a Logger, [slog.Default] gets it.
func (l *Limits) Policy(names ...string) func(http.Handler) http.Handler {
	names = append([]string{}, names...)
	return func(next http.Handler) http.Handler {
		l.set.Use(names)
		return &handler{l, next, names}
	}
}

// Check only decides, without waiting: it writes no response and does not call OnRejected. It calls
// the global policy first and then the named policies, even if a handler has asked them already. It
// panics if there is no policy with one of the names. If no policy applies to the request, for
// example because Options.Skip returns true, the request is granted.
//
// If the request may proceed, the rejection is nil, and the caller must release the lease when the
// request has been served; the policies' Refund, Settle, Upload and Download do not apply. Otherwise
// the rejection has the reason, and its [Rejection.ServeHTTP] writes the standard response.
func (l *Limits) Check(r *http.Request, names ...string) (core.Lease, *Rejection) {
	s := l.load()
	s.MustHave(names)
	l.applied.Store(true)
	names = append([]string{policy.Global}, names...)
	if !s.Applies(r, names) {
		return core.Grant(0, nil), nil
	}
	policies := &policy.Admission[*http.Request, *ownPolicy]{Snapshot: s}
	if rejected := policies.Admit(r.Context(), r, policy.Try, names...); rejected != nil {
		return rejected.Lease, newRejection(rejected)
	}
	if lease, ok := policies.Lease(); ok {
		return lease, nil
	}
	return core.Grant(0, nil), nil
}

// LeaseFromContext returns the lease of a request from the context of its handler, or false if there is
// none. The lease stands for all permits of the innermost wrapper, which is the handler that
// [Limits.Handler] or the middleware of [Limits.Policy] returned. A handler that has done the limited
// work, and continues with something else, may release it early; otherwise it is released when the
// handler returns. If the policy has Refund or Settle, do not refund or settle the lease yourself, or the
// correction is applied twice. Permits returns the largest number of permits that one of the policies
// took. If several policies took permits, the lease can be refunded, but not settled to other permits.
func LeaseFromContext(ctx context.Context) (core.Lease, bool) {
	adm := admissionFrom(ctx)
	if adm == nil {
		return core.Lease{}, false
	}
	return adm.policies.Lease()
}
