package core

import "time"

// The methods that change a limiter as a whole: Update, Close, and the methods that package
// backdoor offers.

// update puts new current settings. Equal settings change nothing.
func (e *engine) update(o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	if e.settings.Load() == nil {
		return ErrClosed
	}
	now := e.lockAndServe()
	defer func() { e.unlockAndWake(now) }()
	switch l, t := o.label(), o.terms(); {
	case e.closed:
		return ErrClosed
	case !e.settings.Load().same(l, t):
		now = e.replaceLocked(now, settingsOf(l, t))
	}
	return nil
}

// replaceLocked puts new current settings. Instants continue as before; it returns the current one.
func (e *engine) replaceLocked(now int64, s *settings) int64 {
	e.concludeLocked()
	old := e.settings.Load()
	if old.Calendar != nil && s.calendar == (Calendar{}) {
		was := now
		if now = e.clock.Monotonic(now); now != was { // the current window moves with it
			old = old.copy()
			old.Shift(now - was)
			e.m.Rebind(&old.Terms)
		}
	}
	s.place(old, &e.clock, now)
	s.owner, s.Epoch = old.owner, e.m.NextEpoch(&s.Terms)
	if old.hook != nil && s.hook == nil {
		s.label = &label{s.name, s.anchor, s.calendar, old.hook}
	}
	e.settings.Store(s)
	if p := e.heldPermits(); p != nil {
		p.updatedLocked(s)
	}
	e.m.Update(now, &s.Terms)
	return now
}

// resize puts another current limit, from 0 to the one that the settings were made with.
func (e *engine) resize(limit int) {
	now := e.lockAndServe()
	if s := e.settings.Load().copy(); s.Limit != limit {
		s.Step, s.Limit = s.Most(), limit
		now = e.replaceLocked(now, s)
	}
	e.unlockAndWake(now)
}

// Close ends all waits with [ErrClosed], and later requests fail with ErrClosed. Leases can still
// be released, refunded and settled, and Statistics continues to work. Close always returns nil
// and may be called again.
func (e *engine) Close() error {
	if e.settings.Load() == nil {
		return nil
	}
	now := e.lockAndServe()
	e.closed = true
	e.m.Close(now)
	e.unlockAndWake(now)
	return nil
}

// retire closes the limiter if it has been idle for at least that long.
func (e *engine) retire(idle time.Duration) bool {
	if e.settings.Load() == nil {
		return false
	}
	now := e.lockAndServe()
	d, ok := e.idleLocked(now)
	if ok = ok && d >= idle && e.m.Empty(); ok {
		e.closed = true
	}
	e.unlockAndWake(now)
	return ok
}
