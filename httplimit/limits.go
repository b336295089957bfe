package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/policy"
)

// Limits put requests under policies. Use [New] to create one; its methods are safe for
// concurrent use.
//
// Most servers put [Limits.Handler] around everything, which applies the global policy, and
// [Limits.Policy] around the handlers that need more. [Limits.Check] returns the decision alone.
type Limits struct {
	terms atomic.Pointer[terms] // the options in force
	log   policy.Log

	mu   sync.Mutex      // guards used, and that no name goes while a handler is being built
	used map[string]bool // the names that handlers were built with
}

// New returns Limits with these options, or an error that reports all invalid options.
func New(o Options) (*Limits, error) {
	l := &Limits{used: make(map[string]bool)}
	t, err := newTerms(l, o)
	if err != nil {
		return nil, err
	}
	l.terms.Store(t)
	return l, nil
}

// Update replaces all options at once. Requests that are under way keep what they have; handlers
// that were built before use the new policies of their names. A name that a handler uses must
// stay. If Update returns an error, nothing has changed.
func (l *Limits) Update(o Options) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, err := newTerms(l, o)
	errs := []error{err}
	for name := range l.used {
		if t.limits[name] == nil {
			errs = append(errs, fmt.Errorf("httplimit: Options.Policies has no %q, want one, since a handler uses it", name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	l.terms.Store(t)
	return nil
}

// Handler is a middleware: it returns a handler that asks the global policy, and calls next if
// that lets the request pass.
func (l *Limits) Handler(next http.Handler) http.Handler {
	return &handler{l, next, []string{global}}
}

// Policy returns a middleware: its handlers ask the policies of these names, in this order, and
// call the next handler if all of them let the request pass. They do not ask the global policy:
// that is what [Limits.Handler] is for. A policy that is asked in two handlers counts a request
// twice. If there is no policy of one of the names, building a handler panics.
func (l *Limits) Policy(names ...string) func(http.Handler) http.Handler {
	names = append([]string(nil), names...)
	return func(next http.Handler) http.Handler {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.terms.Load().mustHave(names)
		for _, name := range names {
			l.used[name] = true
		}
		return &handler{l, next, names}
	}
}

// Check returns the decision alone, without waiting: it writes nothing, and calls no OnRejected.
// It asks the global policy first, then those of the names, whether a handler has asked them
// already or not. If there is no policy of one of the names, Check panics. A request that no policy
// applies to, such as one that Options.Skip returns true for, is granted.
//
// If the request may proceed, the rejection is nil, and the caller releases the lease when the
// request has been served; the policies' Refund, Settle, Upload and Download do not apply. Otherwise
// the rejection has the reason, and writes the standard answer with [Rejection.ServeHTTP].
func (l *Limits) Check(r *http.Request, names ...string) (core.Lease, *Rejection) {
	t := l.terms.Load()
	t.mustHave(names)
	if t.Skip != nil && t.Skip(r) {
		return core.Grant(0, nil), nil
	}
	var asked []ask
	granted := false
	defer func() {
		if !granted {
			policy.End(asked, (*ask).Refund)
		}
	}()
	no := t.check(r, append([]string{global}, names...), false, &asked)
	if no != nil {
		return no.Lease, no
	}
	granted = true
	lease, ok := combine(asked)
	if !ok {
		lease = core.Grant(0, nil)
	}
	return lease, nil
}
