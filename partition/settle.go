package partition

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/anylimiter"
)

// Refund gives back permits that were acquired for r and not used, as [core.Refunder] does: to
// the limiter of r's partition if the partition is live, or to Overflow if Overflow granted the
// lease. Otherwise Refund releases the lease. Refund does not create a partition, and works
// after Close.
func (k *Keyed[R, K]) Refund(r R, l core.Lease) { k.Settle(r, l, 0) }

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
	return k.settle(k.o.Key(r), l, max(permits, 0))
}

// settle offers the lease to both limiters that may have granted it: each ignores a lease that
// is not its own. If one of them cannot refund, or is gone, and the lease is to be refunded, it
// is released, which does nothing to a lease that the other has refunded.
func (k *Keyed[R, K]) settle(key K, l core.Lease, permits int) core.Lease {
	if permits > 0 && permits == l.Permits() {
		return l
	}
	able := false
	if e := k.find(key); e != nil {
		var settled core.Lease
		if settled, able = offer(e.limiter, l, permits); settled.Permits() != l.Permits() {
			return settled
		}
	}
	if k.o.Overflow != nil {
		settled, ok := offer(k.o.Overflow, l, permits)
		if settled.Permits() != l.Permits() {
			return settled
		}
		able = able && ok
	}
	if permits == 0 && !able {
		l.Release()
	}
	return l
}

// offer settles a lease that may be of l's. It reports false if l cannot.
func offer(l core.Limiter, lease core.Lease, permits int) (core.Lease, bool) {
	if s, ok := l.(core.Settler); ok && (permits > 0 || !anylimiter.Embeds(l)) {
		return s.Settle(lease, permits), true
	}
	r, ok := l.(core.Refunder)
	if ok && permits == 0 {
		r.Refund(lease)
	}
	return lease, ok
}
