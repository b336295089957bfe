package partition

import (
	"context"

	"github.com/sluice-go/sluice/core"
)

const reasonNoRoom = "partition limit reached"

// tryWithout answers a request that has no partition, and why.
func (k *Keyed[R, K]) tryWithout(why error, permits int) core.Lease {
	if why != errNoRoom { //nolint:errorlint // it is this very value, or not
		return core.Refuse(why)
	}
	k.overflowed.Add(1)
	if k.o.Overflow == nil {
		return k.reject(permits)
	}
	return k.o.Overflow.TryAcquire(permits)
}

func (k *Keyed[R, K]) acquireWithout(ctx context.Context, why error, permits int) (core.Lease, error) {
	if why != errNoRoom { //nolint:errorlint // it is this very value, or not
		return refuse(why)
	}
	k.overflowed.Add(1)
	if k.o.Overflow == nil {
		l := k.reject(permits)
		return l, l.Err()
	}
	return k.acquireGuarded(ctx, k.o.Overflow, permits, kindOf(k.o.Overflow) != foreign)
}

func (k *Keyed[R, K]) reject(permits int) core.Lease {
	l := core.Refuse(&core.RejectedError{Limiter: k.o.Name, Permits: permits, Reason: reasonNoRoom})
	if k.o.Name == "" {
		return l.With(core.ReasonPhrase.With(reasonNoRoom))
	}
	return l.With(core.LimiterName.With(k.o.Name), core.ReasonPhrase.With(reasonNoRoom))
}

// acquireGuarded acquires from a limiter that Close does not close, and has Close end the
// wait. forgets: the limiter keeps no context.
func (k *Keyed[R, K]) acquireGuarded(
	ctx context.Context, l core.Limiter, permits int, forgets bool,
) (core.Lease, error) {
	c := k.closing.Begin(ctx)
	returned := false
	defer func() { c.Finish(forgets && returned) }()
	lease, err := l.Acquire(c, permits) //nolint:contextcheck // c is ctx, and ends with Close too
	returned = true
	lease, err = answered(l, lease, err)
	if err != nil {
		if cause := c.EndedBy(err); cause != nil {
			return refuse(cause)
		}
		return lease, err
	}
	if cause := k.closing.Cause(); cause != nil { // granted as Close came: Close wins
		undo(l, lease)
		return refuse(cause)
	}
	return lease, nil
}
