package httplimit

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/partition"
)

// Limiter decides about requests. [Shared] makes one of a [core.Limiter], for all requests
// together; a [partition.Keyed] has a core.Limiter for each client, or whatever its Key returns.
type Limiter = partition.Limiter[*http.Request]

// Shared returns l as the Limiter of a [Policy] or a [Transport]: one limit for all requests
// together. It is [partition.Shared] for requests.
func Shared(l core.Limiter) Limiter { return partition.Shared[*http.Request](l) }

// Policy is a limit on requests, and says what happens to requests that it rejects.
type Policy struct {
	// Name appears in rejections, header fields, logs and metrics. It is unique in Options, and
	// has only ASCII letters, digits, '-', '_' and '.'. If Options.Global has no name, it is
	// "global".
	Name string

	// Limiter decides whether a request may proceed. It is required unless Upload or Download is
	// set. A core.Limiter becomes one by [Shared]: one limit for all requests.
	Limiter Limiter

	// Permits returns the cost of a request. nil: 1. If it returns 0 or less, this policy does not
	// limit the request, nor its bytes.
	Permits func(*http.Request) int

	// MaxWait is how long a request may wait in the limiter's queue. 0: it never waits. Below 0:
	// as long as its client does. Do not put a per-client limit with MaxWait inside a shared
	// concurrency limit: its waiting requests keep the shared permits, and one client can take
	// them all.
	MaxWait time.Duration

	// Status is the status of a rejection, 400 to 599. 0: 429. 503 suits a limit that is not the
	// client's own doing, such as one on the requests of all clients.
	Status int

	// OnRejected replaces Options.OnRejected for rejections by this policy. nil: it does not.
	OnRejected func(http.ResponseWriter, *http.Request, *Rejection)

	// Refund is called when the handler has returned or panicked, with the status that was sent.
	// If it returns true, the permits are given back, those of a rate limiter too, so that only
	// failures count, for example. It is not called if the request's context has ended, as it
	// does when the client leaves: the outcome is unknown then, and the permits stay taken. nil:
	// no permits are given back.
	Refund func(r *http.Request, status int) bool

	// Settle is called after Refund, when the handler has returned or panicked and the permits
	// were not given back, with the status and the header that were sent. It returns what the
	// request has cost in permits: the difference is given back, or taken as a debt. Below 0: the
	// cost stays as it is. nil: the same.
	Settle func(r *http.Request, status int, h http.Header) int

	// FailOpen lets requests pass without a lease while the limiter fails (not: if it rejects).
	// false: they are answered with 503.
	FailOpen bool

	// Shadow makes the policy decide without consequences: the Observer and the Logger are
	// notified of requests that it would have rejected, but all of them pass. In shadow, no
	// request waits, no header fields are sent, and Upload and Download do not throttle.
	Shadow bool

	// Upload throttles the request's body: its permits are bytes. nil: unlimited.
	Upload Limiter

	// Download throttles the response's body: its permits are bytes. nil: unlimited.
	Download Limiter
}

// Options are for [New].
type Options struct {
	// Global is the policy for every request. nil: none.
	Global *Policy

	// Policies are for the handlers that ask for them by name.
	Policies []Policy

	// Skip reports whether to leave the request unlimited. Every wrapper calls it, and Check.
	// nil: no request is skipped.
	Skip func(*http.Request) bool

	// OnRejected is called for a rejected request. The header fields of the answer are already
	// set, and Rejection.Status is what will be sent; it may change both, write the response
	// itself, or call [Rejection.ServeHTTP]. If it writes nothing, the standard answer follows.
	// nil: the standard answer.
	OnRejected func(http.ResponseWriter, *http.Request, *Rejection)

	// Headers are the fields that report the quota to clients.
	Headers Headers

	// Problems makes the bodies of rejections application/problem+json (RFC 9457).
	Problems bool

	// Logger is notified of limiters that fail and of policies in shadow that would have rejected,
	// at most once a second for each policy. nil: silent.
	Logger *slog.Logger

	// Observer is notified of every decision. nil: none.
	Observer Observer
}

// global is the name by which a handler asks the global policy; no other policy can have it.
const global = ""

