package channel

// waiter is a waiting call. It is in a line until its outcome is decided under the channel's mutex. After
// that wake sends to ready, unless the outcome is cancelled.
//
// A waiter is used once: its channel belongs to the synctest bubble of the goroutine that made it, and
// the next call may come from another bubble.
type waiter[T any] struct {
	ready      chan struct{}   // of capacity 1
	done       <-chan struct{} // its context's Done
	prev, next *waiter[T]
	line       *line[T] // nil: the outcome is decided
	outcome    outcome

	item  T    // the item to send, or the item received
	hold  hold // what the item holds
	keeps bool // the receiver keeps the lease
}

type outcome uint8

const (
	undecided outcome = iota
	granted
	ended
	cancelled
)

// newWaiter returns a waiter that is cancelled when done is closed. The caller calls ctx.Done before it
// takes the mutex, because a context may be user code.
func newWaiter[T any](done <-chan struct{}) *waiter[T] {
	return &waiter[T]{ready: make(chan struct{}, 1), done: done}
}

// line is a queue of waiters.
type line[T any] struct{ first, last *waiter[T] }

func (q *line[T]) push(w *waiter[T]) {
	w.line, w.prev = q, q.last
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
}

func (q *line[T]) remove(w *waiter[T]) {
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.line, w.prev, w.next = nil, nil, nil
}

// decide removes the first waiter whose context is not done, sets its outcome to o and returns it; nil if
// there is none. Waiters before it whose contexts are done are cancelled, even if they have not noticed
// yet: their contexts ended first.
func (q *line[T]) decide(o outcome) *waiter[T] {
	for w := q.first; w != nil; w = q.first {
		q.remove(w)
		select {
		case <-w.done:
			w.outcome = cancelled
		default:
			w.outcome = o
			return w
		}
	}
	return nil
}

// decideAll decides all waiters, and adds them to the list to wake.
func (q *line[T]) decideAll(o outcome, woken *waiter[T]) *waiter[T] {
	for w := q.decide(o); w != nil; w = q.decide(o) {
		w.next, woken = woken, w
	}
	return woken
}

// wake resumes the waiters in the list. It is called after the mutex has been released, so that they do
// not block on it at once.
func wake[T any](w *waiter[T]) {
	for w != nil {
		next := w.next // after the send below, w belongs to its goroutine
		w.next = nil
		w.ready <- struct{}{} // never blocks: an outcome is decided once
		w = next
	}
}

// park waits until the outcome of w is decided or its context is done, and returns the outcome. If both
// have happened, the outcome that was decided under the mutex counts, whichever case select picks.
func (c *LimitedChannel[T]) park(w *waiter[T]) outcome {
	if w.done == nil {
		<-w.ready
		return w.outcome
	}
	select {
	case <-w.ready:
		return w.outcome
	case <-w.done:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.line != nil {
		w.line.remove(w)
		w.outcome = cancelled
	}
	return w.outcome
}
