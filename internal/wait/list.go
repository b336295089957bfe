package wait

import (
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/internal/list"
)

// List is a queue of waiting calls, first come first served. Its user's mutex guards it; every method but
// [Waiter.Wait] and [Woken.Wake] is called with the mutex held. A call that has to wait is pushed, and waits
// without the mutex. Another call decides its outcome under the mutex, and wakes it then or later. The
// zero List is empty.
//
//	done := ctx.Done() // before the mutex, because ctx may be user code
//	mu.Lock()
//	w := list.Push(done, value)
//	mu.Unlock()
//	value, outcome := w.Wait(&mu) // and w is not used any more
//	if outcome == wait.Canceled {
//		return ctx.Err()
//	}
//
//	mu.Lock()
//	w := list.Decide(wait.Granted) // nil: no call waits
//	mu.Unlock()
//	w.Wake()
//
// With [List.Await] and [List.Signal] a List is a condition variable whose wait can be canceled.
//
// A List belongs to the testing/synctest bubble in which a call first waits.
type List[T any] struct {
	waiters list.List[*Waiter[T]]

	// The waiter whose call returned last, for the next Push. More than one would not help: a call
	// that was woken mostly waits again before the next is woken. Without it a wait makes two objects, and
	// an item takes a quarter longer through a channel of capacity 1 (BenchmarkBounded of channel).
	spare atomic.Pointer[Waiter[T]]
}

// Waiter is a waiting call. Its outcome is decided once, under the mutex, while it is in a list.
type Waiter[T any] struct {
	Value T // what the call waits with, or is given

	ready   chan struct{}         // channel of capacity 1; full if the waiter is woken, or about to be
	done    <-chan struct{}       // its context's Done
	list    *List[T]              // the one for which it was made
	node    list.Node[*Waiter[T]] // node in the list while the outcome is undecided
	woken   *Waiter[T]            // the next in a Woken
	outcome Outcome
	isWoken bool // Park has received from ready
}

// Outcome is how the wait of a [Waiter] ended.
type Outcome uint8

// The outcomes that a Waiter can have.
const (
	undecided Outcome = iota
	Granted           // it got what it waited for
	Ended             // its wait is over without that, because of a Close
	Canceled          // its context ended first
)

// Empty reports whether no call is in the list.
func (l *List[T]) Empty() bool { return l.waiters.Len() == 0 }

// Push appends a waiter that is canceled when done is closed; done may be nil.
func (l *List[T]) Push(done <-chan struct{}, value T) *Waiter[T] {
	w := l.New(done)
	w.Value = value
	l.Append(w)
	return w
}

// Append is Push of a waiter that New has returned. It copies no value.
func (l *List[T]) Append(w *Waiter[T]) { l.waiters.Push(&w.node) }

// New returns a waiter with the value that the caller of Free left, for Append or for a caller that keeps an order of its
// own and decides waiters with [Waiter.Decide].
func (l *List[T]) New(done <-chan struct{}) *Waiter[T] {
	w := l.spare.Swap(nil)
	if w == nil {
		w = &Waiter[T]{list: l, ready: make(chan struct{}, 1)}
		w.node.Value = w
	}
	w.done, w.outcome = done, undecided
	return w
}

// Await pushes a waiter, unlocks mu, waits for the outcome, and locks mu again.
func (l *List[T]) Await(mu sync.Locker, done <-chan struct{}) Outcome {
	var none T
	w := l.Push(done, none)
	mu.Unlock()
	_, o := w.Wait(mu)
	mu.Lock()
	return o
}

// Signal wakes the call that has waited longest, if there is one.
func (l *List[T]) Signal() { l.Decide(Granted).Wake() }

// Decide removes the first waiter whose context is not done, sets its outcome to o and returns it; nil if
// there is none. The caller has to wake it. Waiters before it whose contexts are done are canceled, even
// if they have not noticed yet: their contexts ended first.
func (l *List[T]) Decide(o Outcome) *Waiter[T] {
	for n := l.waiters.First(); n != nil; n = l.waiters.First() {
		if n.Value.Decide(o) {
			return n.Value
		}
	}
	return nil
}

// Decide removes this waiter from its list and sets its outcome to o, or to Canceled if its context is
// done. It reports whether it has set it to o; then the caller has to wake the waiter.
func (w *Waiter[T]) Decide(o Outcome) bool {
	if w.outcome != undecided {
		return false
	}
	select {
	case <-w.done:
		o = Canceled
	default:
	}
	w.node.Remove()
	w.outcome = o
	return o != Canceled
}

// DecideAll decides all waiters, and adds them to woken.
func (l *List[T]) DecideAll(o Outcome, woken *Woken[T]) {
	for w := l.Decide(o); w != nil; w = l.Decide(o) {
		woken.Add(w)
	}
}

// Wake wakes a waiter whose outcome is decided. It may be called with or without the mutex; without it,
// the waiter does not block on the mutex. A nil waiter is ignored.
func (w *Waiter[T]) Wake() {
	if w != nil {
		w.ready <- struct{}{} // never blocks: an outcome is decided once
	}
}

// Wait waits until the outcome is decided or the context is done, and returns the waiter's value and the
// outcome. If both have happened, the outcome that was decided under the mutex counts, whichever case select
// picks. mu is the list's mutex, which the caller does not hold. Wait is called once, and ends the use of w.
func (w *Waiter[T]) Wait(mu sync.Locker) (T, Outcome) {
	outcome := w.Park(mu)
	value := w.Value
	var none T
	w.Value = none
	w.Free()
	return value, outcome
}

// Park is like Wait, but for a caller that reads w.Value itself, and then calls Free: it copies no value. What the caller
// leaves in w.Value stays there for the next call.
func (w *Waiter[T]) Park(mu sync.Locker) Outcome {
	if w.done == nil {
		<-w.ready
		w.isWoken = true
		return w.outcome
	}
	select {
	case <-w.ready:
		w.isWoken = true
		return w.outcome
	case <-w.done:
	}
	mu.Lock()
	defer mu.Unlock()
	if w.outcome == undecided {
		w.Decide(Canceled)
	}
	return w.outcome
}

// Free ends the use of w after Park.
func (w *Waiter[T]) Free() {
	if !w.isWoken {
		return // w is not for another call: its Wake may still come
	}
	w.done, w.isWoken = nil, false
	w.list.spare.Store(w)
}

// Woken are waiters whose outcomes are decided, to be woken when the mutex has been released. The zero
// Woken is empty. It belongs to one call.
type Woken[T any] struct{ first *Waiter[T] }

// Add adds a waiter that Decide returned.
func (k *Woken[T]) Add(w *Waiter[T]) { w.woken, k.first = k.first, w }

// Empty reports whether there are none.
func (k *Woken[T]) Empty() bool { return k.first == nil }

// Wake wakes all of them, and empties k.
func (k *Woken[T]) Wake() {
	w := k.first
	k.first = nil
	for w != nil {
		next := w.woken
		w.woken = nil // before Wake, after which w belongs to the call that waited
		w.Wake()
		w = next
	}
}
