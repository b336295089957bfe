package core

// rate adds TryReplenish, AutoReplenishing and Reset to limiters whose permits come back with time.
type rate struct{ engine }

// TryReplenish adds the permits that are due by now, serves the waiters that now fit, and
// reports whether permits came back. Under automatic replenishment, and after Close, it changes
// nothing and returns false.
func (r *rate) TryReplenish() bool {
	if !r.manual() {
		return false
	}
	now := r.lock()
	back := !r.closed && r.m.Replenish(now)
	r.unlock(now)
	return back
}

// AutoReplenishing reports whether permits come back without calls of TryReplenish.
func (r *rate) AutoReplenishing() bool { return r.epoch.Load() != nil && !r.manual() }

// Reset returns the limiter to its initial state: all permits are available, debts are
// forgotten, and waiters are served. The statistics continue. Settling leases from before the
// Reset gives nothing back. Reset may be called again, and after Close.
func (r *rate) Reset() { r.engine.reset() }

func (r *rate) manual() bool {
	t := r.epoch.Load()
	return t != nil && t.Manual()
}
