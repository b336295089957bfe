package partition

import (
	"context"
	"errors"
	"reflect"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limiter"
)

// Limiter is to requests of type R what [core.Limiter] is to permits alone: what decides
// may depend on the request, as on who sent it.
//
// The checks come in the order of [core.Limiter]: negative permits, a done context, a
// closed limiter; only then is the request looked at. Implementations are safe for
// concurrent use.
type Limiter[R any] interface {
	// TryAcquire takes permits for r if they can be had now. It does not wait for permits.
	TryAcquire(r R, permits int) core.Lease

	// Acquire takes permits for r, waiting in a limiter's queue if need be. If it returns
	// an error, the lease beside it is not acquired and has that error.
	Acquire(ctx context.Context, r R, permits int) (core.Lease, error)
}

// Refunder is a [Limiter] that can undo an acquisition that was not used.
type Refunder[R any] interface {
	// Refund gives back the permits of a lease that was acquired for r, as [core.Refunder]
	// does: at most once per lease. A lease of somebody else's is ignored.
	Refund(r R, l core.Lease)
}

// isNil reports whether v is nil, or holds a nil pointer, function, map and the like.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Chan, reflect.Slice, reflect.UnsafePointer:
		return r.IsNil()
	}
	return false
}

// none is the context of TryAcquire.
var none context.Context

// check answers what comes before the request: negative permits, and a done ctx.
func check(ctx context.Context, permits int) error {
	if permits < 0 {
		return core.ErrNegativePermits
	}
	if ctx != none {
		return ctx.Err()
	}
	return nil
}

// refuse is what Acquire returns for err.
func refuse(err error) (core.Lease, error) { return core.Refuse(err), err }

// undo refunds a lease of l's, or releases it if l knows no refund.
func undo(l core.Limiter, lease core.Lease) {
	if r, ok := l.(core.Refunder); ok {
		r.Refund(lease)
		return
	}
	lease.Release()
}

// answered makes up for a limiter whose Acquire was careless: a lease that is not acquired
// has an error, and an error a lease that is not acquired and has it.
func answered(l core.Limiter, lease core.Lease, err error) (core.Lease, error) {
	if err == nil {
		if err = lease.Err(); err == nil {
			return lease, nil
		}
	}
	if lease.Acquired() {
		undo(l, lease)
		return refuse(err)
	}
	return refusal(lease, err), err
}

// refusal returns a lease that was not granted with err, which came beside it, as its error.
func refusal(lease core.Lease, err error) core.Lease {
	switch own := lease.Err(); {
	case limiter.Is(own, err):
		return lease
	case !errors.Is(own, core.ErrRejected) || !errors.Is(err, core.ErrRejected):
		return core.Refuse(err)
	}
	// Both tell of one rejection: a lease may make its error anew each time that it is asked.
	var metadata []core.Metadata
	for name, value := range lease.Metadata() {
		metadata = append(metadata, core.NewMetadataKey[any](name).With(value))
	}
	return core.Refuse(err).With(metadata...)
}

// statistics are l's; of a limiter that counts nothing only Available is known.
func statistics(l core.Limiter) core.Statistics {
	if r, ok := l.(core.Reporter); ok {
		return r.Statistics()
	}
	return core.Statistics{Available: l.Available()}
}
