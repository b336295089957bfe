package redislimit

import (
	"time"

	"github.com/sluice-go/sluice/core"
)

// queue holds the ops of those of this process who wait. The engine's mutex guards it.
type queue struct {
	oldest, newest *op // who wait for permits
	permits        int // the sum of theirs
	probes         *op // who wait for any permit to be there

	asking bool        // a call asks for it
	asked  time.Time   // when the store was asked for it last
	timer  *time.Timer // nil: nobody waits
	alarm  time.Time   // when the timer rings; zero: it does not

	plan *plan // all that wait, served oldest first; nil: not known
}

// askEvery is how often those who wait ask, at least.
const askEvery = time.Second

func (q *queue) empty() bool { return q.oldest == nil && q.probes == nil }

func (q *queue) push(o *op) {
	o.queued = true
	o.tellLocked()
	if o.n == 0 {
		if o.next = q.probes; o.next != nil {
			o.next.prev = o
		}
		q.probes = o
		return
	}
	if o.prev = q.newest; o.prev == nil {
		q.oldest = o
	} else {
		o.prev.next = o
	}
	q.newest = o
	q.permits += int(o.n)
	if q.plan != nil {
		q.plan.serve(int(o.n))
	}
}

func (q *queue) remove(o *op) {
	switch {
	case o.prev != nil:
		o.prev.next = o.next
	case o.n == 0:
		q.probes = o.next
	default:
		q.oldest = o.next
	}
	switch {
	case o.next != nil:
		o.next.prev = o.prev
	case o.n > 0:
		q.newest = o.prev
	}
	o.prev, o.next, o.queued = nil, nil, false
	if o.n > 0 {
		q.permits -= int(o.n)
		q.plan = nil
	}
}

// head returns who is served next, nil if nobody waits for permits.
func (q *queue) head(order core.QueueOrder) *op {
	if order == core.NewestFirst {
		return q.newest
	}
	return q.oldest
}

// after returns who is served after o.
func (o *op) after(order core.QueueOrder) *op {
	if order == core.NewestFirst {
		return o.prev
	}
	return o.next
}

// planned returns the plan, made from f as it is at that instant if there is none.
func (q *queue) planned(f *forecast, at int64) *plan {
	if q.plan == nil {
		q.plan = &plan{f.clone(), at}
		q.plan.f.advance(at)
		for o := q.oldest; o != nil; o = o.next {
			q.plan.serve(int(o.n))
		}
	}
	return q.plan
}

// probeDue plays the serving of the queue in f until a permit is left over.
func (q *queue) probeDue(f *forecast, at int64, order core.QueueOrder) int64 {
	f.advance(at)
	for o := q.head(order); ; {
		for o != nil && int(o.n) <= f.available() {
			f.take(at, int(o.n))
			o = o.after(order)
		}
		if at == never || f.available() > 0 {
			return at
		}
		if at = f.ready(at, 1); at != never {
			f.advance(at)
		}
	}
}

// enqueueLocked has o wait, or decides it if there is no room, or no hope to be served
// before its deadline.
func (e *engine) enqueueLocked(o *op, now time.Time) {
	q, n := &e.queue, int(o.n)
	room := e.t.queueLimit
	if e.t.order == core.OldestFirst {
		room -= q.permits // below 0 after an Update
	}
	if n > 0 && n > room {
		o.detail = "queue is full"
		if e.t.queueLimit == 0 {
			o.detail = "no queue"
		}
		e.rejectLocked(o, now, "queue limit reached")
		return
	}
	if e.t.timed() && !o.deadline.IsZero() {
		if due, ok := e.dueLocked(o, now); ok && due.After(o.deadline) {
			o.cause = errTooSoon
			e.rejectLocked(o, now, "deadline too soon")
			return
		}
	}
	for n > 0 && q.oldest != nil && n > e.t.queueLimit-q.permits {
		old := q.oldest
		e.rejectLocked(old, now, "evicted by a newer request")
	}
	if o.ready.IsZero() {
		o.ready, _ = e.refusals.until(max(n, 1), now)
	}
	q.push(o)
	e.listenLocked()
}

// setAlarmLocked has the queue asked for when somebody in it can be served, and every
// second.
func (e *engine) setAlarmLocked(now time.Time) {
	q := &e.queue
	if q.empty() {
		if q.timer != nil {
			q.timer.Stop()
			q.timer, q.alarm = nil, time.Time{}
		}
		e.unlistenLocked()
		return
	}
	if q.asked.IsZero() || q.asked.After(now) {
		q.asked = now
	}
	at := q.asked.Add(askEvery)
	if o := q.head(e.t.order); o != nil {
		at = earlier(at, e.readyLocked(o, now))
	}
	if q.probes != nil {
		at = earlier(at, e.readyLocked(q.probes, now))
	}
	if e.breaker.failures > 0 {
		at = e.breaker.probeAt
	}
	if e.kick || q.asking || at.Equal(q.alarm) {
		return // it is being asked for
	}
	q.alarm = at
	if q.timer == nil {
		q.timer = time.AfterFunc(at.Sub(now), e.ring)
	} else {
		q.timer.Reset(at.Sub(now))
	}
}

// readyLocked returns when o, of the queue, should ask; zero: it is not known.
func (e *engine) readyLocked(o *op, now time.Time) time.Time {
	if f := e.known.forecast; f != nil {
		f = f.clone()
		at := since(now, e.known.at)
		f.advance(at)
		if due := f.ready(at, int(max(o.n, 1))); due != never {
			return e.known.at.Add(lasts(due))
		}
		return time.Time{}
	}
	return o.ready
}

// ring is what the queue's timer does.
func (e *engine) ring() {
	e.mu.Lock()
	e.queue.alarm = time.Time{}
	if !e.queue.empty() {
		e.kickLocked()
	}
	e.unlock()
}

// kickLocked has the store asked for those who wait, now.
func (e *engine) kickLocked() {
	e.kick = true
	e.callLocked()
}

// earlier returns the earlier of two, a zero one being none.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}
