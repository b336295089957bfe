package wait

import (
	"sync"
	"sync/atomic"
)

// List is a queue of waiting calls, first come first served. Its user's mutex guards it; every method but
// [Waiter.Wait] and [Woken.Wake] is called with the mutex held. A call that cannot go on is pushed, and
// waits without the mutex. Another call decides its outcome under the mutex, and wakes it after that. The
// zero List is empty.
//
//	done := ctx.Done() // before the mutex, because ctx may be user code
//	mu.Lock()
//	w := list.Push(done, value)
//	mu.Unlock()
//	value, outcome := w.Wait(&mu) // and w is not used any more
//	if outcome == wait.Cancelled {
//		return ctx.Err()
//	}
//
//	mu.Lock()
//	w := list.Decide(wait.Granted) // nil: nobody waits
//	mu.Unlock()
//	w.Wake()
//
// A List belongs to the testing/synctest bubble in which a call first waits.
type List[T any] struct {
	first, last *Waiter[T]

	// The waiter whose call returned last, for the next Push. Nothing is gained by more than one: a call
	// that was woken mostly waits again before the next is woken. Without it a wait makes two objects, and
	// an item takes a quarter longer through a channel of one place (BenchmarkBounded of channel).
	spare atomic.Pointer[Waiter[T]]
}

// Waiter is a waiting call. Its outcome is decided once, under the mutex, while it is in a list.
type Waiter[T any] struct {
	Value T // what the call waits with, or is given

	ready      chan struct{}   // of capacity 1: woken, or about to be
	done       <-chan struct{} // its context's Done
	list       *List[T]
	prev, next *Waiter[T] // in the list while the outcome is undecided, then in a Woken
	outcome    Outcome
}

// Outcome is how the wait of a [Waiter] ended.
type Outcome uint8

// The outcomes that a Waiter can have.
const (
	undecided Outcome = iota
	Granted           // it got what it waited for
	Ended             // its wait is over without that, because of a Close
	Cancelled         // its context ended first
)

// Empty reports whether no call is in the list.
func (l *List[T]) Empty() bool { return l.first == nil }

// Push appends a waiter that is cancelled when done is closed; done may be nil.
func (l *List[T]) Push(done <-chan struct{}, value T) *Waiter[T] {
	w := l.spare.Swap(nil)
	if w == nil {
		w = &Waiter[T]{list: l, ready: make(chan struct{}, 1)}
	}
	w.Value, w.done, w.prev, w.outcome = value, done, l.last, undecided
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	return w
}

func (l *List[T]) remove(w *Waiter[T], o Outcome) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.outcome = nil, nil, o
}

// Decide removes the first waiter whose context is not done, sets its outcome to o and returns it; nil if
// there is none. The caller has to wake it. Waiters before it whose contexts are done are cancelled, even
// if they have not noticed yet: their contexts ended first.
func (l *List[T]) Decide(o Outcome) *Waiter[T] {
	for w := l.first; w != nil; w = l.first {
		if w.Decide(o) {
			return w
		}
	}
	return nil
}

// Decide removes this waiter from its list and sets its outcome to o, or to Cancelled if its context is
// done. It reports whether it has set it to o; then the caller has to wake the waiter.
func (w *Waiter[T]) Decide(o Outcome) bool {
	if w.outcome != undecided {
		return false
	}
	select {
	case <-w.done:
		o = Cancelled
	default:
	}
	w.list.remove(w, o)
	return o != Cancelled
}

// DecideAll decides all waiters, and adds them to woken.
func (l *List[T]) DecideAll(o Outcome, woken *Woken[T]) {
	for w := l.Decide(o); w != nil; w = l.Decide(o) {
		woken.Add(w)
	}
}

// Wake resumes a waiter whose outcome is decided. It may be called with or without the mutex; without it,
// the waiter does not block on the mutex at once. A nil waiter is ignored.
func (w *Waiter[T]) Wake() {
	if w != nil {
		w.ready <- struct{}{} // never blocks: an outcome is decided once
	}
}

// Wait waits until the outcome is decided or the context is done, and returns the waiter's value and the
// outcome. If both have happened, the outcome that was decided under the mutex counts, whichever case select
// picks. mu is the list's mutex, which the caller does not hold. Wait is called once, and ends the use of w.
func (w *Waiter[T]) Wait(mu sync.Locker) (T, Outcome) {
	if w.done == nil {
		<-w.ready
		return w.free()
	}
	select {
	case <-w.ready:
		return w.free()
	case <-w.done:
	}
	mu.Lock()
	defer mu.Unlock()
	if w.outcome == undecided {
		w.list.remove(w, Cancelled)
	}
	return w.Value, w.outcome // w is not for another call: its Wake may still come
}

// free keeps w for another call, and returns what it had.
func (w *Waiter[T]) free() (value T, o Outcome) {
	var none T
	value, o = w.Value, w.outcome
	w.Value, w.done = none, nil
	w.list.spare.Store(w)
	return value, o
}

// Woken are waiters whose outcomes are decided, to be woken when the mutex has been released. The zero
// Woken is empty. It belongs to one call.
type Woken[T any] struct{ first *Waiter[T] }

// Add adds a waiter that Decide returned.
func (k *Woken[T]) Add(w *Waiter[T]) { w.next, k.first = k.first, w }

// Wake wakes all of them, and empties k.
func (k *Woken[T]) Wake() {
	w := k.first
	k.first = nil
	for w != nil {
		next := w.next
		w.next = nil // before Wake, after which w belongs to the call that waited
		w.Wake()
		w = next
	}
}
