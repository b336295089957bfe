package core

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

// Settle corrects the cost of a grant to permits, once the actual cost is known: the tokens of a language model, the
// rows of a query, the bytes of a response. The limiter that granted the lease settles it, even if the request reached
// that limiter through others, and even after its Close. Settle is not counted in the statistics.
//
// If the actual cost is higher than the grant, Settle takes the difference immediately, even above the
// limit. It neither waits nor is rejected, and no permit is available until that debt is paid, by time or
// by releases.
//
// If the actual cost is lower, Settle returns the difference and serves waiters that now fit. How much
// is returned depends on the limiter:
//
//   - A concurrency limiter gets all of it back.
//   - A window gets all of it back while the segment of the grant is still in the window.
//   - A token bucket gets all of it back until the next token is added. After that it gets back only
//     tokens that are certainly still missing because of this grant. These become fewer as tokens are
//     added. If other permits were returned at or after the time of the grant, they are fewer, or none.
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
// The lease of a concurrency limiter, of a chain, of [Grant] or of [GrantFrom] ends with all its copies: releasing,
// refunding or settling them again does nothing. A rate limiter of this package keeps no record of its leases, so each
// of these calls takes effect. So does each call that settles a lease of zero permits, of any limiter of this package, to n
// permits: they are charged as if they were granted now.
func (l Lease) Settle(permits int) Lease {
	permits = max(permits, 0)
	o := l.outcome()
	if !o.acquired() || permits == l.permits() && (permits > 0 || o != held) {
		return l
	}
	switch by := l.owner(); {
	case by != nil:
		return by.settle(l, permits)
	case l.h != nil && l.handle() == &free:
		return l.replacement(&free, o, permits, 0)
	case permits == 0 && (l.h == nil || l.h.x != nil): // of Grant, without a function
		return l.replacement(nil, granted, 0, 0)
	}
	return l
}

// once is who settles leases by calling a user's code, perhaps. A lease of theirs ends with all its copies.
type once interface {
	// tell settles had permits to n, and returns the permits that the lease has then; had means that it is as it was.
	tell(had, n int) int

	// released releases a lease of that many permits, which has ended.
	released(permits int)

	// undone is released after a panic in tell.
	undone(permits int)
}

// settleOnce settles a lease to n permits, unless it has ended or another call settles it. It reports whether the lease
// has ended, and another one of got permits replaces it. A release or a refund that another call asks for meanwhile happens
// afterwards, if the lease is kept.
func (l Lease) settleOnce(by once, n int) (got int, ended bool) {
	h, had, told := l.handle(), l.permits(), false
	if !h.settle(l.at, n) {
		return had, false
	}
	defer func() {
		if !told {
			h.settled(l.at, false)
			by.undone(had)
		}
	}()
	got = by.tell(had, n)
	for got == had && n != had {
		switch then := h.settled(l.at, true); then {
		case thenRefund:
			got = by.tell(had, 0)
		default:
			told = true
			if then == thenRelease {
				by.released(had)
			}
			return had, false
		}
	}
	told = true
	h.settled(l.at, false)
	return got, true
}

// replacement returns the lease that replaces l after a settlement: of n permits and the handle h,
// with the metadata of l.
func (l Lease) replacement(h *handle, o outcome, n int, at int64) Lease {
	f, x := l.info(), l.copyExtra()
	if x.meta == nil && x.by == nil && x.info == nil && (h == l.h || h.reported() == l.settings()) {
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
