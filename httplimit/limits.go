package httplimit

import (
	"context"
	"net/http"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/policy"
)

// Limits put requests under policies. Use [New] to create one; its methods are safe for
// concurrent use.
//
// Most servers put [Limits.Handler] around everything, which applies the global policy, and
// [Limits.Policy] around the handlers that need more. [Limits.Check] returns the decision alone.
type Limits struct {
	set policy.Set[*http.Request, *ownPolicy]
}

// New returns Limits with these options, or an error that reports all invalid options.
func New(o Options) (*Limits, error) {
	l := new(Limits)
	l.set.Package = "httplimit"
	if err := l.Update(o); err != nil {
		return nil, err
	}
	return l, nil
}

// Update replaces all options at once. Requests that are under way keep what they have; handlers
// that were built before use the new policies of their names. A name that a handler uses must
// stay. If Update returns an error, nothing has changed.
func (l *Limits) Update(o Options) error {
	next, err := o.checked()
	return l.set.Update(next, err)
}

// Handler is a middleware: it returns a handler that calls next if the global policy lets the request
// pass.
func (l *Limits) Handler(next http.Handler) http.Handler {
	return &handler{l, next, []string{policy.Global}}
}

// Policy returns a middleware: its handler asks the named policies, in this order, and calls the next
// handler if all of them let the request pass. It does not ask the global policy, which is for
// [Limits.Handler]. A request that passes two handlers with the same policy counts twice. The
// middleware panics if there is no policy of one of the names.
func (l *Limits) Policy(names ...string) func(http.Handler) http.Handler {
	names = append([]string{}, names...)
	return func(next http.Handler) http.Handler {
		l.set.Use(names)
		return &handler{l, next, names}
	}
}

// Check returns the decision alone, without waiting: it writes nothing, and calls no OnRejected. The
// global policy decides first, then those of the names, whether they have done so in a handler already
// or not. If there is no policy of one of the names, Check panics. A request that no policy applies to,
// such as one that Options.Skip returns true for, is granted.
//
// If the request may proceed, the rejection is nil, and the caller releases the lease when the
// request has been served; the policies' Refund, Settle, Upload and Download do not apply. Otherwise
// the rejection has the reason, and writes the standard answer with [Rejection.ServeHTTP].
func (l *Limits) Check(r *http.Request, names ...string) (core.Lease, *Rejection) {
	s := l.set.Load()
	s.MustHave(names)
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

// LeaseFromContext returns the lease of a request, in its handler: one lease for all permits of the
// innermost wrapper, which is the handler that [Limits.Handler] or the middleware of
// [Limits.Policy] returned. A handler that has done the limited work, and continues with something
// else, may release it early; otherwise it is released when the handler returns. Do not settle or refund
// it where the policy has Refund or Settle: both would count. Its Permits are those of the policy that
// took most. LeaseFromContext returns false if there is no lease.
func LeaseFromContext(ctx context.Context) (core.Lease, bool) {
	adm := admissionFrom(ctx)
	if adm == nil {
		return core.Lease{}, false
	}
	return adm.policies.Lease()
}
