package core

// rate is what the limiters share whose permits come back with time.
type rate struct{ engine }

// simpleLocked returns the settings if a request for n permits is decided by what is available
// alone: the limiter is open, no request waits, and n is at least 1 and no more than the limit.
// Such requests are decided without the rest of the engine (bench: bucket, windows). For others
// it returns nil.
func (r *rate) simpleLocked(n int) *settings {
	s := r.settings.Load()
	if s == nil || r.closed || !r.m.Empty() || s.Manual() || n <= 0 || n > s.Limit {
		return nil
	}
	return s
}

// countLocked counts the decision of such a request; that of a quiet one only if it was granted.
func (r *rate) countLocked(ok, quiet bool) {
	if ok {
		r.granted++
	} else if !quiet {
		r.rejected++
	}
}

// decision makes the lease of such a request, after the mutex is free.
func (s *settings) decision(now int64, n, left int, fullAt, readyAt int64, ok bool) Lease {
	o, at := granted, now
	if !ok {
		o, at = exhausted, max(readyAt-now, 1)
	}
	if b, fits := pack(n, left); fits { // saves a call (bench: bucket, windows)
		return Lease{h: &s.shared, bits: uint64(o) | b, reset: until(fullAt, now), at: at}
	}
	return wideLease(&s.shared, o, n, left, until(fullAt, now), at)
}

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
