// Package batch has calls that are made at the same time travel together.
package batch

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// Call is what travels.
type Call[T any] interface {
	// Size is about how many bytes it takes.
	Size() int
	// Together makes all of the calls, of which it is the first, until ctx is done.
	Together(ctx context.Context, all []T)
}

// Queue lets two be under way, single calls and batches. Whoever finds that many waits for the
// next batch. The zero Queue is ready for use; it is safe for concurrent use.
type Queue[T Call[T]] struct {
	mu       sync.Mutex
	underWay int
	next     []*Seat[T]
	moved    time.Time // when the latest that was under way began or ended
}

// Seat is a call's place in a batch. The zero Seat is ready for use. After a Join that ended without
// an error it may be used again, which saves memory.
type Seat[T any] struct {
	call     T
	size     int
	deadline time.Time     // zero: none
	done     chan struct{} // has one when the call was made
	timer    *time.Timer
}

const (
	mostUnderWay = 2

	// most bounds a batch in bytes, but for a call that is larger alone. More of it would
	// cost a call less by little, and what a server reads at once can be sent before it answers, also
	// where a connection is a pipe in memory that keeps nothing.
	most = 4000

	// stuckAfter is how long nothing may move until those under way are taken to be stuck, on
	// a connection that nobody answers. Then nobody waits for them any more.
	stuckAfter = 5 * time.Millisecond
)

// Enter reports whether the caller may make its call alone, at once; it calls Leave after
// that. Else it is to Join the next batch.
func (q *Queue[T]) Enter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.underWay >= mostUnderWay {
		return false
	}
	q.underWay++
	q.moved = time.Now()
	return true
}

// Leave is for when the call of who entered has ended: the next batch goes.
func (q *Queue[T]) Leave() {
	if batch := q.take(); len(batch) > 0 {
		go q.run(batch)
	}
}

// Join returns when the call was made, in a batch, or at the deadline, or once gone is closed: then it
// returns [context.DeadlineExceeded] or [context.Canceled]. It reports false without an error if the call was
// not made and will not be: those under way are stuck, and the caller may make it alone.
func (q *Queue[T]) Join(deadline time.Time, gone <-chan struct{}, call T, w *Seat[T]) (made bool, err error) {
	w.take(call, call.Size(), deadline)
	defer w.timer.Stop()
	q.mu.Lock()
	q.next = append(q.next, w)
	free := q.underWay < mostUnderWay // one has just ended
	if free {
		q.underWay++
	}
	q.mu.Unlock()
	if free {
		q.Leave()
	}
	for {
		select {
		case <-w.done:
			return true, nil
		case <-gone:
			return !q.withdraw(w), context.Canceled
		case <-w.timer.C:
			patience := w.patience()
			if patience <= 0 {
				return !q.withdraw(w), context.DeadlineExceeded
			}
			if q.stuck() && q.withdraw(w) {
				return false, nil
			}
			w.timer.Reset(patience)
		}
	}
}

// take readies the seat.
func (w *Seat[T]) take(call T, size int, deadline time.Time) {
	w.call, w.size, w.deadline = call, size, deadline
	if w.timer == nil {
		w.done, w.timer = make(chan struct{}, 1), time.NewTimer(w.patience())
	} else {
		w.timer.Reset(w.patience())
	}
}

// patience returns how long to wait until there is something else to do.
func (w *Seat[T]) patience() time.Duration {
	if w.deadline.IsZero() {
		return stuckAfter
	}
	return min(stuckAfter, time.Until(w.deadline))
}

func (q *Queue[T]) stuck() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Since(q.moved) >= stuckAfter
}

// withdraw takes w out of the next batch, and reports whether it was there: it was not made then.
func (q *Queue[T]) withdraw(w *Seat[T]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.next {
		if other == w {
			q.next = append(q.next[:i], q.next[i+1:]...)
			return true
		}
	}
	return false
}

// take returns the next batch, which is under way then instead of what has ended; none if nobody
// waits.
func (q *Queue[T]) take() []*Seat[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.moved = time.Now()
	if len(q.next) == 0 {
		q.underWay--
		return nil
	}
	n, bytes := 1, q.next[0].size
	for n < len(q.next) && bytes+q.next[n].size <= most {
		bytes += q.next[n].size
		n++
	}
	batch := q.next[:n:n]
	q.next = q.next[n:]
	return batch
}

// run makes batches until nobody waits.
func (q *Queue[T]) run(batch []*Seat[T]) {
	for len(batch) > 0 {
		makeAll(batch)
		for _, w := range batch {
			w.done <- struct{}{}
		}
		runtime.Gosched() // those who were answered may ask again, and travel in the next
		batch = q.take()
	}
}

// makeAll makes the calls of a batch, until the last of its deadlines.
func makeAll[T Call[T]](batch []*Seat[T]) {
	ctx := context.Background() //nolint:forbidigo // those who wait have contexts of their own
	latest, bounded := time.Time{}, true
	all := make([]T, len(batch))
	for i, w := range batch {
		all[i] = w.call
		bounded = bounded && !w.deadline.IsZero()
		if w.deadline.After(latest) {
			latest = w.deadline
		}
	}
	if bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, latest)
		defer cancel()
	}
	all[0].Together(ctx, all)
}
