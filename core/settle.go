package core

import (
	"github.com/sluice-go/sluice/internal/machine"
)

// Settle corrects the cost of a grant of this limiter to permits, once the actual cost is known,
// and returns a lease that replaces l. If the cost is lower than the grant, Settle returns the
// difference; if it is higher, Settle takes the difference immediately, even above the limit.
// [Settler] describes how much comes back, and all other cases.
func (e *engine) Settle(l Lease, permits int) Lease {
	permits = max(permits, 0)
	switch {
	case !l.Acquired() || l.owner() != e || permits == l.permits():
		return l
	case e.heldPermits() != nil:
		return e.settleHeld(l, permits)
	case l.outcome() == reserved:
		if r := l.reservation(); r != nil {
			return e.settleReserved(l, r, permits)
		}
		return e.settleTaken(l, permits).With(Delay.With(0))
	default:
		return e.settleTaken(l, permits)
	}
}

// Refund undoes a grant of this limiter that was not used: it settles l to zero permits. See
// [Settler].
func (e *engine) Refund(l Lease) { e.Settle(l, 0) }

// settleTaken settles a lease of a rate limiter.
func (e *engine) settleTaken(l Lease, n int) Lease {
	now := e.lockAndServe()
	defer e.unlockAndWake(now)
	return e.settleTakenLocked(now, l, n)
}

func (e *engine) settleTakenLocked(now int64, l Lease, n int) Lease {
	h, g := l.handle(), l.grant()
	switch renewed := e.m.Settle(now, g, n); {
	case renewed:
		return e.renewedLocked(l, now, n)
	case n > 0 && (n < g.Permits || g.Reduced):
		return l.replacement(h, reduced, n, l.at)
	}
	return l.replacement(h, granted, n, l.at)
}

// renewedLocked returns a lease that replaces l, as a lease of n permits granted now, but with the
// metadata of l.
func (e *engine) renewedLocked(l Lease, now int64, n int) Lease {
	s, x, f := e.settings.Load(), l.copyExtra(), l.info()
	f.permits = n
	a := e.m.Answer(now)
	x.base, x.info, x.missing = &s.shared, &f, a.Missing
	k := Lease{bits: uint64(granted), reset: until(a.FullAt, now), at: max(now, s.From)}
	if s.Manual() && a.FullAt == machine.Never {
		k.at = a.Tick
	}
	return k.with(l.settings(), x)
}

// grant returns what Settle needs to know about a rate limiter's lease.
func (l Lease) grant() machine.Grant {
	g := machine.Grant{
		Permits: l.permits(), Epoch: l.handle().settings().Epoch,
		At: l.at, FullAt: machine.Never, Reduced: l.outcome() == reduced,
	}
	if l.reset != machine.Never {
		g.FullAt = l.at + l.reset
	}
	if x := l.extra(); x != nil && x.info != nil {
		g.Missing = x.missing
	} else {
		f := l.info()
		g.Missing = f.limit - f.left
	}
	return g
}

// replacement returns the lease that replaces l after a settlement: of n permits and the handle h,
// with the metadata of l.
func (l Lease) replacement(h *handle, o outcome, n int, at int64) Lease {
	f, x := l.info(), l.copyExtra()
	if x.meta == nil && x.info == nil && (h == l.h || h != nil && l.h != nil && h.settings() == l.h.settings()) {
		return newLease(h, o, n, f.left, l.reset, at)
	}
	if x.info == nil {
		x.missing = f.limit - f.left
	}
	wide := f // f itself stays on the stack
	wide.permits = n
	x.base, x.info = h, &wide
	return Lease{h: l.h, bits: uint64(o), reset: l.reset, at: at}.with(l.settings(), x)
}

// GiveBack returns n permits whose lease no longer exists. It pays debts first, never returns more
// than is missing, and serves waiters that now fit. A window returns the permits that were taken
// first. Settling an earlier lease may then return nothing. GiveBack does nothing if n <= 0, is not
// counted in the statistics, and may be called after Close. If you still have the lease, use Settle
// or Refund.
func (r *rate) GiveBack(n int) {
	if r.settings.Load() == nil || n <= 0 {
		return
	}
	now := r.lockAndServe()
	r.m.GiveBack(now, n)
	r.unlockAndWake(now)
}
