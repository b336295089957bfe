package partition

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// The methods below serve limiters whose leases do not settle themselves yet.

func (b *keyLimiter[R, K]) Refund(l core.Lease) {
	for _, e := range b.granters() {
		backdoor.Refund(e.limiter, l)
	}
	l.Release()
}

func (b *keyLimiter[R, K]) Settle(l core.Lease, permits int) core.Lease {
	for _, e := range b.granters() {
		if settled := backdoor.Settle(e.limiter, l, permits); settled.Permits() != l.Permits() {
			return settled
		}
	}
	return l
}

// granters returns the entries that may have granted a lease of the key.
func (b *keyLimiter[R, K]) granters() (all []*entry[R, K]) {
	if e := b.k.partitions.find(b.key); e != nil {
		all = append(all, e)
	}
	if b.k.o.Group != nil {
		if e := b.k.groups.find(b.k.o.Group(b.key)); e != nil {
			all = append(all, e)
		}
	}
	return all
}

func (c *completed) Refund(l core.Lease) { backdoor.Refund(c.Limiter, l) }

func (c *completed) Settle(l core.Lease, permits int) core.Lease {
	return backdoor.Settle(c.Limiter, l, permits)
}

func (b *boundForeign[R]) Refund(l core.Lease) {
	if f, ok := b.l.(interface{ Refund(r R, l core.Lease) }); ok {
		f.Refund(b.r, l)
		return
	}
	l.Refund()
}

func (b *boundForeign[R]) Settle(l core.Lease, permits int) core.Lease {
	if f, ok := b.l.(interface {
		Settle(r R, l core.Lease, permits int) core.Lease
	}); ok {
		return f.Settle(b.r, l, permits)
	}
	return l.Settle(permits)
}

// Refund is [core.Lease.Refund].
func (k *Keyed[R, K]) Refund(r R, l core.Lease) { For(k, r).(core.Refunder).Refund(l) }

// Settle is [core.Lease.Settle].
func (k *Keyed[R, K]) Settle(r R, l core.Lease, permits int) core.Lease {
	return For(k, r).(core.Settler).Settle(l, permits)
}
