package core

import (
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// The methods that change a limiter as a whole: Update, Reset, Close, and the methods that package
// backdoor offers.

// update puts new settings in force. Equal settings change nothing.
func (e *engine) update(l label, t machine.Terms) error {
	if e.settings.Load() == nil {
		return ErrClosed
	}
	now := e.lock()
	defer func() { e.unlock(now) }()
	switch {
	case e.closed:
		return ErrClosed
	case e.settings.Load().same(l, t):
		return nil
	}
	now = e.replaceLocked(now, newSettings(l, t))
	return nil
}

// replaceLocked puts new settings in force. Instants go on as before; it returns that of now.
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
	s.owner, s.Era = e, old.Era
	if s.Kind != machine.Window || !old.SameGrid(&s.Terms) {
		s.Era++
	}
	if old.hook != nil && s.hook == nil {
		s.label = &label{s.name, s.anchor, s.calendar, old.hook}
	}
	e.settings.Store(s)
	if p := e.permits(); p != nil && !e.watched {
		p.spare, p.spares = nil, 0 // leases that have ended still say the old limit
	}
	e.m.Update(now, &s.Terms)
	return now
}

// resize puts another limit in force, from 0 to the one that the settings were made with.
func (e *engine) resize(limit int) {
	now := e.lock()
	if s := e.settings.Load().copy(); s.Limit != limit {
		s.Step, s.Limit = s.Most(), limit
		now = e.replaceLocked(now, s)
	}
	e.unlock(now)
}

// Close ends all waits with [ErrClosed], and later requests fail with ErrClosed. Leases can
// still be released, and Statistics continues to work. Close always returns nil and may be
// called again.
func (e *engine) Close() error {
	if e.settings.Load() == nil {
		return nil
	}
	now := e.lock()
	e.closed = true
	e.m.Close(now)
	e.unlock(now)
	return nil
}

// retire closes the limiter if it has been idle for at least that long.
func (e *engine) retire(idle time.Duration) bool {
	if e.settings.Load() == nil {
		return false
	}
	now := e.lock()
	d, ok := e.idleLocked(now)
	if ok = ok && d >= idle && e.m.Empty(); ok {
		e.closed = true
	}
	e.unlock(now)
	return ok
}
