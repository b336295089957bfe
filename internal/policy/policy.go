// Package policy decides about the requests of a server: with a bound on the wait, limiters that fail,
// policies in shadow, and an observer. A request is of type R: an HTTP request, or a gRPC call.
//
//	adm := policy.Admission[R]{Snapshot: set.Load()}
//	if rejection := adm.Admit(ctx, r, policy.Wait, names...); rejection != nil {
//		return // the admission holds nothing
//	}
//	defer adm.End(settle) // or adm.Undo(), if the request is not served
//
// A [Set] is a server's policies; each request uses one [Snapshot] of it. An [Admission] is a request on
// its way through some of them. It has a [Decision] of each with a lease, and must be ended whatever
// happens, also after a panic.
package policy

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/partition"
)

// Policy is one limit.
type Policy[R any] struct {
	Name     string
	Limiter  partition.Limiter[R] // nil: none decides, but the policy applies
	Applies  func(R) bool         // nil: to all requests
	Permits  func(R) int          // nil: 1; 0 or less: the policy does not apply to the request
	MaxWait  time.Duration        // 0: nobody waits; below 0: as long as the context
	Flow     func(R) core.Flow    // of a request that has to wait; nil: the context's
	Rejected Result               // the result of a rejection
	FailOpen bool
	Shadow   bool

	Own any // what only the package that serves the requests knows of it
}

// Faults collects what is wrong with a server's options.
type Faults struct {
	Package string

	names map[string]bool
	errs  []error
}

// Add notes a fault: the format begins with a field of Options.
func (f *Faults) Add(format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf(f.Package+": Options."+format, args...))
}

// Name checks the name of a policy, which is a field of Options.
func (f *Faults) Name(policy, name string) {
	switch {
	case !isName(name):
		f.Add("%s.Name = %q, want ASCII letters, digits, '-', '_' and '.'", policy, name)
	case f.names[name]:
		f.Add("%s.Name = %q, want a name that no other policy has", policy, name)
	}
	if f.names == nil {
		f.names = make(map[string]bool)
	}
	f.names[name] = true
}

// Err returns an error that reports all faults; nil if there are none.
func (f *Faults) Err() error { return errors.Join(f.errs...) }

func isName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return name != ""
}

// Present returns l, or nil for a nil pointer in an interface.
func Present[R any](l partition.Limiter[R]) partition.Limiter[R] {
	if backdoor.IsNil(l) {
		return nil
	}
	return l
}

// Bind returns l for a client's request, and how many permits that costs: 1 if cost is nil. It returns nil if the
// request is not limited: l is nil, or the cost 0 or less.
func Bind[R any](l partition.Limiter[R], cost func(R) int, r R) (core.Limiter, int) {
	permits := 1
	if cost != nil {
		permits = cost(r)
	}
	if l == nil || permits <= 0 {
		return nil, permits
	}
	return partition.For(l, r), permits
}
