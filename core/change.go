package core

import "time"

// The methods that change a limiter as a whole: Update, Reset, Close, and the methods that package
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
