package core

import (
	"sync"
	"sync/atomic"
)

// sentry waits for a Done in the place of the waiters in a room that share it, as the
// workers of one job do. A select of the grant and Done takes four locks, of which half are
// that of the one Done; a receive of the grant takes one. It keeps Done and not the context,
// which may be used again for another call.
type sentry struct {
	done  <-chan struct{}
	quit  chan struct{} // closed when the room is left
	fired atomic.Bool   // done is closed, and those that it guards are about to be cancelled
}

// guarded reports whether a sentry waits for done in the place of w. One that fires says so
// before it looks for whom it guards, and w says that it is guarded before it looks whether
// the sentry has fired: so one of them sees the other.
func (e *engine) guarded(w *waiter, done <-chan struct{}) bool {
	if w.Value.sentry == nil && w.Value.room.shared.by(done) {
		e.post(w, done)
	}
	s := w.Value.sentry
	if s == nil || s.done != done {
		return false
	}
	w.Value.guarded.Store(true)
	return !s.fired.Load()
}

// shared tells whether many that wait share one Done.
type shared struct {
	mu   sync.Mutex
	done <-chan struct{} // of the latest waiter that had one
	same int             // how many came with it in a row
}

// worthASentry is after how many waiters in a row their Done gets a sentry.
const worthASentry = 16

// by notes that somebody waits for done, and reports whether that is worth a sentry.
func (s *shared) by(done <-chan struct{}) bool {
	if !s.mu.TryLock() {
		return false // not worth waiting for
	}
	defer s.mu.Unlock()
	switch {
	case done != s.done:
		s.done, s.same = done, 1
		return false
	case s.same < worthASentry:
		s.same++
		return false
	}
	s.done, s.same = nil, 0
	return true
}

// post starts a sentry for done in the room of w, if that is not left and has none.
func (e *engine) post(w *waiter, done <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := w.Value.room
	if r.sentry == nil && e.room == r {
		r.sentry = &sentry{done: done, quit: make(chan struct{})}
		go e.stand(r.sentry, r)
	}
	w.Value.sentry = r.sentry
}

// stand waits until the sentry's done is closed, and cancels the waits of those that it
// guards; or until the room is left.
func (e *engine) stand(s *sentry, r *room) {
	select {
	case <-s.done:
	case <-s.quit:
		return
	}
	s.fired.Store(true)
	var all []*waiter
	var canceled *waiter
	now := e.lock()
	r.sentry = nil
	for w := range e.m.Waiting() {
		if w.Value.sentry == s && w.Value.guarded.Load() {
			all = append(all, w) // not cancelled at once: that may serve the next
		}
	}
	for _, w := range all {
		if e.m.Cancel(now, w) {
			w.Value.canceled = true
			w.SetNext(canceled)
			canceled = w
		}
	}
	e.unlock(now)
	wake(canceled)
}
