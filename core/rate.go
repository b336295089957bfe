package core

// rate is the engine of a limiter whose permits come back with time.
type rate struct{ engine }

// TryReplenish applies what is due by now, serves whom that allows to go on, and reports
// whether permits came back. Under automatic replenishment, and after Close, it changes
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

// AutoReplenishing reports whether permits come back by themselves.
func (r *rate) AutoReplenishing() bool { return r.cell.Load() != nil && !r.manual() }

func (r *rate) manual() bool {
	c := r.cell.Load()
	return c != nil && c.Manual()
}
