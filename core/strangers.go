package core

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/wait"
)

// Functions for any limiter, whether it is of this package or not. The methods that a limiter has are
// its methods, promoted or not: only TryQuietly and acquireUnder look whether they are those of an
// embedded limiter. What a limiter asks is in roots.go. The other packages of this module get these functions from package backdoor.

// embedded returns the limiter of this package that the type of l embeds, or nil.
func embedded(l Limiter) Limiter {
	if k, ok := l.(interface{ itself() Limiter }); ok && k.itself() != l {
		return k.itself()
	}
	return nil
}

// embeds reports whether l is of a type that embeds a limiter of this module. Such a type has all
// methods of that limiter, and may have overridden some: a promoted TryQuietly would bypass its TryAcquire.
func embeds(l Limiter) bool {
	if k, ok := l.(interface{ itself() Limiter }); ok {
		return k.itself() != l
	}
	return backdoor.Embeds[Lease](l)
}

// isClosed reports whether a limiter of this package is closed. Zero values are; a view is not, because it has no Close.
func isClosed(l Limiter) bool {
	k, ok := l.(interface{ isClosed() bool })
	return ok && !embeds(l) && k.isClosed()
}

// TryQuietly is like TryAcquire, but a rejection is not counted in the statistics and has no reason. It is for callers
// that try before they wait. If it returns false, no permits were taken, although in a chain the limiters before the
// one that rejected have counted a grant. TryQuietly always returns false if l is not a [QuietTrier], or if it embeds
// a limiter of this module. It also returns false for negative permits, for more permits than the limit, and after
// Close.
func TryQuietly(l Limiter, permits int) (Lease, bool) {
	if q, ok := l.(QuietTrier); ok && !embeds(l) {
		k, ok := q.TryQuietly(permits)
		return k, ok && k.Acquired()
	}
	return Lease{}, false
}

// reserve is l.Reserve.
func reserve(l Limiter, permits int) Lease {
	if r, ok := l.(Reserver); ok {
		return r.Reserve(permits)
	}
	return Fail(fmt.Errorf("core: %s is no Reserver", describe(l)))
}

// queueing says how a request may wait.
type queueing = backdoor.Queueing

const (
	bounded = backdoor.Bounded
	beyond  = backdoor.Beyond
)

// waitingLimiter is a limiter of this package in which a request may wait. acquireUnder is Acquire, with two
// differences. A request of this module's primitives waits beyond QueueLimit: see package backdoor. The wait ends with s
// too, which may be nil; the error then is that of ctx, or context.Canceled. waited reports whether the request has
// waited in a queue.
type waitingLimiter interface {
	Limiter
	acquireUnder(ctx context.Context, permits int, s *wait.Source, q queueing) (l Lease, waited bool, err error)
}

// acquireUnder is acquireUnder of a waitingLimiter, and as much of it as another limiter can do. The answer is in valid
// form: see checkedAnswer.
func acquireUnder(ctx context.Context, l Limiter, permits int, s *wait.Source, q queueing) (k Lease, waited bool, err error) {
	if w, ok := l.(waitingLimiter); ok && !embeds(l) {
		return w.acquireUnder(ctx, permits, s, q)
	}
	var mark *wait.Mark
	if s != nil {
		call := s.Begin(ctx)
		defer call.End()
		mark = wait.NewMark(call)
		defer mark.End()
		ctx = mark
	}
	if w := backdoor.WaiterOf[Lease](l); w != nil && q == beyond {
		k, err = w.AcquireWaiting(ctx, permits)
	} else {
		k, err = l.Acquire(ctx, permits)
	}
	k, err = checkedAnswer(k, err)
	return k, mark.Waited(), err
}

// acquireUnderBoth is acquireUnder of a wait that ends with own and with s, which may be nil.
func acquireUnderBoth(ctx context.Context, l Limiter, permits int, own, s *wait.Source, q queueing) (k Lease, waited bool, err error) {
	both, pair := wait.Both(own, s)
	defer pair.Leave()
	return acquireUnder(ctx, l, permits, both, q)
}

// checkedAnswer returns the answer of a limiter's Acquire in valid form: an acquired lease, or the error and
// a lease that has it. If both are rejections, the lease keeps its metadata. An acquired lease that
// comes with an error is refunded.
func checkedAnswer(lease Lease, err error) (Lease, error) {
	switch {
	case err == nil && lease.Acquired():
		return lease, nil
	case err == nil:
		err = lease.Err()
	case lease.Acquired():
		lease.undo()
		return Fail(err), err
	}
	switch {
	case same(lease.Err(), err):
		return lease, err
	case lease.rejected() && errors.Is(err, ErrRejected):
		return lease.failing(err), err
	}
	return Fail(err), err
}

// same reports whether a and b are one error.
func same(a, b error) bool { return backdoor.Same(a, b) }

// isNil reports whether a limiter or Options is nil, or holds a nil pointer.
func isNil(l any) bool { return backdoor.IsNil(l) }

// identical reports whether a and b are one limiter. Only pointers can tell: two limiters of another type
// may be equal and still be two.
func identical(a, b Limiter) bool {
	return reflect.TypeOf(a).Kind() == reflect.Pointer && backdoor.Same(a, b)
}

// describe returns a human-readable line about any limiter.
func describe(l Limiter) string {
	if s, ok := l.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T: %d available", l, l.Available())
}
