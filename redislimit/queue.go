package redislimit

import (
	"container/list"
	"time"

	"github.com/sluice-go/sluice/core"
)

// queue holds the waiters of this process. Only its head has a timer; when that asks the
// store, the next ones are asked for in the same call. The engine's mutex guards it.
type queue struct {
	waiters     list.List // of *request, the oldest first
	permits     int       // the sum of theirs
	zeroPermits list.List // of *request for zero permits, which wait until a permit is left over

	asked time.Time   // when the store was last asked
	timer *time.Timer // nil: nobody waits
	alarm time.Time   // when it rings
}

const (
	askEvery  = time.Second // how often a waiter asks at least
	mostAsked = 64          // waiters in a call
)

func (q *queue) empty() bool { return q.waiters.Len()+q.zeroPermits.Len() == 0 }

func (q *queue) push(r *request) {
	r.stage = queued
	if r.done == nil {
		r.done = make(chan struct{})
	}
	if r.permits == 0 {
		r.place = q.zeroPermits.PushBack(r)
		return
	}
	r.place = q.waiters.PushBack(r)
	q.permits += int(r.permits)
}

func (q *queue) remove(r *request) {
	if r.permits == 0 {
		q.zeroPermits.Remove(r.place)
	} else {
		q.waiters.Remove(r.place)
		q.permits -= int(r.permits)
	}
	r.place = nil
}

// oldest returns the oldest waiter for permits, nil if there is none.
func (q *queue) oldest() *request { return waiter(q.waiters.Front()) }

// head returns the waiter that is served next, nil if there is none.
func (q *queue) head(order core.QueueOrder) *request {
	if order == core.NewestFirst {
		return waiter(q.waiters.Back())
	}
	return q.oldest()
}

// next returns the waiter that is served after r.
func (r *request) next(order core.QueueOrder) *request {
	if order == core.NewestFirst {
		return waiter(r.place.Prev())
	}
	return waiter(r.place.Next())
}

func waiter(e *list.Element) *request {
	if e == nil {
		return nil
	}
	return e.Value.(*request)
}

// enqueueLocked has r wait, or rejects it if there is no room, or no hope that it is served
// before its deadline.
func (e *engine) enqueueLocked(r *request, now time.Time) {
	q, n := &e.queue, int(r.permits)
	room := e.terms.queueLimit
	if e.terms.order == core.OldestFirst {
		room -= q.permits // below 0 after an Update
	}
	if n > 0 && n > room {
		r.detail = "queue is full"
		if e.terms.queueLimit == 0 {
			r.detail = "QueueLimit is 0"
		}
		e.rejectLocked(r, now, core.ReasonQueueLimit)
		return
	}
	if e.terms.rate() && !r.deadline.IsZero() {
		if due, ok := e.dueLocked(r, now); ok && due.After(r.deadline) {
			r.err = errTooSoon
			e.rejectLocked(r, now, core.ReasonDeadlineTooSoon)
			return
		}
	}
	for n > 0 && q.permits > 0 && n > e.terms.queueLimit-q.permits {
		e.rejectLocked(q.oldest(), now, core.ReasonEvicted)
	}
	if r.ready.IsZero() {
		r.ready, _ = e.memory.ready(max(n, 1), now)
	}
	q.push(r)
	e.listenLocked()
}

// dueLocked returns when r could be served if nothing else came: exactly, or not later if
// waiters for several permits are ahead of it. False: that is not known.
func (e *engine) dueLocked(r *request, now time.Time) (time.Time, bool) {
	n := max(int(r.permits), 1)
	if r.permits > 0 && r.stage != queued && e.terms.order == core.OldestFirst {
		n = saturated(n, e.queue.permits)
	}
	if due, ok := e.memory.ready(n, now); ok {
		return due, true
	}
	if r.permits > 0 && r.stage != queued && e.queue.permits > 0 {
		if head := e.queue.head(e.terms.order); head.ready.After(now) {
			return head.ready, true
		}
	}
	return r.ready, r.ready.After(now)
}

// setAlarmLocked sets the timer to when the head can be served, or has not asked for a second.
func (e *engine) setAlarmLocked() {
	q := &e.queue
	if q.empty() {
		if q.timer != nil {
			q.timer.Stop()
			q.timer, q.alarm = nil, time.Time{}
		}
		e.unlistenLocked()
		return
	}
	if e.askWaiters || e.calling {
		return // the end of the call sets it
	}
	now := time.Now()
	if q.asked.IsZero() || q.asked.After(now) {
		q.asked = now
	}
	at := q.asked.Add(askEvery)
	if failed := e.guard.failed(); !failed.IsZero() {
		at = failed
	} else {
		for _, r := range []*request{q.head(e.terms.order), waiter(q.zeroPermits.Front())} {
			if r != nil && !r.ready.IsZero() && r.ready.Before(at) {
				at = r.ready
			}
		}
	}
	if at.Equal(q.alarm) {
		return
	}
	q.alarm = at
	if q.timer == nil {
		q.timer = time.AfterFunc(at.Sub(now), e.askForWaiters)
	} else {
		q.timer.Reset(at.Sub(now))
	}
}

// askForWaiters is what the timer does, and what happens when a release is published.
func (e *engine) askForWaiters() {
	e.mu.Lock()
	defer e.unlock()
	e.queue.alarm = time.Time{}
	e.askWaiters = !e.queue.empty()
}
