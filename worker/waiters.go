package worker

// waiters is a queue of callers that wait, the oldest first. The pool's mutex guards it
// and all its waiters.
type waiters struct{ first, last *waiter }

// waiter is a caller that waits until it is woken; that is decided under the mutex, once.
type waiter struct {
	prev, next *waiter
	ready      chan struct{} // closed when woken
	woken      bool
	granted    bool // a Submit: has got what it waited for; else err says why it has not
	errors     bool // a Wait: wants the tasks' errors, which are err
	err        error
}

func (ws *waiters) add() *waiter {
	w := &waiter{prev: ws.last, ready: make(chan struct{})}
	if w.prev == nil {
		ws.first = w
	} else {
		w.prev.next = w
	}
	ws.last = w
	return w
}

func (ws *waiters) remove(w *waiter) {
	if w.prev == nil {
		ws.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		ws.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

func (ws *waiters) wake(w *waiter) {
	ws.remove(w)
	w.woken = true
	close(w.ready)
}
