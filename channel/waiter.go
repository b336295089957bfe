package channel

// waiter is a goroutine that waits for an item, for room, or to see either. It is in a
// line until its outcome is decided, under the channel's mutex; then ready has an element,
// unless it is cancelled.
type waiter[T any] struct {
	ready      chan struct{}   // of capacity 1
	done       <-chan struct{} // its ctx's
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

// decide takes out and returns the first that still wants to know, with outcome o; nil:
// none does. One whose ctx was done before is cancelled, though it has not noticed yet:
// the outcome would come after the fact.
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

// decideAll takes out everybody, and adds them to those to wake.
func (q *line[T]) decideAll(o outcome, woken *waiter[T]) *waiter[T] {
	for w := q.decide(o); w != nil; w = q.decide(o) {
		w.next, woken = woken, w
	}
	return woken
}

// wake resumes those in the list, which nobody else has. It is called after the mutex is
// let go, so that those woken do not run into it.
func wake[T any](w *waiter[T]) {
	for w != nil {
		next := w.next // from the next line on, w is its owner's
		w.next = nil
		w.ready <- struct{}{} // has room: an outcome is decided once
		w = next
	}
}

// join returns both lists of waiters as one; the first is short.
func join[T any](first, second *waiter[T]) *waiter[T] {
	for w := first; w != nil; w = w.next {
		if w.next == nil {
			w.next = second
			return first
		}
	}
	return second
}
