package core

// rate is what the limiters share whose permits come back with time.
type rate struct{ engine }

// TryReplenish adds the permits that are due by now, serves the waiters that now fit, and
// reports whether permits came back. Under automatic replenishment, and after Close, it changes
// nothing and returns false.
func (r *rate) TryReplenish() bool {
	if !r.inForce().Manual() {
		return false
	}
	now := r.lock()
	back := !r.closed && r.m.Replenish(now)
	r.unlock(now)
	return back
}

// AutoReplenishing reports whether permits come back without calls of TryReplenish.
func (r *rate) AutoReplenishing() bool {
	s := r.settings.Load()
	return s != nil && !s.Manual()
}

// Reset returns the limiter to its initial state: all permits are available, debts are
// forgotten, and waiters are served. With a [Calendar], the current window is that of the wall clock
// again, even if it was ahead. The statistics continue. Settling leases from before the
// Reset gives nothing back. Reset may be called again, and after Close.
func (r *rate) Reset() {
	if r.settings.Load() == nil {
		return
	}
	now := r.lock()
	r.concludeLocked()
	s := r.settings.Load().copy()
	s.Era++
	if s.Calendar != nil { // which may be ahead of a clock that was set back
		s.Enter(now)
	}
	r.settings.Store(s)
	r.m.Reset(now, &s.Terms)
	r.unlock(now)
}
