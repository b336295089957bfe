package core

import (
	"github.com/sluice-go/sluice/internal/machine"
)

// Settle corrects the cost of a grant of this limiter to permits, once the cost is known. It
// returns a lease that replaces l: acquired, of that number of permits, with the metadata of l.
//
// If the grant has cost less, Settle gives the difference back and serves the waiters that now
// fit. A concurrency limiter takes back all of it. At the instant of the grant a rate limiter
// takes back all of it; later it takes back only what is certain to be still missing because of
// the grant, and less, down to nothing, if something was given back at or after the instant of
// the grant. A window takes back all of it as long as the segment of the grant counts. For
// grants from before a Reset or an Update, a rate limiter takes nothing back, except that a
// window does so if the Update did not change the boundaries of its segments.
//
// If the grant has cost more, Settle takes the difference at once, even above the limit:
// nothing is available until that debt is paid, by time or by releases. Settle does not wait,
// and no statistic counts it. Permits below 0 count as 0. If permits is what l already has, or
// l is not acquired or was granted by another limiter, Settle returns l unchanged and nothing
// happens. Leases can be settled after Close.
//
// The lease of a concurrency limiter is spent once it is settled: to release, refund or settle l
// or a copy of it again does nothing. A rate limiter remembers nothing of a lease, and each
// call counts: settle its lease once, and use the lease that Settle returns from then on. What a
// lease of zero permits is charged counts as a grant of the instant of the call.
func (e *engine) Settle(l Lease, permits int) Lease {
	permits = max(permits, 0)
	switch {
	case !l.Acquired() || l.owner() != e || permits == l.permits():
		return l
	case e.permits() != nil:
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

// Refund undoes a grant of this limiter that was not used: it is Settle to zero permits.
func (e *engine) Refund(l Lease) { e.Settle(l, 0) }

// settleTaken settles a lease of a rate limiter.
func (e *engine) settleTaken(l Lease, n int) Lease {
	now := e.lock()
	defer e.unlock(now)
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
	x.of, x.info, x.missing = &s.shared, &f, a.Missing
	k := Lease{bits: uint64(granted), reset: until(a.FullAt, now), at: max(now, s.From)}
	if s.Manual() && a.FullAt == machine.Never {
		k.at = a.Tick
	}
	return k.with(l.settings(), x)
}

// grant returns what Settle needs to know about a rate limiter's lease.
func (l Lease) grant() machine.Grant {
	g := machine.Grant{Permits: l.permits(), Epoch: l.handle().settings().Epoch, At: l.at, FullAt: machine.Never, Reduced: l.outcome() == reduced}
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
	x.of, x.info = h, &wide
	return Lease{h: l.h, bits: uint64(o), reset: l.reset, at: at}.with(l.settings(), x)
}

// GiveBack returns n permits for which there is no lease any more. A window gives up those that were taken
// first, and would have come back first. It returns at most what is missing, pays debts first, and serves
// the waiters that now fit. Settling leases from before may then give back nothing. n <= 0 does nothing.
// No statistic counts it. GiveBack may be called after Close. If the lease is still there, use Settle or
// Refund.
func (r *rate) GiveBack(n int) {
	if r.settings.Load() == nil || n <= 0 {
		return
	}
	now := r.lock()
	r.m.GiveBack(now, n)
	r.unlock(now)
}
