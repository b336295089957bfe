package partition

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limiter"
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

// Refunder is a [Limiter] that can undo a grant that was not used.
type Refunder[R any] interface {
	// Refund gives back the permits of a lease that was acquired for r, as [core.Refunder]
	// does, at most once per lease. It ignores leases of other limiters.
	Refund(r R, l core.Lease)
}

// Settler is a [Limiter] that can correct the cost of a grant once the cost is known.
type Settler[R any] interface {
	// Settle records that the grant of l, which was acquired for r, has cost permits, as
	// [core.Settler] does: the difference is given back, or taken as a debt. It returns a lease
	// that replaces l. Negative permits count as 0. A lease that another limiter granted, that
	// is not acquired, or whose limiter is gone is returned unchanged.
	Settle(r R, l core.Lease, permits int) core.Lease
}

// none is the context of TryAcquire, which has none.
var none context.Context

// check makes the checks that come before the request: negative permits and a done ctx.
func check(ctx context.Context, permits int) error {
	if permits < 0 {
		return core.ErrNegativePermits
	}
	if ctx != none {
		return ctx.Err()
	}
	return nil
}

// refuse returns what Acquire returns for err.
func refuse(err error) (core.Lease, error) { return core.Refuse(err), err }

// checked returns the answer of l's Acquire, which may be a user's, in valid form: an acquired
// lease, or an error and a lease that has it.
func checked(l core.Limiter, lease core.Lease, err error) (core.Lease, error) {
	lease, err = limiter.Checked(l, lease, err)
	if err != nil {
		return refusal(lease, err), err
	}
	return lease, nil
}

// refusal returns the lease, which was not granted, with err as its error.
func refusal(lease core.Lease, err error) core.Lease {
	switch own := lease.Err(); {
	case limiter.Is(own, err):
		return lease
	case !errors.Is(own, core.ErrRejected) || !errors.Is(err, core.ErrRejected):
		return core.Refuse(err)
	}
	// Both are the same rejection: a lease may make its error anew each time it is asked.
	var metadata []core.Metadata
	for name, value := range lease.Metadata() {
		metadata = append(metadata, core.NewMetadataKey[any](name).With(value))
	}
	return core.Refuse(err).With(metadata...)
}

// statistics returns l's statistics. For a limiter that is not a Reporter, only Available is
// set.
func statistics(l core.Limiter) core.Statistics {
	if r, ok := l.(core.Reporter); ok {
		return r.Statistics()
	}
	return core.Statistics{Available: l.Available()}
}

// settle settles a lease of l's. If l is not a Settler, settling to 0 refunds the lease, and
// settling to anything else leaves it as it is.
func settle(l core.Limiter, lease core.Lease, permits int) core.Lease {
	if s, ok := l.(core.Settler); ok {
		return s.Settle(lease, permits)
	}
	if permits <= 0 && lease.Acquired() {
		limiter.Refund(l, lease)
	}
	return lease
}

// describe returns l's own String, or its type: printing the fields of a limiter in use would
// be a data race.
func describe(l any) string {
	if s, ok := l.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", l)
}
