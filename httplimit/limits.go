package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
)

// Limits put requests under policies. Make them with [New]; their methods are safe for
// concurrent use.
//
// Most servers put [Limits.Handler] around everything, which applies the global policy, and
// [Limits.Policy] around the handlers that need more. [Limits.Check] is for those that want
// the decision alone.
type Limits struct {
	terms atomic.Pointer[terms] // in force; a request keeps those that it met first

	mu   sync.Mutex      // guards used, and that no name goes while a handler is built
	used map[string]bool // names that handlers were built with
}

// New returns Limits with these options. It reports all that is wrong with them at once.
func New(o Options) (*Limits, error) {
	l := &Limits{used: make(map[string]bool)}
	t, err := newTerms(l, o)
	if err != nil {
		return nil, err
	}
	l.terms.Store(t)
	return l, nil
}

// Update puts other options into force, at once and as a whole. Requests that are under way
// keep what they have; handlers that were built before use the new policies of their names.
// A name that a handler uses must stay. If anything is wrong, nothing changes.
func (l *Limits) Update(o Options) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, err := newTerms(l, o)
	errs := []error{err}
	for name := range l.used {
		if t.byName[name] == nil {
			errs = append(errs, fmt.Errorf("httplimit: Options.Policies has no %q, want one, since a handler uses it", name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	l.terms.Store(t)
	return nil
}

// Handler returns a handler that puts next under the global policy.
//
// If next is an [*http.ServeMux], or one inside wrappers of Limits, a request for which the
// mux would choose an [Limits.Exempt] handler is left alone, and the other requests show
// their keys and policies the Pattern that the mux would choose. A mux inside a mux or
// inside [http.StripPrefix] is not seen through.
func (l *Limits) Handler(next http.Handler) http.Handler { return l.wrap(next, nil) }

// Policy returns a middleware: its handlers put requests under the global policy, unless
// they have passed it already, and then under the policies of these names, in this order.
// A policy that a request has passed is not asked again. Where no policy has one of the
// names, building a handler panics.
func (l *Limits) Policy(names ...string) func(http.Handler) http.Handler {
	names = append([]string(nil), names...)
	return func(next http.Handler) http.Handler { return l.wrap(next, names) }
}

// Exempt returns a handler that puts h under no policy: neither one that stands further
// inside, nor one that stands outside. What a request took on its way here, because nothing
// could tell where it would go, is given back, and its bytes are no longer throttled.
func (l *Limits) Exempt(h http.Handler) http.Handler { return &exempt{l, h} }

func (l *Limits) wrap(next http.Handler, names []string) http.Handler {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.terms.Load().named(names)
	for _, name := range names {
		l.used[name] = true
	}
	h := &handler{limits: l, next: next, names: names}
	h.mux, h.exempt = l.seeThrough(next)
	return h
}

// named returns the policies of the names, the global one first. It panics if there is a
// name that no policy has.
func (t *terms) named(names []string) []*policy {
	policies := make([]*policy, 0, 1+len(names))
	if t.global != nil {
		policies = append(policies, t.global)
	}
	for _, name := range names {
		p := t.byName[name]
		if p == nil { // a handler may be younger than the terms of the request that comes to it
			p = t.limits.terms.Load().byName[name]
		}
		if p == nil {
			panic(fmt.Sprintf("httplimit: no policy is named %q", name))
		}
		policies = append(policies, p)
	}
	return policies
}

// seeThrough looks for an exempt handler, or else a mux, inside the wrappers of Limits.
func (l *Limits) seeThrough(h http.Handler) (mux *http.ServeMux, exempted bool) {
	for {
		switch t := h.(type) {
		case *handler:
			h = t.next
		case *exempt:
			if t.limits == l {
				return nil, true
			}
			h = t.next
		case *http.ServeMux:
			return t, false
		default:
			return nil, false
		}
	}
}

// Check is the decision alone, without waiting: nothing is written, and OnRejected is not
// called. It asks the global policy first, then those of the names, as [Limits.Policy] does;
// a name that no policy has panics. Skip and Exempt count: a request that no policy applies
// to is granted.
//
// If the request may proceed, the rejection is nil, and the lease is to be released when it
// has been served; Policy.Refund is not asked, nor are Upload and Download applied. Else
// the rejection tells why, and can write the standard answer with [Rejection.ServeHTTP].
func (l *Limits) Check(r *http.Request, names ...string) (core.Lease, *Rejection) {
	v, outer := &visit{Context: r.Context()}, visiting(r.Context(), l)
	if outer == nil {
		v.terms = l.terms.Load()
	} else {
		v.terms, v.exempt, v.more = outer.terms, outer.exempt, &more{outer: outer}
	}
	policies := v.terms.named(names)
	if outer == nil && v.terms.Skip != nil {
		v.exempt = v.terms.Skip(r)
	}
	if v.exempt {
		return core.Grant(0, nil), nil
	}
	granted := false
	defer v.undoUnless(r.Context(), &granted)
	if no := v.ask(r.Context(), 0, r, policies, false); no != nil {
		return no.Lease, no
	}
	granted = true
	if v.terms.Observer == nil && v.asks() == 1 && v.first.stage == held {
		return v.first.lease, nil
	}
	v.known = true // by the lease
	return v.lease(), nil
}

// LeaseFrom returns the lease of a request, in its handler: one for all that it holds, of
// all Limits. Releasing it early is allowed, for a handler that has done what is limited
// and goes on with something else; it is released when the handler returns at the latest.
// Its Permits are those of the policy that took most. It reports false if the request
// holds no lease.
func LeaseFrom(ctx context.Context) (core.Lease, bool) {
	var visits []*visit                                                   // innermost first
	for v := visiting(ctx, nil); v != nil; v = visiting(v.Context, nil) { //nolint:contextcheck // it is what ctx was made of
		if v.holds() {
			visits = append(visits, v)
		}
	}
	switch len(visits) {
	case 0:
		return core.Lease{}, false
	case 1:
		return visits[0].lease(), true
	}
	leases := make([]core.Lease, 0, len(visits))
	for _, v := range slices.Backward(visits) {
		leases = append(leases, v.lease())
	}
	return combine(leases, func() { releaseAll(leases) }), true
}

// releaseAll releases the leases, last first, all of them even if a release panics.
func releaseAll(leases []core.Lease) {
	if n := len(leases); n > 0 {
		defer releaseAll(leases[:n-1])
		leases[n-1].Release()
	}
}
