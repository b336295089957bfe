package redislimit

import (
	"container/list"
	"context"
	"time"

	"github.com/sluice-go/sluice/core"
)

// queue holds the waiters of this process. Only its head has a timer; when that asks the
// store, the next ones are asked for in the same call. While somebody waits for a concurrency limiter, a listener hears of
// releases by other processes. The engine's mutex guards it.
type queue struct {
	e *engine

	waiters     list.List // of *take, the oldest first
	permits     int       // the sum of theirs
	zeroPermits list.List // of *take for zero permits, which wait until a permit is left over

	asks  bool        // the next call asks for the waiters, too
	asked time.Time   // when the store was last asked for them, or the first one came; zero: there are none
	timer *time.Timer // nil: nobody waits
	alarm time.Time   // when it rings

	listener listener
}

const (
	askEvery  = time.Second // how often a waiter asks at least
	mostAsked = 64          // waiters in a call
)

func (q *queue) empty() bool { return q.waiters.Len()+q.zeroPermits.Len() == 0 }

func (q *queue) pushLocked(t *take) {
	t.stage = queued
	if t.done == nil {
		t.done = make(chan struct{})
	}
	if t.permits == 0 {
		t.place = q.zeroPermits.PushBack(t)
	} else {
		t.place = q.waiters.PushBack(t)
		q.permits += t.permits
	}
	q.listenLocked()
}

func (q *queue) removeLocked(t *take) {
	if t.permits == 0 {
		q.zeroPermits.Remove(t.place)
	} else {
		q.waiters.Remove(t.place)
		q.permits -= t.permits
	}
	t.place = nil
}

// oldest returns the oldest waiter for permits, nil if there is none.
func (q *queue) oldest() *take { return waiter(q.waiters.Front()) }

// head returns the waiter that is served next, nil if there is none.
func (q *queue) head(order core.QueueOrder) *take {
	if order == core.NewestFirst {
		return waiter(q.waiters.Back())
	}
	return q.oldest()
}

// next returns the waiter that is served after t.
func (t *take) next(order core.QueueOrder) *take {
	if order == core.NewestFirst {
		return waiter(t.place.Prev())
	}
	return waiter(t.place.Next())
}

func waiter(e *list.Element) *take {
	if e == nil {
		return nil
	}
	return e.Value.(*take)
}

// refuseAllLocked ends all waits, or those for more permits than the limit is.
func (q *queue) refuseAllLocked(more int, err func(*take) error) {
	for _, l := range []*list.List{&q.waiters, &q.zeroPermits} {
		for place := l.Front(); place != nil; {
			t := waiter(place)
			place = place.Next()
			if t.permits > more {
				q.e.refuseLocked(t, err(t))
			}
		}
	}
}

// admitLocked has t wait, or rejects it if there is no room, or no hope that it is served
// before its deadline.
func (q *queue) admitLocked(t *take, now time.Time) {
	l, n := q.e.limits, t.permits
	room := l.queueLimit
	if l.order == core.OldestFirst {
		room -= q.permits // below 0 after an Update
	}
	if n > 0 && n > room {
		t.detail = "queue is full"
		if l.queueLimit == 0 {
			t.detail = "QueueLimit is 0"
		}
		q.e.rejectLocked(t, now, core.ReasonQueueLimit)
		return
	}
	if l.rate() && !t.deadline.IsZero() {
		if due, ok := q.dueLocked(t, now); ok && due.After(t.deadline) {
			t.err = context.DeadlineExceeded
			q.e.rejectLocked(t, now, core.ReasonDeadlineTooSoon)
			return
		}
	}
	for n > 0 && q.permits > 0 && n > l.queueLimit-q.permits {
		q.e.rejectLocked(q.oldest(), now, core.ReasonEvicted)
	}
	if t.ready.IsZero() {
		t.ready, _ = q.e.memory.ready(max(n, 1), now)
	}
	q.pushLocked(t)
}

// dueLocked returns when t could be served if nothing else came: exactly, or not later if
// waiters for several permits are ahead of it. False: that is not known.
func (q *queue) dueLocked(t *take, now time.Time) (time.Time, bool) {
	order, n := q.e.limits.order, max(t.permits, 1)
	newcomer := t.permits > 0 && t.stage != queued
	if newcomer && order == core.OldestFirst {
		n = saturated(n, q.permits)
	}
	if due, ok := q.e.memory.ready(n, now); ok {
		return due, true
	}
	if newcomer && q.permits > 0 {
		if head := q.head(order); head.ready.After(now) {
			return head.ready, true
		}
	}
	return t.ready, t.ready.After(now)
}

// setAlarmLocked sets the timer to when the head can be served, or has not asked for a second.
func (q *queue) setAlarmLocked() {
	if q.empty() {
		if q.timer != nil {
			q.timer.Stop()
			q.timer, q.alarm = nil, time.Time{}
		}
		q.asked = time.Time{}
		q.listener.stopLocked()
		return
	}
	if q.asks || q.e.pipeline.running {
		return // the end of the call sets it
	}
	now := time.Now()
	if q.asked.IsZero() {
		q.asked = now
	}
	at := q.asked.Add(askEvery)
	if retry := q.e.breaker.retryTime(now); !retry.IsZero() {
		at = retry
	} else {
		for _, t := range []*take{q.head(q.e.limits.order), waiter(q.zeroPermits.Front())} {
			if t != nil && !t.ready.IsZero() && t.ready.Before(at) {
				at = t.ready
			}
		}
	}
	if at.Equal(q.alarm) {
		return
	}
	q.alarm = at
	if q.timer == nil {
		q.timer = time.AfterFunc(at.Sub(now), q.ring)
	} else {
		q.timer.Reset(at.Sub(now))
	}
}

// ring is what the timer does, and what happens when a release is published: the store is asked for the waiters.
func (q *queue) ring() {
	q.e.mu.Lock()
	defer q.e.unlock()
	q.alarm = time.Time{}
	q.asks = !q.empty()
}
