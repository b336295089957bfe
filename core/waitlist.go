package core

import (
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
	"github.com/sluice-go/sluice/internal/wait"
)

// waitlist is where a limiter's callers wait. It exists only while one does: an idle limiter has no
// timer and no channel, and may be used in another synctest bubble. The engine's mutex guards it.
type waitlist struct {
	timer *time.Timer // nil until the first waiter whose time is known
	alarm int64       // the time that the timer is set to, or Never

	// Waiters for reuse. A caller that woke pushes its waiter onto returned, without the mutex. The
	// mutex's holder takes the whole stack, so the stack has no ABA problem.
	spare    *waiter
	returned atomic.Pointer[waiter]

	// Beside the rest, because a wait in an idle limiter may allocate no more than 4 objects (TestAllocationsOfAWait).
	first waiter
	queue machine.Queue[parked]
}

func newWaitlist(fairShare bool) *waitlist {
	var r *waitlist
	if fairShare {
		s := new(struct {
			waitlist
			machine.Shares[parked]
		})
		r = &s.waitlist
		s.Lend(&r.queue, &r.first)
	} else {
		r = new(waitlist)
	}
	r.alarm = machine.Never
	r.first.Value = newParked(r)
	r.spare = &r.first
	return r
}

// waiter is an Acquire that waits. Its wait ends under the mutex, when the machine takes it out of the queue:
//
//   - Grant: permits have come back, by a release, a refund, with time, or by an Update or a Reset.
//   - Close: the wait of every waiter ends.
//   - Update: the new limit is lower than the number of permits that it waits for.
//   - Eviction: a newer request takes its room in the queue.
//   - Cancellation: its own goroutine has found ctx done, and calls cancel.
//
// Unless it is canceled, the goroutine that holds the mutex makes its lease (concludeLocked) and, after it has
// released the mutex, sends to Ready (wake). Then await returns the lease.
type waiter = machine.Waiter[parked]

type parked struct {
	wait.Signal // its Ready has true once the wait has ended and lease is set

	waitlist *waitlist
	lease    Lease
	received bool // await has received true
}

func newParked(r *waitlist) parked {
	return parked{waitlist: r, Signal: wait.Signal{Ready: make(chan bool, 2)}}
}

// receive waits for the lease, whatever the source does.
func (p *parked) receive() {
	for !<-p.Ready {
	}
}

// waiter returns a new waiter for n permits.
func (r *waitlist) waiter(n int) *waiter {
	if r.spare == nil {
		r.spare = r.returned.Swap(nil)
	}
	w := r.spare
	if w == nil {
		w = &waiter{Value: newParked(r)}
	} else {
		r.spare = w.Next()
	}
	w.N = n
	return w
}

// recycle keeps w, which is no longer referenced, for another Acquire. If its source has ended, something may still
// come to its channel.
func recycle(w *waiter) {
	if !w.Value.Leave() {
		return
	}
	r := w.Value.waitlist
	w.Value.lease, w.Value.received = Lease{}, false
	for {
		top := r.returned.Load()
		w.SetNext(top)
		if r.returned.CompareAndSwap(top, w) {
			return
		}
	}
}

// leave stops the timer.
func (r *waitlist) leave() {
	if r.timer != nil {
		r.timer.Stop()
	}
}

// wake notifies the waiters of a list that their wait has ended. No lock is held: the woken
// goroutines may take it.
func wake(w *waiter) {
	for w != nil {
		next := w.Next() // once notified, w belongs to its goroutine
		if w.Reserved {
			w.SetNext(nil) // no goroutine waits for a reservation
		} else {
			w.Value.Ready <- true
		}
		w = next
	}
}
