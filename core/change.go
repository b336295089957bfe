package core

import (
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// The methods that change a limiter as a whole: Update, Reset, Close, and those that package
// direct offers.

// update puts new terms in force. Equal terms change nothing.
func (e *engine) update(t terms) error {
	if e.epoch.Load() == nil {
		return ErrClosed
	}
	now := e.lock()
	defer func() { e.unlock(now) }()
	old := e.epoch.Load()
	switch {
	case e.closed:
		return ErrClosed
	case t.same(old.terms):
		return nil
	}
	e.replace(now, t)
	return nil
}

// replace puts new terms in force, which count from the same instant. The mutex is held.
func (e *engine) replace(now int64, t terms) {
	old := e.epoch.Load()
	t.base = old.base
	t.From = t.origin(now)
	if old.hook != nil && t.hook == nil {
		t.label, t.watched = &label{t.name, t.anchor, old.hook}, true
	}
	last := e.number()
	t.first = last
	k := newEpoch(e, t)
	e.epoch.Store(k)
	e.m.Update(now, &k.Terms, last)
}

// resize puts another limit in force, from 1 to the one that the terms were made with.
func (e *engine) resize(limit int) {
	now := e.lock()
	if t := *e.epoch.Load().terms; t.Limit != limit {
		t.Ceiling, t.Limit = t.Most(), limit
		e.replace(now, t)
	}
	e.unlock(now)
}

// reset returns a rate limiter to its initial state.
func (e *engine) reset() {
	if e.epoch.Load() == nil {
		return
	}
	now := e.lock()
	e.m.Reset(now, e.number())
	e.unlock(now)
}

// Close ends all waits with [ErrClosed], and later requests fail with ErrClosed. Leases can
// still be released, and Statistics continues to work. Close always returns nil and may be
// called again.
func (e *engine) Close() error {
	if e.epoch.Load() == nil {
		return nil
	}
	now := e.lock()
	e.closed = true
	e.m.Close(now)
	e.unlock(now)
	return nil
}

// retire closes the limiter if it has been idle for at least that long. The mutex that decides
// grants decides this too: all grants made by swaps are in the account once the word is shut,
// and it is not opened again.
func (e *engine) retire(idle time.Duration) bool {
	if e.epoch.Load() == nil {
		return false
	}
	now := e.lock()
	d, ok := e.idle(now)
	if ok = ok && d >= idle && e.m.Empty(); ok {
		e.closed = true
	}
	e.unlock(now)
	return ok
}

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

var _ machine.Account = (*permits)(nil)
