package partition

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Refund returns permits that were acquired for r and not used, as [core.Refunder] does: to
// the limiter of r's partition if the partition is live, or to Overflow if Overflow granted the
// lease. Otherwise Refund releases the lease. Refund does not create a partition, and works
// after Close.
func (k *Keyed[R, K]) Refund(r R, l core.Lease) {
	if k.o.Key != nil && l.Acquired() {
		k.settle(k.o.Key(r), l, 0, refund)
	}
}

// Settle corrects the cost of the grant of l, which was acquired for r, to permits, as
// [core.Settler] does: in the limiter of r's partition if the partition is live, or in Overflow
// if Overflow granted the lease. It returns a lease that replaces l; if the partition is gone,
// it returns l. Settle does not create a partition, and works after Close. If the limiter is
// not a [core.Settler], the lease stays as it is, unless permits is 0 or less: then the lease
// is refunded.
func (k *Keyed[R, K]) Settle(r R, l core.Lease, permits int) core.Lease {
	if k.o.Key == nil || !l.Acquired() {
		return l
	}
	return k.settle(k.o.Key(r), l, max(permits, 0), settle)
}

// settle offers the lease to both limiters that may have granted it: each ignores a lease that
// is not its own. If one of them cannot refund, or is gone, and the lease is to be refunded, it
// is released, which does nothing to a lease that the other has refunded.
func (k *Keyed[R, K]) settle(key K, l core.Lease, permits int, offer offerFunc) core.Lease {
	if permits > 0 && permits == l.Permits() {
		return l
	}
	limiters := [2]core.Limiter{nil, k.o.Overflow}
	if e := k.find(key); e != nil {
		limiters[0] = e.limiter
	}
	able := limiters[0] != nil
	for _, limiter := range limiters {
		switch {
		case limiter == nil:
		case !takesBack(limiter):
			able = false
		default:
			if settled := offer(limiter, l, permits); settled.Permits() != l.Permits() {
				return settled
			}
		}
	}
	if permits == 0 && !able {
		l.Release()
	}
	return l
}

// offerFunc is settle or refund.
type offerFunc = func(l core.Limiter, lease core.Lease, permits int) core.Lease

func settle(l core.Limiter, lease core.Lease, permits int) core.Lease {
	return backdoor.Settle(l, lease, permits)
}

func refund(l core.Limiter, lease core.Lease, _ int) core.Lease {
	backdoor.Refund(l, lease)
	return lease
}

// takesBack reports whether l ignores the leases of others, instead of releasing them.
func takesBack(l core.Limiter) bool {
	switch l.(type) {
	case core.Refunder, core.Settler:
		return true
	}
	return false
}
