package hold

import (
	"context"
	"math"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/wait"
)

// Acquire is l.Acquire, but the wait ends with s too, and then the error is the source's cause; a nil s
// never ends. It tries quietly first, and makes a context of its own only if the call may have to wait. If
// ctx or s has ended by the time that permits are granted, they are refunded. The lease is acquired if and
// only if the error is nil, whatever the limiter returned.
func Acquire(ctx context.Context, s *wait.Source, l core.Limiter, n int) (core.Lease, error) {
	return tryFirst(ctx, s, l, n, Wait)
}

// AcquireWaiting is Acquire that waits whatever QueueLimit is: see [backdoor.Ways.AcquireWaiting].
func AcquireWaiting(ctx context.Context, s *wait.Source, l core.Limiter, n int) (core.Lease, error) {
	return tryFirst(ctx, s, l, n, WaitBeyond)
}

func tryFirst(ctx context.Context, s *wait.Source, l core.Limiter, n int,
	slow func(context.Context, *wait.Source, core.Limiter, int) (core.Lease, error),
) (core.Lease, error) {
	if err := s.Ended(ctx); err != nil {
		return core.Fail(err), err
	}
	if lease, ok := core.TryQuietly(l, n); ok {
		return lease, nil
	}
	return slow(ctx, s, l, n)
}

// Wait is Acquire, and WaitBeyond is AcquireWaiting, for a caller that has tried already: they do not try
// quietly first.
func Wait(ctx context.Context, s *wait.Source, l core.Limiter, n int) (core.Lease, error) {
	return acquire(ctx, s, l, func(ctx context.Context) (core.Lease, error) { return l.Acquire(ctx, n) })
}

// WaitBeyond is described at [Wait].
func WaitBeyond(ctx context.Context, s *wait.Source, l core.Limiter, n int) (core.Lease, error) {
	return acquire(ctx, s, l, func(ctx context.Context) (core.Lease, error) { return ways.AcquireWaiting(ctx, l, n) })
}

func acquire(ctx context.Context, s *wait.Source, l core.Limiter,
	ask func(context.Context) (core.Lease, error),
) (core.Lease, error) {
	lease, err := await(ctx, s, func(ctx context.Context) (core.Lease, error) {
		lease, err := ask(ctx)
		return backdoor.Checked(l, lease, err)
	}, func(lease core.Lease) { backdoor.Refund(l, lease) })
	if err != nil && !backdoor.Same(lease.Err(), err) {
		return core.Fail(err), err
	}
	return lease, err
}

// await asks for a grant with a context that ends with s too. It gives the grant back if ctx or s has ended by
// then, or if ctx panics.
func await[G any](ctx context.Context, s *wait.Source, ask func(context.Context) (G, error), giveBack func(G)) (G, error) {
	asked := ctx //nolint:contextcheck // it is ctx, until the source ends
	if s != nil {
		call := s.Begin(ctx)
		defer call.End()
		asked = call
	}
	grant, err := ask(asked)
	if err != nil {
		return grant, s.Explain(ctx, err)
	}
	kept := false
	defer func() {
		if !kept {
			giveBack(grant)
		}
	}()
	err = s.Ended(ctx)
	kept = err == nil
	return grant, err
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
