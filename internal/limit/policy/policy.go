// Package policy decides about the requests of a server. It bounds waits, handles limiters that fail and policies
// in shadow, and notifies an observer. A request is of type R: an HTTP request, or a gRPC call. O is the type of what
// the server's own package needs to know of a policy.
//
//	adm := policy.Admission[R, O]{Snapshot: set.Load()}
//	if rejection := adm.Admit(ctx, r, policy.Wait, names...); rejection != nil {
//		return // the admission holds nothing
//	}
//	defer adm.End(ended) // or adm.Undo(), if the request is not served
//
// A [Set] is a server's policies; each request uses one [Snapshot] of it. An [Admission] is a request on its way
// through some of them, with one [Decision] per policy, each of which may hold a lease. It must be ended whatever
// happens, also after a panic. An [Attempt] is the counterpart for clients.
package policy

import (
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/invalid"
	"github.com/sluice-go/sluice/partition"
)

// Policy is one limit.
type Policy[R, O any] struct {
	Name     string
	Limiter  partition.Limiter[R] // nil means that the policy applies, but grants all requests
	Applies  func(R) bool         // whether the policy applies to a request; nil means to all
	Cost     func(R) int          // nil means 1; if it returns 0 or less, the policy does not apply to the request
	MaxWait  time.Duration        // 0: requests do not wait; below 0: as long as the context allows
	Flow     func(R) core.Flow    // flow of a request that has to wait; nil means the context's
	Rejected Result               // the result of a rejection
	FailOpen bool
	Shadow   bool
	Own      O
}

// Errors collects the errors in a server's options.
type Errors struct {
	invalid.Fields

	names map[string]bool
}

// ErrorsOf returns the errors in the Options of a package, none yet.
func ErrorsOf(name string) Errors {
	return Errors{Fields: invalid.Fields{Prefix: name + ": Options."}}
}

// CheckName checks the name of a policy, which is in this field of Options.
func (e *Errors) CheckName(field, name string) {
	switch {
	case !validName(name):
		e.Addf("%s.Name = %q, want ASCII letters, digits, '-', '_' and '.'", field, name)
	case e.names[name]:
		e.Addf("%s.Name = %q, want a name that no other policy has", field, name)
	}
	if e.names == nil {
		e.names = make(map[string]bool)
	}
	e.names[name] = true
}

// Check adds the errors of a policy, which is in this field of Options. more reports whether it also limits what others
// names, such as Upload or Download.
func Check[R, O any](e *Errors, o *Options[R, O], field string, p *Policy[R, O], more bool, others string) {
	e.CheckName(field, p.Name)
	if p.Limiter == nil && !more {
		e.Addf("%s.Limiter = nil, want a limiter, or one of %s", field, others)
	}
	if p.MaxWait != 0 && hasNoQueue(p.Limiter) {
		e.Addf("%s.MaxWait = %v, want 0, since the limiter has no queue (QueueLimit is 0)", field, p.MaxWait)
	}
	if p.Flow != nil && p.MaxWait == 0 && !more {
		e.Addf("%s.Flow is set, want a MaxWait too, or one of %s, since nothing else waits", field, others)
	}
	if p.Shadow && o.Observer == nil && o.Logger == nil {
		e.Addf("%s.Shadow = true, want an Observer or a Logger too, since nobody would learn of its decisions", field)
	}
}

// hasNoQueue reports whether nothing can wait in l, as far as that can be seen: l is nil, or all limiters that it asks are
// core's and have no queue. A core.Switch may get another limiter.
func hasNoQueue[R any](l partition.Limiter[R]) bool {
	if l == nil {
		return true
	}
	shared, ok := l.(interface{ Always() core.Limiter })
	if !ok || shared.Always() == nil {
		return false
	}
	all := shared.Always()
	if _, ok := core.As[*core.Switch](all); ok {
		return false
	}
	for _, asked := range backdoor.Core[core.Limiter, core.Lease]().Roots(all, false) {
		if queue, known := queueLimit(asked); !known || queue > 0 {
			return false
		}
	}
	return true
}

func queueLimit(l core.Limiter) (limit int, known bool) {
	switch l := l.(type) {
	case *core.ConcurrencyLimiter:
		return l.Options().QueueLimit, true
	case *core.TokenBucket:
		return l.Options().QueueLimit, true
	case *core.FixedWindow:
		return l.Options().QueueLimit, true
	case *core.SlidingWindow:
		return l.Options().QueueLimit, true
	}
	return 0, false
}

func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return name != ""
}

// Present returns l, or nil if l is a nil pointer in an interface.
func Present[R any](l partition.Limiter[R]) partition.Limiter[R] {
	if backdoor.IsNil(l) {
		return nil
	}
	return l
}