// terms are Options that were checked, as requests use them. They do not change.
type terms struct {
	Options

	asker  policy.Asker[*http.Request, outcome]
	global *limit            // nil: none
	limits map[string]*limit // the others, by the names of their policies

	uploads, downloads bool // a policy has one: most have none
}

// limit is a Policy of terms.
type limit struct {
	Policy

	asked policy.Policy[*http.Request, outcome]
}

// outcome is how a request was answered.
type outcome struct {
	status int
	header http.Header
}

// newLimit returns the limit of a policy, whose rejections have that result.
func newLimit(p Policy, rejected Result) *limit {
	l := &limit{Policy: p, asked: policy.Policy[*http.Request, outcome]{
		Name: p.Name, Limiter: p.Limiter, Permits: p.Permits, MaxWait: p.MaxWait, Rejected: rejected,
		FailOpen: p.FailOpen, Shadow: p.Shadow,
	}}
	if p.Refund != nil {
		l.asked.Refund = func(r *http.Request, o outcome) bool { return p.Refund(r, o.status) }
	}
	if p.Settle != nil {
		l.asked.Settle = func(r *http.Request, o outcome) int { return p.Settle(r, o.status, o.header) }
	}
	return l
}

// add returns the limit of a policy, whose rejections have that result.
func (t *terms) add(p Policy, rejected Result) *limit {
	t.uploads = t.uploads || p.Upload != nil
	t.downloads = t.downloads || p.Download != nil
	return newLimit(p, rejected)
}

// newTerms checks the options.
func newTerms(l *Limits, o Options) (*terms, error) {
	f := faults{names: make(map[string]bool)}
	t := &terms{Options: o, limits: make(map[string]*limit, len(o.Policies))}
	t.asker = policy.Asker[*http.Request, outcome]{
		Observer: o.Observer, Logger: o.Logger, Log: &l.log, Package: "httplimit",
	}
	if o.Global != nil {
		p := *o.Global
		if p.Name == "" {
			p.Name = "global"
		}
		f.policy("Global", &p)
		t.global = t.add(p, GlobalLimiter)
	}
	for i := range o.Policies {
		p := o.Policies[i]
		f.policy(fmt.Sprintf("Policies[%d]", i), &p)
		if p.Name != "" {
			t.limits[p.Name] = t.add(p, EndpointLimiter)
		}
	}
	if int(o.Headers) >= len(headersNames) {
		f.add("Headers", o.Headers, "one of "+strings.Join(headersNames[:], ", "))
	}
	return t, errors.Join(f.errs...)
}

// limit returns the limit that a handler asks by this name; nil if there is none.
func (t *terms) limit(name string) *limit {
	if name == global {
		return t.global
	}
	return t.limits[name]
}

// mustHave panics if there is no policy of one of the names.
func (t *terms) mustHave(names []string) {
	for _, name := range names {
		if t.limits[name] == nil {
			panic(fmt.Sprintf("httplimit: no policy is named %q", name))
		}
	}
}

// of returns the limit that was asked.
func (t *terms) of(a *ask) *limit {
	if l := t.global; l != nil && a.Policy == &l.asked {
		return l
	}
	return t.limits[a.Policy.Name]
}

// have reports whether there are policies of the names: the global one may be missing.
func (t *terms) have(names []string) bool {
	return len(names) > 0 && (names[0] != global || t.global != nil)
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
	case !isName(p.Name):
		f.add(field+".Name", fmt.Sprintf("%q", p.Name), "ASCII letters, digits, '-', '_' and '.'")
	case f.names[p.Name]:
		f.add(field+".Name", fmt.Sprintf("%q", p.Name), "a name that no other policy has")
	}
	f.names[p.Name] = true
	p.Limiter, p.Upload, p.Download = present(p.Limiter), present(p.Upload), present(p.Download)
	if p.Limiter == nil && p.Upload == nil && p.Download == nil {
		f.add(field+".Limiter", "nil", "a limiter, unless Upload or Download is set")
	}
	if p.Status != 0 && (p.Status < 400 || p.Status > 599) {
		f.add(field+".Status", p.Status, "400 to 599, or 0 for 429")
	}
}

func isName(name string) bool {
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
