package core

import "github.com/sluice-go/sluice/internal/machine"

// rate is what the limiters share whose permits are returned with time.
type rate struct{ engine }

// TryReplenish adds the permits that are due by now, serves the waiters that now fit, and reports
// whether permits were returned. Under automatic replenishment, and after Close, it changes nothing
// and returns false.
func (r *rate) TryReplenish() bool {
	if !r.current().Manual() {
		return false
	}
	now := r.lockAndServe()
	back := !r.closed && r.m.Replenish(now)
	r.unlockAndWake(now)
	return back
}

// AutoReplenishing reports whether permits are returned without calls of TryReplenish.
func (r *rate) AutoReplenishing() bool {
	s := r.settings.Load()
	return s != nil && !s.Manual()
}

// Reset returns the limiter to its initial state: all permits are available, debts are canceled,
// and waiters are served. With a [Calendar], the wall clock determines the current window again,
// even if the window was ahead of the clock. The statistics continue. Settling a lease from
// before the Reset returns no permits. Reset may be called again, and after Close.
func (r *rate) Reset() {
	if r.settings.Load() == nil {
		return
	}
	now := r.lockAndServe()
	r.concludeLocked()
	s := r.settings.Load().copy()
	s.Epoch++
	if s.Calendar != nil { // which may be ahead of a clock that was set back
		s.Enter(now)
	}
	r.settings.Store(s)
	r.m.Reset(now, &s.Terms)
	r.unlockAndWake(now)
}

// GiveBack returns n permits whose lease no longer exists. It pays debts first, never returns more than is missing,
// and serves waiters that now fit. A window returns the permits that were taken first, so settling an earlier lease
// may then return nothing. GiveBack does nothing if n <= 0, is not counted in the statistics, and may be called after
// Close. If you still have the lease, use its Settle or Refund.
func (r *rate) GiveBack(n int) {
	if r.settings.Load() == nil || n <= 0 {
		return
	}
	now := r.lockAndServe()
	r.m.GiveBack(now, n)
	r.unlockAndWake(now)
}

// settle settles a lease of a rate limiter.
func (r *rate) settle(l Lease, permits int) Lease {
	if l.outcome() == reserved {
		return r.settleTaken(l, permits).With(Delay.With(0))
	}
	return r.settleTaken(l, permits)
}

// release does nothing: the leases of a rate limiter hold nothing.
func (r *rate) release(Lease) {}

// settleTaken settles a lease of a rate limiter.
func (r *rate) settleTaken(l Lease, n int) Lease {
	now := r.lockAndServe()
	defer r.unlockAndWake(now)
	return r.settleTakenLocked(now, l, n)
}

func (r *rate) settleTakenLocked(now int64, l Lease, n int) Lease {
	h, g := l.handle(), l.grant()
	switch renewed := r.m.Settle(now, g, n); {
	case renewed:
		return r.renewedLocked(l, now, n)
	case n > 0 && (n < g.Permits || g.Reduced):
		return l.replacement(h, reduced, n, l.at)
	}
	return l.replacement(h, granted, n, l.at)
}

// renewedLocked returns a lease that replaces l, as a lease of n permits granted now, but with the
// metadata of l.
func (r *rate) renewedLocked(l Lease, now int64, n int) Lease {
	s, x, f := r.settings.Load(), l.copyExtra(), l.info()
	f.permits = n
	a := r.m.Answer(now)
	x.base, x.info, x.missing = &s.shared, &f, a.Missing
	return Lease{bits: uint64(granted), reset: until(a.FullAt, now), at: a.GrantAt}.with(l.settings(), x)
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
