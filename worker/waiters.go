package worker

import "context"

// waiters is a queue of waiting calls, oldest first. Pool.mu guards it and its waiters.
type waiters struct{ first, last *waiter }

// waiter is a call that waits until it is woken, which is decided under Pool.mu, once.
type waiter struct {
	prev, next *waiter
	ready      chan struct{} // closed when woken
	woken      bool
	err        error // what the call returns once it is woken

	ctx   context.Context // of a Submit
	entry entry           // its task, which whoever wakes it queues
	wait  bool            // a Wait, which returns the tasks' errors; else a Submit or a Close
}

func (ws *waiters) add(w *waiter) *waiter {
	w.ready = make(chan struct{})
	w.prev = ws.last
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

// wakeFirst wakes the oldest waiter, whose call returns err.
func (ws *waiters) wakeFirst(err error) {
	w := ws.first
	ws.remove(w)
	w.woken, w.err = true, err
	close(w.ready)
}

// await waits until w is woken, and returns its error. If ctx is done before, it removes w
// and reports false. Only the pool's mutex decides which came first.
func (p *Pool) await(ctx context.Context, ws *waiters, w *waiter) (woken bool, err error) {
	select {
	case <-w.ready:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.woken {
		ws.remove(w)
		return false, ctx.Err()
	}
	return true, w.err
}
