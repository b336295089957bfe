// Package policy decides about the requests of a server: with a bound on the wait, limiters that fail,
// policies in shadow, and an observer. A request is of type R: an HTTP request, or a gRPC call.
//
//	adm := policy.Admission[R]{Snapshot: set.Load()}
//	defer adm.End(settle) // or adm.Undo(), if the request is not served
//	if rejection := adm.Admit(ctx, r, policy.Wait, names...); rejection != nil {
//		...
//	}
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
	"github.com/sluice-go/sluice/internal/anylimiter"
	"github.com/sluice-go/sluice/partition"
)

// Policy is one limit. What only HTTP or only gRPC has stays with the package: it finds its own part of the
// policy by Index.
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

	Index int // in Options.Policies; Set.Update sets it
}

// Rejected reports whether err is a limiter's rejection, and not its failure.
func Rejected(err error) bool {
	return errors.Is(err, core.ErrRejected) || errors.Is(err, core.ErrPermitsExceedLimit)
}

// RetryAfter returns the time until the same request could be served, as the lease or the error of
// a rejection says; 0: unknown, or never.
func RetryAfter(lease core.Lease, err error) time.Duration {
	if errors.Is(err, core.ErrPermitsExceedLimit) {
		return 0
	}
	retry, _ := core.RetryAfter.From(lease)
	if rejected, ok := errors.AsType[*core.RejectedError](err); retry <= 0 && ok {
		retry = rejected.RetryAfter
	}
	return max(retry, 0)
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
	if anylimiter.IsNil(l) {
		return nil
	}
	return l
}
