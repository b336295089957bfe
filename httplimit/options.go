package httplimit

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/partition"
)

// Limiter decides about requests: a [partition.Keyed] has a limiter for each key, and
// [partition.Shared] is one limiter for all of them.
type Limiter = partition.Limiter[*http.Request]

// Policy is a limit with what belongs to it.
type Policy struct {
	// Name stands in rejections, header fields, logs and metrics. It is unique among the
	// policies of its Options, and of ASCII letters, digits, '-', '_' and '.'. Options.Global
	// may leave it out, and is called "global" then.
	Name string

	// Limiter decides whether a request may proceed. It is required unless Upload or
	// Download is set.
	Limiter Limiter

	// Permits is what a request costs. nil: 1. 0 or less: this request is not limited by
	// this policy, nor are its bytes.
	Permits func(*http.Request) int

	// MaxWait is how long a request may wait in the limiter's queue, at least 0. 0: until
	// the client goes.
	MaxWait time.Duration

	// Status is that of a rejection, 400 to 599. 0: 429. A limit that is not this client's
	// own doing, such as the number of requests at once of all clients, had better say 503.
	Status int

	// OnRejected replaces Options.OnRejected for rejections by this policy. nil: that one.
	OnRejected func(http.ResponseWriter, *http.Request, *Rejection)

	// Refund is asked, once the handler has returned or panicked, with the status that was
	// sent: true gives the permits back, even those of a rate limiter. So only failures
	// count, say. nil: no permits come back.
	Refund func(r *http.Request, status int) bool

	// FailOpen lets a request pass, without a lease, if the limiter fails (not: if it
	// refuses). false: the request is answered with 503.
	FailOpen bool

	// Upload throttles the request's body: its permits are bytes. nil: unlimited.
	Upload Limiter

	// Download throttles the response's body: its permits are bytes. nil: unlimited.
	Download Limiter
}

// Options are what [New] makes Limits of.
type Options struct {
	// Global is the policy for every request. nil: none.
	Global *Policy

	// Policies are for the handlers that ask for them by name.
	Policies []Policy

	// Skip is asked once a request; true: no policy applies. nil: none is skipped.
	Skip func(*http.Request) bool

	// OnRejected is called with a request that was rejected. The header fields of the answer
	// are already set, and Rejection.Status is what will be sent; it may change both, write
	// the response itself, or call [Rejection.ServeHTTP]. If it writes nothing, the standard
	// answer follows. nil: the standard answer.
	OnRejected func(http.ResponseWriter, *http.Request, *Rejection)

	// Headers are the fields that tell clients of their quota.
	Headers Headers

	// Problems makes the bodies of rejections application/problem+json (RFC 9457).
	Problems bool

	// Logger is told of limiters that fail, at most once a second for each policy. nil: silent.
	Logger *slog.Logger

	// Observer is told of every decision. nil: none.
	Observer Observer
}

// globalName is what a global policy without a name is called.
const globalName = "global"

// terms are options that were checked, as requests use them. They do not change.
type terms struct {
	Options

	limits *Limits
	global *policy            // nil: none
	byName map[string]*policy // Options.Policies
}

// policy is a Policy in its terms.
type policy struct {
	Policy

	refused  Result
	failures *failures
}

func (p *policy) plain() bool { return p.Refund == nil && p.Upload == nil && p.Download == nil }

// newTerms checks the options. What the terms in force remember of a policy, the new ones
// keep.
func newTerms(l *Limits, o Options) (*terms, error) {
	old := l.terms.Load()
	f := faults{names: make(map[string]bool)}
	t := &terms{Options: o, limits: l, byName: make(map[string]*policy, len(o.Policies))}
	if o.Global != nil {
		p := *o.Global
		if p.Name == "" {
			p.Name = globalName
		}
		f.policy("Global", &p)
		t.global = &policy{p, GlobalLimiter, old.failuresOf(p.Name)}
	}
	for i := range o.Policies {
		p := o.Policies[i]
		f.policy(fmt.Sprintf("Policies[%d]", i), &p)
		t.byName[p.Name] = &policy{p, EndpointLimiter, old.failuresOf(p.Name)}
	}
	if int(o.Headers) >= len(headersNames) {
		f.add("Headers", o.Headers, "one of "+strings.Join(headersNames[:], ", "))
	}
	return t, errors.Join(f.errs...)
}

// failuresOf returns what is known of the failures of the policy of that name.
func (t *terms) failuresOf(name string) *failures {
	if t != nil {
		if t.global != nil && t.global.Name == name {
			return t.global.failures
		}
		if p := t.byName[name]; p != nil {
			return p.failures
		}
	}
	return new(failures)
}

// faults collects what is wrong with options.
type faults struct {
	names map[string]bool
	errs  []error
}

func (f *faults) add(field string, value any, want string) {
	f.errs = append(f.errs, fmt.Errorf("httplimit: Options.%s = %v, want %s", field, value, want))
}

// policy checks one policy, and clears limiters that are nil pointers.
func (f *faults) policy(field string, p *Policy) {
	switch {
	case !nameable(p.Name):
		f.add(field+".Name", fmt.Sprintf("%q", p.Name), "ASCII letters, digits, '-', '_' and '.'")
	case f.names[p.Name]:
		f.add(field+".Name", fmt.Sprintf("%q", p.Name), "a name that no other policy has")
	}
	f.names[p.Name] = true
	p.Limiter, p.Upload, p.Download = present(p.Limiter), present(p.Upload), present(p.Download)
	if p.Limiter == nil && p.Upload == nil && p.Download == nil {
		f.add(field+".Limiter", "nil", "a limiter, unless Upload or Download is set")
	}
	if p.MaxWait < 0 {
		f.add(field+".MaxWait", p.MaxWait, "at least 0")
	}
	if p.Status != 0 && (p.Status < 400 || p.Status > 599) {
		f.add(field+".Status", p.Status, "400 to 599, or 0 for 429")
	}
}

func nameable(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return name != ""
}

// present returns nil for a nil pointer in an interface.
func present(l Limiter) Limiter {
	if argument.IsNil(l) {
		return nil
	}
	return l
}
