package core

import (
	"github.com/sluice-go/sluice/internal/machine"
)

// Refund undoes a grant that was not used. It is Settle(0).
//
// For a concurrency limiter and for a lease of [Grant] it is the same as Release. Call Refund at most once, before
// Release or instead of it: after Release it may do nothing.
func (l Lease) Refund() {
	if l.h != nil && l.handle() != &free { // otherwise there is nothing to return
		l.Settle(0)
	}
}

// undo refunds a grant that no caller will see. What cannot be refunded is released.
func (l Lease) undo() {
	defer l.Release()
	l.Refund()
}

// Settle corrects the cost of a grant to permits, once the actual cost is known: the tokens of a language
// model, the rows of a query, the bytes of a response. The limiter that granted the lease settles it, whichever
// limiters the request went through, and also after its Close. Settle is not counted in the statistics.
//
// If the actual cost is higher than the grant, Settle takes the difference immediately, even above the
// limit. It neither waits nor is rejected, and no permit is available until that debt is paid, by time or
// by releases.
//
// If the actual cost is lower, Settle returns the difference and serves waiters that now fit. How much
// comes back depends on the limiter:
//
//   - A concurrency limiter gets all of it back.
//   - A window gets all of it back for as long as the segment of the grant counts.
//   - A token bucket gets all of it back until the next token comes. After that it gets back only
//     tokens that are certainly still missing because of this grant: fewer as tokens come, and fewer or
//     none if other permits were returned at or after the time of the grant.
//   - Each limiter of a chain settles its part, the last one first. If one panics, all parts are refunded.
//   - A limiter outside this package decides itself: see [GrantFrom]. A lease of [Grant] can only be
//     settled to 0.
//
// A rate limiter gets nothing back for a grant made before a Reset or an Update. The exception is a
// window whose Update kept its segment boundaries.
//
// Settle returns a lease that replaces l: it is acquired, has that number of permits, and the metadata
// of l. Negative permits count as 0. Settle returns l unchanged and does nothing if l already has that
// number of permits, is not acquired, or cannot be settled.
//
// Settle a lease once, and use the lease that Settle returns from then on:
//
//	defer func() { lease.Release() }()
//	...
//	lease = lease.Settle(cost)
//
// The lease of a concurrency limiter, of a chain, of [Grant] or of [GrantFrom] ends with all its copies:
// releasing, refunding or settling them again does nothing. A rate limiter of this package keeps no
// record of its leases, so each call counts. If a rate limiter's lease of zero permits is settled to n
// permits, they are charged as if they were granted now.
func (l Lease) Settle(permits int) Lease {
	permits = max(permits, 0)
	o := l.outcome()
	if !o.acquired() || permits == l.permits() && (permits > 0 || o != held) {
		return l
	}
	if e := l.owner(); e != nil {
		return e.settle(l, permits)
	}
	return l.settleOther(permits)
}

// settleOther settles a lease of none of the four limiters.
func (l Lease) settleOther(n int) Lease {
	if l.h == nil {
		return l.ungranted(n)
	}
	h := l.handle()
	if h == &free {
		return l.replacement(h, l.outcome(), n, 0)
	}
	x := h.x
	if x == nil { // of a chain, and holds nothing any more
		return l
	}
	if x.joined != nil {
		return l.settleOnce(h, n)
	}
	switch by := x.by.(type) {
	case func():
		if n > 0 || !h.end(l.at) {
			return l
		}
		by()
		return l.replacement(nil, granted, 0, 0)
	case Granter:
		if l.permits() > 0 {
			return l.settleOnce(h, n)
		}
		// It holds nothing and does not end, so each settlement begins a lease of its own.
		if n = max(by.Settle(0, n), 0); n > 0 {
			return grantBy(n, heldBy(by, n), by, l.copyExtra().meta)
		}
		return l
	}
	return l.ungranted(n)
}

// ungranted settles a lease of Grant that has nothing to release.
func (l Lease) ungranted(n int) Lease {
	if n > 0 {
		return l
	}
	return l.replacement(nil, granted, 0, 0)
}

// settleOnce settles a lease of a chain or of GrantFrom, which ends with all its copies unless it is kept as it was.
func (l Lease) settleOnce(h *handle, n int) Lease {
	had := l.permits()
	if !h.settle(l.at, n) {
		return l
	}
	got := l.tell(h, had, n)
	for kept := got == had && n != had; kept; kept = got == had {
		switch h.settled(l.at, true) {
		case thenRelease:
			l.releaseTo(h.x)
			return l
		case thenRefund:
			got = l.tell(h, had, 0)
		default:
			return l
		}
	}
	h.settled(l.at, false)
	switch {
	case h.x.joined == nil:
		return l.replacement(h, heldBy(h.x.by.(Granter), got), got, l.at+perGeneration)
	case got > 0:
		return l.replacement(h, held, got, l.at+perGeneration)
	}
	k := l.replacement(&h.settings().shared, granted, 0, 0)
	h.x.joined.Drop()
	return k
}

// tell has the parts or the Granter of a lease settle it, and returns the permits that it has then. If one panics, the
// lease ends.
func (l Lease) tell(h *handle, had, n int) int {
	x, told := h.x, false
	defer func() {
		if told {
			return
		}
		h.settled(l.at, false)
		if x.joined != nil {
			x.joined.undo()
		} else {
			l.releaseTo(x)
		}
	}()
	if x.joined != nil {
		n = x.joined.settle(n)
	} else {
		n = max(x.by.(Granter).Settle(had, n), 0)
	}
	told = true
	return n
}

// releaseTo tells whom x names that the lease, which has ended, was released.
func (l Lease) releaseTo(x *extra) {
	switch by := x.by.(type) {
	case func():
		by()
	case releaser:
		by.Release(l.permits())
	case nil:
		x.joined.release()
	}
}

// settle settles a lease of this limiter.
func (e *engine) settle(l Lease, permits int) Lease {
	switch {
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
	if x.meta == nil && x.info == nil && (h == l.h || h.reported() == l.settings()) {
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
// counted in the statistics, and may be called after Close. If you still have the lease, use its Settle
// or Refund.
func (r *rate) GiveBack(n int) {
	if r.settings.Load() == nil || n <= 0 {
		return
	}
	now := r.lockAndServe()
	r.m.GiveBack(now, n)
	r.unlockAndWake(now)
}
