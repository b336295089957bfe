package channel

// waiter is a goroutine that waits for an item, for room, or to see either. It is in a line until its
// outcome is decided, under the channel's mutex; then ready has an element, unless it is cancelled.
//
// A waiter is used once: its channel belongs to the synctest bubble of the goroutine that made it, and
// the next goroutine may be in another.
type waiter[T any] struct {
	ready      chan struct{}   // of capacity 1
	done       <-chan struct{} // of its context
	prev, next *waiter[T]
	line       *line[T] // nil: decided
	outcome    outcome

	item  T    // a sender's, or what a receiver got
	hold  hold // the item's
	keeps bool // a receiver that keeps the lease
}

type outcome uint8

const (
	undecided outcome = iota
	granted
	ended
	cancelled
)

// newWaiter returns a waiter whose context has that channel. A context may be anybody's code: its Done is
// called before the mutex is taken.
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

// decide takes out and returns the first waiter that has not been cancelled, with outcome o; nil if there
// is none. A waiter whose context was done before is cancelled, even if it has not noticed yet: the
// outcome would come after the fact.
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

// decideAll takes out all waiters, and adds them to the list to wake.
func (q *line[T]) decideAll(o outcome, woken *waiter[T]) *waiter[T] {
	for w := q.decide(o); w != nil; w = q.decide(o) {
		w.next, woken = woken, w
	}
	return woken
}

// wake resumes the waiters in the list. It is called after the mutex has been released, so that
// they do not run into it.
func wake[T any](w *waiter[T]) {
	for w != nil {
		next := w.next // from the next line on, w is its owner's
		w.next = nil
		w.ready <- struct{}{} // has room: an outcome is decided once
		w = next
	}
}

// park waits until the outcome of w is decided or its context is done, whichever comes first,
// whatever select says.
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
