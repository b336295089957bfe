package core

// sentry is of the waiters in a room that share one Done, as the workers of one job do. A
// select of the grant and Done takes four locks, of which half are that of the one Done; a
// receive of the grant takes one. So a goroutine waits for Done in the place of them all,
// for as long as the room is there. It keeps Done and not the context, which may be used
// again for another call.
type sentry struct {
	done <-chan struct{} // of the latest waiter that had one
	same int             // how many came with it in a row
	quit chan struct{}   // ends the goroutine that waits for done; nil: there is none
}

// worthASentry is after how many waiters in a row their Done gets a sentry.
const worthASentry = 16

// join notes that w waits with done. The mutex is held.
func (e *engine) join(r *room, w *waiter, done <-chan struct{}) {
	s := &r.sentry
	switch {
	case done == nil:
	case s.quit != nil:
		// If done is closed, the sentry has not held the mutex since: it will, and finds w.
		w.Value.guarded = done == s.done
	case done != s.done:
		s.done, s.same = done, 1
	case s.same < worthASentry:
		s.same++
	default:
		s.quit = make(chan struct{})
		w.Value.guarded = true
		go e.standSentry(r, done, s.quit)
	}
}

// standSentry waits until done is closed, and cancels the waits of those that share it; or
// until the room is left.
func (e *engine) standSentry(r *room, done, quit <-chan struct{}) {
	select {
	case <-done:
	case <-quit:
		return
	}
	now := e.lock()
	var canceled *waiter
	if e.room == r {
		r.sentry = sentry{}
		var guarded []*waiter // not cancelled at once: that may serve the next
		for w := range e.m.Waiting() {
			if w.Value.guarded {
				guarded = append(guarded, w)
			}
		}
		for _, w := range guarded {
			if e.m.Cancel(now, w) {
				w.Value.canceled = true
				w.SetNext(canceled)
				canceled = w
			}
		}
	}
	e.unlock(now)
	wake(canceled)
}
