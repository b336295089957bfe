package redislimit

import (
	"fmt"

	"github.com/sluice-go/sluice/core"
)

// grantKey is the metadata by which a limiter recognizes a rate limiter's lease, or a lease that holds nothing.
var grantKey = core.NewMetadataKey[*grant]("REDIS_GRANT")

// grant is the part of a rate limiter's lease that identifies its grant. Each Settle makes another one.
type grant struct {
	e       *Limiter
	limits  *limits // that decided it
	certain int64   // permits that may still be missing because of it
	stamp   stamp
}

// sinceUpdate returns the grant as the current limits count it. If a bucket's rate has changed since the grant, no permit is
// certain to be missing because of it.
func (g *grant) sinceUpdate() grant {
	g.e.mu.Lock()
	defer g.e.unlock()
	now := *g
	if now.limits = g.e.limits; !now.limits.sameRate(g.limits) {
		now.certain = 0
	}
	return now
}

// String returns a human-readable line.
func (g *grant) String() string { return fmt.Sprintf("grant of %q", g.e.options.Key) }

// Refund returns the permits of a grant of this limiter that was not used. It is Settle to zero permits.
func (e *Limiter) Refund(l core.Lease) { e.Settle(l, 0) }

// Settle corrects the cost of a grant of this limiter, once the actual cost is known. It returns a
// lease that replaces l, with that number of permits and the metadata of l. Use the returned lease
// from then on: with a concurrency limiter, releasing, refunding or settling l or a copy of it does
// nothing; with a rate limiter, each Settle of l counts again.
//
// If the grant cost less, Settle returns the difference and serves this process's waiters that now
// fit. A rate limiter returns only permits that are certain to be still missing because of the
// grant: those of a window as long as their segment counts, and those of a bucket never more than
// the bucket has lacked ever since. A bucket whose rate was changed by Update returns nothing.
//
// If the grant cost more, Settle takes the difference immediately, even above the limit. Then no
// permit is available to any process until that debt is paid.
//
// Negative permits count as 0. Settle returns l unchanged if l already has that number of permits,
// is not acquired, was replaced, or was granted by another limiter. A lease that [Options].Local
// granted is settled there. Settle returns when the store has replied or Timeout is over. If the
// store does not reply, a rate limiter's difference is lost, and a concurrency limiter's takes
// effect at the lease's next renewal. Leases can be settled after Close.
func (e *Limiter) Settle(l core.Lease, permits int) core.Lease {
	permits = max(permits, 0)
	if e.options.Store == nil || !l.Acquired() || permits == l.Permits() {
		return l
	}
	if g, ok := grantKey.From(l); ok && g.e == e {
		return e.settleGrant(g, l, permits)
	}
	for _, v := range l.Metadata() {
		if h, ok := v.(*handle); ok && h.lease.e == e {
			return e.settleLease(h, l, permits)
		}
	}
	return settleLocal(e.options.Local, l, permits)
}

// settleLocal settles a lease that Options.Local granted.
func settleLocal(local core.Limiter, l core.Lease, permits int) core.Lease {
	switch local := local.(type) {
	case core.Settler:
		return local.Settle(l, permits)
	case core.Refunder:
		if permits == 0 {
			local.Refund(l)
		}
	}
	return l
}

// settleGrant settles a lease of a rate limiter, or one that holds nothing.
func (e *Limiter) settleGrant(g *grant, l core.Lease, permits int) core.Lease {
	had := g.sinceUpdate()
	next := had
	replacement := e.unheld(l, permits, &next)
	less := min(min(int64(l.Permits()), maxNumber)-min(int64(permits), maxNumber), had.certain)
	switch {
	case e.kind == kindConcurrency && l.Permits() == 0: // a lease of zero permits
		return e.settleNothing(l, permits)
	case e.kind == kindConcurrency || less == 0: // it holds nothing
	case less > 0:
		o := giveOp(less, had.stamp)
		e.do(o)
		given := less
		if o.err == nil {
			given = o.result.done
		}
		// The rest of the grant may return that many permits less. The operation is sent once: if its reply is lost, it
		// counts as performed.
		next.certain -= less
		next.stamp.missing = max(next.stamp.missing-given, 0)
	default:
		o := chargeOp(-less, had.certain, had.stamp)
		e.do(o)
		if o.err != nil {
			break
		}
		next.certain = min(o.result.done-less, maxNumber)
		if e.kind == kindBucket || had.certain == 0 {
			next.stamp = o.result.stamp
		}
	}
	return replacement
}

// settleNothing takes permits of a concurrency limiter, available or not.
func (e *Limiter) settleNothing(l core.Lease, permits int) core.Lease {
	var got *lease
	e.perform(func() *operation {
		return e.keeper.chargeLocked(min(int64(permits), maxLimit), func(l *lease) { got = l })
	})
	if got == nil { // the store did not reply
		return e.unheld(l, permits, &grant{e: e})
	}
	return got.handle().grant(permits, e.metadataOf(l)...)
}

// settleLease settles a concurrency lease.
func (e *Limiter) settleLease(h *handle, l core.Lease, permits int) core.Lease {
	if permits == 0 {
		if !h.release() {
			return l
		}
		return e.unheld(l, 0, &grant{e: e})
	}
	if next := h.settle(permits); next != nil {
		return next.grant(permits, e.metadataOf(l)...)
	}
	return l
}

// unheld returns the lease of permits that replaces l and holds nothing at the store.
func (e *Limiter) unheld(l core.Lease, permits int, g *grant) core.Lease {
	return core.Grant(permits, nil, append(e.metadataOf(l), grantKey.With(g))...)
}

// metadataOf returns the metadata of l for the lease that replaces it, without the grants and handles of this limiter.
func (e *Limiter) metadataOf(l core.Lease) []core.Metadata {
	var m []core.Metadata
	for name, value := range l.Metadata() {
		switch v := value.(type) {
		case *grant:
			if v.e == e {
				continue
			}
		case *handle:
			if v.lease.e == e {
				continue
			}
		}
		m = append(m, core.NewMetadataKey[any](name).With(value))
	}
	return m
}
