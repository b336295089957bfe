package partition

import (
	"context"

	"github.com/sluice-go/sluice/core"
)

// Limiter is like a [core.Limiter], but its decision may depend on the request, which is of
// type R: for example on the sender of the request.
//
// It checks a request in the order of [core.Limiter]: negative permits, a done context, a
// closed limiter. Only then does it look at the request. Implementations are safe for
// concurrent use.
type Limiter[R any] interface {
	// TryAcquire takes permits for r if they are available now. It does not wait for permits.
	TryAcquire(r R, permits int) core.Lease

	// Acquire takes permits for r and may wait in a limiter's queue. If it returns an error,
	// the returned lease is not acquired and has that error.
	Acquire(ctx context.Context, r R, permits int) (core.Lease, error)
}

// background is the context of calls that have none.
var background = context.Background() //nolint:forbidigo // TryAcquire has no context

// check makes the checks that come before the request: negative permits and a done ctx.
func check(ctx context.Context, permits int) error {
	if permits < 0 {
		return core.ErrNegativePermits
	}
	return ctx.Err()
}

// statistics returns l's statistics. For a limiter that is not a Reporter, only Available is
// set.
func statistics(l core.Limiter) core.Statistics {
	if r, ok := l.(core.Reporter); ok {
		return r.Statistics()
	}
	return core.Statistics{Available: l.Available()}
}
