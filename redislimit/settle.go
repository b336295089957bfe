package redislimit

import (
	"fmt"

	"github.com/sluice-go/sluice/core"
)

// grantKey is what a rate limiter's lease is recognized by, and one that holds nothing.
var grantKey = core.NewMetadataKey[*grant]("REDIS_GRANT")

// grant is what a core.Lease of a rate limiter knows of its grant: each Settle makes another one.
type grant struct {
	e       *engine
	certain int64 // permits that may still be missing because of it
	stamp   stamp
}

// String returns a human-readable line.
func (g *grant) String() string { return fmt.Sprintf("grant of %q", g.e.shared.Key) }

// Refund undoes a grant of this limiter that was not used: it is Settle to zero permits.
func (e *engine) Refund(l core.Lease) { e.Settle(l, 0) }

// Settle corrects the cost of a grant of this limiter to permits, once the cost is known. It
// returns a lease that replaces l: acquired, of that number of permits, with the metadata of l.
// From then on a concurrency limiter's l and its copies are spent: releasing, refunding or settling them
// does nothing. A rate limiter's lease counts each time: settle it once.
//
// If the grant has cost less, Settle gives the difference back and serves this process' waiters
// that now fit. A rate limiter's permits come back only as far as they are certain to be still
// missing because of the grant: a window's as long as its segment counts, and a bucket's
// never more than it has always lacked since. If the grant has cost more, Settle takes the
// difference at once, even above the limit: nothing is available to any process until that debt
// is paid.
//
// Permits below 0 count as 0. If permits is what l already has, or l is not acquired, is spent,
// or was granted by another limiter, Settle returns l unchanged. A lease that [StoreOptions].Local
// granted is settled there. Settle returns when the store has answered, or Timeout is over. If the
// store does not answer, a rate limiter's difference is neither given back nor taken, and a
// concurrency limiter's at the lease's next renewal. Leases can be settled after Close.
func (e *engine) Settle(l core.Lease, permits int) core.Lease {
	permits = max(permits, 0)
	if e.shared.Store == nil || !l.Acquired() || permits == l.Permits() {
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
	switch local := e.shared.Local.(type) {
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
func (e *engine) settleGrant(g *grant, l core.Lease, permits int) core.Lease {
	next := *g
	replacement := e.unheld(l, permits, &next)
	less := min(min(int64(l.Permits()), most)-min(int64(permits), most), g.certain)
	switch {
	case e.kind == kindConcurrency && l.Permits() == 0: // a concurrency limiter's lease of zero permits
		return e.settleNothing(l, permits)
	case e.kind == kindConcurrency || less == 0: // it held nothing
	case less > 0:
		o := giveBack(less, g.stamp)
		e.do(o)
		given := less
		if o.err == nil {
			given = o.answer.done
		}
		// What is left may give back as much less. A give-back is sent once; if the answer is lost, it counts as given.
		next.certain -= less
		next.stamp.missing = max(next.stamp.missing-given, 0)
	default:
		o := charge(-less, g.certain, g.stamp)
		e.do(o)
		if o.err != nil {
			break
		}
		next.certain = min(o.answer.done-less, most)
		if e.kind == kindBucket || g.certain == 0 {
			next.stamp = o.answer.stamp
		}
	}
	return replacement
}

// settleNothing takes permits of a concurrency limiter, available or not.
func (e *engine) settleNothing(l core.Lease, permits int) core.Lease {
	var got *lease
	e.perform(func() *operation {
		return e.keeper.chargeLocked(min(int64(permits), maxLimit), func(l *lease) { got = l })
	})
	if got == nil { // the store did not answer
		return e.unheld(l, permits, &grant{e: e})
	}
	return got.handle().grant(permits, e.metadataOf(l)...)
}

// settleLease settles a concurrency lease.
func (e *engine) settleLease(h *handle, l core.Lease, permits int) core.Lease {
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
func (e *engine) unheld(l core.Lease, permits int, g *grant) core.Lease {
	return core.Grant(permits, nil, append(e.metadataOf(l), grantKey.With(g))...)
}

// metadataOf returns the metadata of l for the lease that replaces it: without what this limiter recognizes l by.
func (e *engine) metadataOf(l core.Lease) []core.Metadata {
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
