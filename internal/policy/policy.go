// Package policy asks limiters about a server's requests: with a bound on the wait, limiters that
// fail, policies in shadow, and an observer. A request is of type R, its outcome of type O, and E
// is the calling package's own type for the result of a decision.
//
//	var asked []policy.Ask[R, O]
//	defer func() { policy.End(asked, ...) }() // refund, release or settle
//	result, passed, err := asker.Ask(ctx, r, &p, true, &asked)
//
// Each answer is appended to a slice, which the caller must end with [End] whatever happens, also
// after a panic.
package policy

import (
	"errors"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// Policy is one limit.
type Policy[R, O any] struct {
	Name     string
	Limiter  partition.Limiter[R] // nil: it is not asked, but the policy applies
	Permits  func(R) int          // nil: 1; 0 or less: this policy does not limit the request
	MaxWait  time.Duration        // 0: nobody waits; below 0: as long as the context
	Rejected Result               // the result of a rejection
	Refund   func(R, O) bool      // nil: never
	Settle   func(R, O) int       // below 0: the cost stays as it is; nil: the same
	FailOpen bool
	Shadow   bool
}

// Rejected reports whether err is a limiter's rejection, and not its failure.
func Rejected(err error) bool {
	return errors.Is(err, core.ErrRejected) || errors.Is(err, core.ErrPermitsExceedLimit)
}

// RetryAfter returns the time until the same request could be served, as the lease or the error of
// a rejection tells; 0: unknown, or never.
func RetryAfter(lease core.Lease, err error) time.Duration {
	if errors.Is(err, core.ErrPermitsExceedLimit) {
		return 0
	}
	retry, _ := core.RetryAfter.From(lease)
	if no := new(core.RejectedError); retry <= 0 && errors.As(err, &no) {
		retry = no.RetryAfter
	}
	return max(retry, 0)
}
