package hold

import (
	"context"
	"math"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/wait"
)

// Acquire is l.Acquire, but the wait ends with s too, and then the error is the source's cause; a nil s
// never ends. If beyond is set, it waits whatever QueueLimit is: see [backdoor.Beyond]. It tries quietly first,
// so that a grant that does not wait makes no context. If ctx or s has ended by the time that permits are granted, they are
// refunded. The lease is acquired if and only if the error is nil, whatever the limiter returned.
func Acquire(ctx context.Context, s *wait.Source, l core.Limiter, n int, beyond bool) (core.Lease, error) {
	if err := s.Ended(ctx); err != nil {
		return core.Fail(err), err
	}
	if lease, ok := core.TryQuietly(l, n); ok {
		return lease, nil
	}
	lease, _, err := Wait(ctx, s, l, n, beyond)
	return lease, err
}

// Wait is Acquire for a caller that has tried already. With a source it also reports whether the call has waited in a queue.
func Wait(ctx context.Context, s *wait.Source, l core.Limiter, n int, beyond bool) (lease core.Lease, waited bool, err error) {
	if lease, waited, err = ways.Acquire(ctx, l, n, s, backdoor.Queueing(beyond)); err != nil {
		if err = s.Explain(ctx, err); !backdoor.Same(lease.Err(), err) {
			lease = core.Fail(err)
		}
		return lease, waited, err
	}
	unused := lease
	defer func() { unused.Refund() }() // deferred, because ctx may panic
	if err := s.Ended(ctx); err != nil {
		return core.Fail(err), waited, err
	}
	unused = core.Lease{}
	return lease, waited, nil
}

// ErrClosed returns the error ErrClosed of a package: its message is "name: closed", and it matches
// core.ErrClosed.
func ErrClosed(name string) error { return closedError(name) }

type closedError string

func (e closedError) Error() string { return string(e) + ": closed" }

func (e closedError) Is(target error) bool { return target == core.ErrClosed }

// Limit returns the current limit of l, or math.MaxInt if l does not report one.
func Limit(l core.Limiter) int {
	if r, ok := core.As[core.Reporter](l); ok {
		if limit := r.Statistics().Limit; limit > 0 {
			return limit
		}
	}
	return math.MaxInt
}
