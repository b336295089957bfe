package core

import (
	"sync/atomic"
	"time"
)

// queue is what a limiter has while somebody waits, and only then: nothing of it
// outlives the last waiter, so an idle limiter has no timer and no channel. The engine's
// mutex guards it and all its waiters.
type queue struct {
	oldest, newest *waiter // those who wait for permits
	permits        int     // the sum of theirs
	probes         *waiter // those who wait for any permit to be there

	timer *time.Timer // nil until the first waiter whose instant is known
	alarm int64       // the instant that the timer is set to; never: it is not

	// Waiters to be used again. Those who woke put theirs on top of left, without the
	// mutex; its holder takes them all at once, so no element meets the stack twice.
	spare *waiter
	left  atomic.Pointer[waiter]

	// plan is the account as it will be at planned, when all that wait now have been
	// served oldest first. nil: not known, made when it is asked for.
	plan    account
	planned int64
}

// waiter is an Acquire that waits. It is in a queue until its outcome is decided, under
// the mutex; then its lease is set, and soon ready has an element.
type waiter struct {
	q          *queue
	prev, next *waiter
	n          int
	due        int64 // when plan had it served
	queued     bool
	lease      Lease
	ready      chan struct{}
}

func newQueue() *queue { return &queue{alarm: never} }

// empty reports whether nobody waits.
func (q *queue) empty() bool { return q.oldest == nil && q.probes == nil }

// waiter returns a new waiter for n permits.
func (q *queue) waiter(n int) *waiter {
	if q.spare == nil {
		q.spare = q.left.Swap(nil)
	}
	w := q.spare
	if w == nil {
		w = &waiter{q: q, ready: make(chan struct{}, 1)}
	} else {
		q.spare, w.next = w.next, nil
	}
	w.n, w.queued = n, true
	return w
}

// push appends w as the newest.
func (q *queue) push(w *waiter) {
	if w.n == 0 {
		if w.next = q.probes; w.next != nil {
			w.next.prev = w
		}
		q.probes = w
		return
	}
	if w.prev = q.newest; w.prev == nil {
		q.oldest = w
	} else {
		w.prev.next = w
	}
	q.newest = w
	q.permits += w.n
}

// remove takes w out, wherever it stands.
func (q *queue) remove(w *waiter) {
	switch {
	case w.prev != nil:
		w.prev.next = w.next
	case w.n == 0:
		q.probes = w.next
	default:
		q.oldest = w.next
	}
	switch {
	case w.next != nil:
		w.next.prev = w.prev
	case w.n > 0:
		q.newest = w.prev
	}
	w.prev, w.next = nil, nil
	w.queued = false
	q.permits -= w.n
}

// head returns who is served next, nil if nobody waits for permits.
func (q *queue) head(order QueueOrder) *waiter {
	if order == NewestFirst {
		return q.newest
	}
	return q.oldest
}

// after returns who is served after w.
func (w *waiter) after(order QueueOrder) *waiter {
	if order == NewestFirst {
		return w.prev
	}
	return w.next
}

// wake tells the waiters of a list, linked from the last to the first, that their outcome
// is decided. No lock is held: who wakes may want it.
func (w *waiter) wake() {
	var first *waiter
	for w != nil {
		next := w.next
		w.next, first, w = first, w, next
	}
	for w = first; w != nil; {
		next := w.next // when w is told, it is its goroutine's
		w.ready <- struct{}{}
		w = next
	}
}

// recycle keeps w, which nobody knows any more, for the next to wait.
func (w *waiter) recycle() {
	w.lease = Lease{}
	for {
		top := w.q.left.Load()
		w.next = top
		if w.q.left.CompareAndSwap(top, w) {
			return
		}
	}
}
