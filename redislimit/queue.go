package redislimit

import (
	"container/list"
	"context"
	"time"

	"github.com/sluice-go/sluice/core"
)

// queue holds the waiters of this process. Only its head has a timer. When the timer fires, one call asks for the head and for
// the waiters behind it. While a caller waits for a concurrency limiter, a listener subscribes to releases by other processes.
// The engine's mutex guards it.
type queue struct {
	e *Limiter

	waiters     list.List // of *request, the oldest first
	permits     int       // the sum of their permits
	zeroPermits list.List // of *request for zero permits, which wait until a permit is left over

	asks    bool        // the next call asks for the waiters, too
	asked   time.Time   // when the store was last asked for waiters, or the first one came; zero if no caller waits
	timer   *time.Timer // nil while no caller waits
	timerAt time.Time   // when the timer fires

	listener listener
}

const (
	askEvery   = time.Second // the longest time between two calls for the waiters
	maxWaiters = 64          // waiters in a call
)

func (q *queue) empty() bool { return q.waiters.Len()+q.zeroPermits.Len() == 0 }

func (q *queue) pushLocked(req *request) {
	req.stage = queued
	if req.permits == 0 {
		req.place = q.zeroPermits.PushBack(req)
	} else {
		req.place = q.waiters.PushBack(req)
		q.permits += req.permits
	}
	q.listenLocked()
}

func (q *queue) removeLocked(req *request) {
	if req.permits == 0 {
		q.zeroPermits.Remove(req.place)
	} else {
		q.waiters.Remove(req.place)
		q.permits -= req.permits
	}
	req.place = nil
}

// oldest returns the oldest waiter for permits, or nil.
func (q *queue) oldest() *request { return waiter(q.waiters.Front()) }

// head returns the waiter that is served next, or nil.
func (q *queue) head(order core.QueueOrder) *request {
	if order == core.NewestFirst {
		return waiter(q.waiters.Back())
	}
	return q.oldest()
}

// next returns the waiter that is served after req.
func (req *request) next(order core.QueueOrder) *request {
	if order == core.NewestFirst {
		return waiter(req.place.Prev())
	}
	return waiter(req.place.Next())
}

func waiter(e *list.Element) *request {
	if e == nil {
		return nil
	}
	return e.Value.(*request)
}

// failAllLocked ends all waits for more than some permits.
func (q *queue) failAllLocked(more int, err func(*request) error) {
	for _, l := range []*list.List{&q.waiters, &q.zeroPermits} {
		for place := l.Front(); place != nil; {
			req := waiter(place)
			place = place.Next()
			if req.permits > more {
				q.e.failLocked(req, err(req))
			}
		}
	}
}

// admitLocked queues a request, or rejects it if the queue has no room for it or its deadline is too soon.
func (q *queue) admitLocked(req *request, now time.Time) {
	l, n := q.e.limits, req.permits
	room := l.queueLimit
	if l.order == core.OldestFirst {
		room -= q.permits // below 0 after an Update
	}
	if n > 0 && n > room {
		why := core.RejectedError{Reason: core.ReasonQueueLimit, Detail: "queue is full"}
		if l.queueLimit == 0 {
			why.Detail = "QueueLimit is 0"
		}
		q.e.rejectLocked(req, now, why)
		return
	}
	if l.rate() && !req.deadline.IsZero() {
		if at, ok := q.servedAtLocked(req, now); ok && at.After(req.deadline) {
			q.e.rejectLocked(req, now, core.RejectedError{Reason: core.ReasonDeadlineTooSoon, Cause: context.DeadlineExceeded})
			return
		}
	}
	for n > 0 && q.permits > 0 && n > l.queueLimit-q.permits {
		q.e.rejectLocked(q.oldest(), now, core.RejectedError{Reason: core.ReasonEvicted})
	}
	if req.retryAt.IsZero() {
		req.retryAt, _ = q.e.memory.availableAt(max(n, 1), now)
	}
	q.pushLocked(req)
}

// servedAtLocked returns when a request could be served if no other came. The time is exact, or a lower bound if waiters for
// several permits are ahead. It returns false if the time is not known.
func (q *queue) servedAtLocked(req *request, now time.Time) (time.Time, bool) {
	order, n := q.e.limits.order, max(req.permits, 1)
	newcomer := req.permits > 0 && req.stage != queued
	if newcomer && order == core.OldestFirst {
		n += q.permits
	}
	if at, ok := q.e.memory.availableAt(n, now); ok {
		return at, true
	}
	if newcomer && q.permits > 0 {
		if head := q.head(order); head.retryAt.After(now) {
			return head.retryAt, true
		}
	}
	return req.retryAt, req.retryAt.After(now)
}

// setTimerLocked sets the timer to when the head can be served, but at most a second after the latest call for waiters.
func (q *queue) setTimerLocked() {
	if q.empty() {
		if q.timer != nil {
			q.timer.Stop()
			q.timer, q.timerAt = nil, time.Time{}
		}
		q.asked = time.Time{}
		q.listener.stopLocked()
		return
	}
	if q.asks || q.e.pipeline.calling > 0 {
		return // the end of the call sets the timer
	}
	now := time.Now()
	if q.asked.IsZero() {
		q.asked = now
	}
	at := q.asked.Add(askEvery)
	if retry := q.e.breaker.retryTime(now); !retry.IsZero() {
		at = retry
	} else {
		for _, req := range []*request{q.head(q.e.limits.order), waiter(q.zeroPermits.Front())} {
			if req != nil && !req.retryAt.IsZero() && req.retryAt.Before(at) {
				at = req.retryAt
			}
		}
	}
	if at.Equal(q.timerAt) {
		return
	}
	q.timerAt = at
	if q.timer == nil {
		q.timer = time.AfterFunc(at.Sub(now), q.ask)
	} else {
		q.timer.Reset(at.Sub(now))
	}
}

// ask has the store asked for the waiters. The timer calls it, and the listener when a release is published.
func (q *queue) ask() {
	q.e.mu.Lock()
	defer q.e.unlock()
	q.timerAt = time.Time{}
	q.asks = !q.empty()
}
