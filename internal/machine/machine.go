// Package machine contains the decisions of a limiter without its clock: the account of the permits
// taken, the queue, and the answer to each request, as a state machine of instants. It has no
// lock, clock, timer or goroutine. The engine of core drives it under a mutex; a simulator
// drives it in virtual time.
//
// An instant is a number of nanoseconds since the limiter's creation. Instants do not decrease
// from call to call, except those of a [Calendar]. A caller advances time before it calls anything else:
//
//	m := machine.New[request](new(machine.Bucket), &machine.Terms{Limit: 10, Step: 1, Span: int64(time.Second), QueueLimit: 5})
//	m.Advance(now) // waiters are served, each at its own instant, however late this comes
//	for w := m.Decided(); w != nil; w = w.Next() {
//		// w.Answer says how and when; w.Value is the caller's
//	}
//	answer := m.Try(now, 1)               // a TryAcquire
//	answer := m.Admit(now, 1, deadline, fair.Flow{}, false) // an Acquire: Granted, a rejection, or Waiting; then
//	m.Enqueue(now, &machine.Waiter[request]{N: 1, Value: r})
//	m.Cancel(now, w)                      // its context is done
//	m.Release(now, 1)                     // of a concurrency limiter's grant
//	m.Settle(now, grant, 3)               // a rate limiter's grant has cost 3 permits
//
// After Advance, Admit, Enqueue, Cancel, Release, Settle, GiveBack, Replenish, Reset, Roll, Update and Close
// there may be waiters whose wait has ended: see Decided.
//
// Permits below 0 and terms out of range are the caller's to reject: the machine does not check
// them. A Machine is not safe for concurrent use.
package machine

import (
	"math"

	"github.com/sluice-go/sluice/internal/fair"
)

// Machine is the state of one limiter. Value is what a caller keeps with each waiter. The zero
// Machine is not ready for use: call Start first.
type Machine[Value any] struct {
	t       *Terms
	account Account
	queue   *Queue[Value] // nil means that no request waits, and Decided has returned all whose wait has ended
}

// New returns a started machine with an account from which nothing is taken.
func New[Value any](a Account, t *Terms) *Machine[Value] {
	m := new(Machine[Value])
	m.Start(a, t, 0)
	return m
}

// Start makes the machine ready, with all permits available. Nothing may be taken from the account.
func (m *Machine[Value]) Start(a Account, t *Terms, now int64) {
	m.account, m.t = a, t
	a.bind(nil, t, now)
}

// Terms returns the current terms.
func (m *Machine[Value]) Terms() *Terms { return m.t }

// Rebind replaces the pointer to the current terms. The new terms must be equal in all fields
// that the machine reads.
func (m *Machine[Value]) Rebind(t *Terms) { m.t = t }

// Account returns the account.
func (m *Machine[Value]) Account() Account { return m.account }

// Outcome is the result of a request.
type Outcome uint8

// The outcomes. Those from Exhausted to TooSoon are rejections.
const (
	Waiting Outcome = iota
	Granted
	Exhausted    // a try: the permits are not available, or other requests wait for them
	QueueFull    // there is no room to wait
	Evicted      // a newer request took the room, newest first
	TooSoon      // the deadline comes before the permits
	ExceedsLimit // more permits than the limit
	Ended        // the limiter was closed
)

// Answer is a decision.
type Answer struct {
	Outcome Outcome
	At      int64 // the instant of the decision
	Left    int   // permits available right after it
	FullAt  int64 // the instant by which all permits are back if nothing more is taken, or Never
	ReadyAt int64 // a rejection: the instant at which the request could be served, or Never
	GrantAt int64 // a rate limiter's: Grant.At of a grant made now
	Missing int   // a rate limiter's: Grant.Missing of a grant made now
}

// Rejected reports whether the outcome counts as a rejection.
func (o Outcome) Rejected() bool { return o >= Exhausted && o <= TooSoon }

// Advance returns the permits that are due by now. Waiters are served at the instants at which their permits
// came, in order, however late the call is. For a concurrency limiter, and under manual
// replenishment, Advance does nothing.
func (m *Machine[Value]) Advance(now int64) {
	for !m.AdvanceSome(now, math.MaxInt) {
	}
}

// AdvanceSome is Advance, but it may stop after having served some waiters, and then returns false. Nothing but
// AdvanceSome may be called then.
func (m *Machine[Value]) AdvanceSome(now int64, some int) (done bool) {
	if !m.t.Timed() {
		return true
	}
	if m.queue == nil {
		m.account.advance(m.t, now)
		return true
	}
	// No queued request fits now, so every instant that Next returns lies after its argument, unless serving stopped there.
	for due := m.Next(m.queue.stoppedAt); due <= now && due != Never; due = m.Next(due) {
		m.account.advance(m.t, due)
		if some = m.serveSome(due, some); some == 0 {
			m.queue.stoppedAt = due
			return false
		}
	}
	m.queue.stoppedAt = 0
	m.account.advance(m.t, now)
	return true
}

// Try takes n permits if they are available and no waiter is ahead; n is at least 0, and 0
// takes nothing.
func (m *Machine[Value]) Try(now int64, n int) Answer {
	switch {
	case n > m.t.Most():
		return m.answer(now, ExceedsLimit)
	case m.free(n):
		return m.grant(now, n)
	}
	return m.reject(now, Exhausted, m.readyAt(now, n))
}

// TryQuietly is Try, but of a rejection it returns only that it is one.
func (m *Machine[Value]) TryQuietly(now int64, n int) (Answer, bool) {
	if n > m.t.Most() || !m.free(n) {
		return Answer{}, false
	}
	return m.grant(now, n), true
}

// LooksAtFlow reports whether Admit of n permits would look at the flow: under FairShare, if the
// request is not granted immediately.
func (m *Machine[Value]) LooksAtFlow(n int) bool {
	return m.t.FairShare() && n > 0 && n <= m.t.Most() && !m.free(n)
}

// Admit decides a request that may wait until the deadline, which may be Never. If the answer
// is Waiting, the caller calls Enqueue next. The flow is looked at as LooksAtFlow says. A request that is
// beyond waits whatever QueueLimit is: it takes no room from others, and is not evicted. Its waiter's Beyond
// must be set.
func (m *Machine[Value]) Admit(now int64, n int, deadline int64, f fair.Flow, beyond bool) Answer {
	switch {
	case n > m.t.Most():
		return m.answer(now, ExceedsLimit)
	case m.free(n):
		return m.grant(now, n)
	}
	if m.t.FairShare() {
		return m.admitByFlow(now, n, deadline, f, beyond)
	}
	room := m.t.QueueLimit
	if !m.t.NewestFirst() {
		room -= m.bounded() // below 0 after an Update
	}
	if n > 0 && !beyond && n > room {
		return m.reject(now, QueueFull, m.readyAt(now, n))
	}
	if deadline != Never && m.t.Timed() {
		if due := m.readyAt(now, n); due > deadline {
			return m.reject(now, TooSoon, due)
		}
	}
	if q := m.queue; q != nil && n > 0 && !beyond {
		for q.evictable != nil && n > m.t.QueueLimit-q.bounded {
			old := q.evictable
			q.decide(old, m.reject(now, Evicted, m.account.readyAt(m.t, now, old.N)))
		}
	}
	return Answer{At: now}
}

// Use makes a zero Queue the one of the waiters, unless the machine has one. The caller calls Enqueue next. Without a
// call of Use, Enqueue allocates a Queue.
func (m *Machine[Value]) Use(q *Queue[Value]) {
	if m.queue == nil {
		m.queue = q
		q.uniform = m.account.uniformTo(m.t)
		q.order(m.t)
	}
}

// Enqueue puts w into the queue; w.N is the number of permits for which Admit answered Waiting, at
// this instant; the flow is that of SetFlow. Under FairShare it serves the waiters that are next and
// fit, which may be w.
func (m *Machine[Value]) Enqueue(now int64, w *Waiter[Value]) {
	if m.queue == nil {
		if m.t.FairShare() {
			s := new(struct {
				Queue[Value]
				Shares[Value]
			})
			s.Lend(&s.Queue, w)
			m.Use(&s.Queue)
		} else {
			m.Use(new(Queue[Value]))
		}
	}
	m.queue.push(w)
	if m.queue.fair != nil {
		m.serve(now)
		return
	}
	if m.queue.forecast != nil && w.N > 0 {
		m.queue.extendForecast(m.t, w)
	}
}

// Cancel takes w out of the queue and serves the waiters that it held up. It returns false if
// the wait had already ended.
func (m *Machine[Value]) Cancel(now int64, w *Waiter[Value]) bool {
	if !w.queued {
		return false
	}
	m.queue.remove(w)
	if w.N > 0 {
		m.queue.forecast = nil
	}
	m.serve(now)
	return true
}

// Release returns n permits of a concurrency limiter. If n is below 0, it takes them,
// available or not.
func (m *Machine[Value]) Release(now int64, n int) {
	m.account.take(m.t, now, -n)
	m.serve(now)
}

// Replenish returns the permits that are due by now under manual replenishment, and reports whether there were
// any.
func (m *Machine[Value]) Replenish(now int64) bool {
	if m.t.Held() || !m.t.Manual() || !m.account.advance(m.t, now) {
		return false
	}
	m.forgetForecast()
	m.serve(now)
	return true
}

// NextEpoch returns the epoch of terms that are about to replace the current ones.
func (m *Machine[Value]) NextEpoch(t *Terms) uint32 {
	if m.account.keeps(m.t, t) {
		return m.t.Epoch
	}
	return m.t.Epoch + 1
}

// Update applies t, of the epoch that NextEpoch returns. Permits that are taken stay taken; of a bucket, the available
// tokens stay. The waits of requests for more than t.Most end with ExceedsLimit.
func (m *Machine[Value]) Update(now int64, t *Terms) {
	old := m.t
	m.t = t
	m.account.bind(old, t, now)
	if m.queue == nil {
		return
	}
	for w := m.queue.oldest; w != nil && m.queue.largest > t.Most(); {
		next := w.next
		if w.N > t.Most() {
			m.queue.decide(w, m.answer(now, ExceedsLimit))
		}
		w = next
	}
	m.queue.largest = min(m.queue.largest, t.Most())
	m.forgetForecast()
	m.queue.uniform = m.account.uniformTo(t)
	m.queue.order(t)
	m.serve(now)
}

// Settle records that a rate limiter's grant has cost n permits. If it has cost less, the
// difference is returned, as far as it is certainly still missing because of the grant;
// if it has cost more, the difference is taken, available or not. Waiters that now fit are
// served. Settle does not know whether it was called for the grant before.
//
// What is left of a grant that has cost less may be settled again, as the same grant of fewer
// permits with Reduced set. A grant that has cost more may be settled again: if renewed, as a grant
// of n permits of this instant; otherwise as the same grant of n permits.
func (m *Machine[Value]) Settle(now int64, g Grant, n int) (renewed bool) {
	renewed = m.account.settle(m.t, now, g, n)
	if m.queue != nil {
		m.queue.forecast = nil
	}
	m.serve(now)
	return renewed
}

// GiveBack returns n permits, at least 1, whichever grants took them, but no more than are missing. A
// window returns those that come back first, so that no window grants more than its limit. Waiters that
// now fit are served. A concurrency limiter ignores it.
func (m *Machine[Value]) GiveBack(now int64, n int) {
	if m.account.giveBack(m.t, now, n) {
		m.forgetForecast()
		m.serve(now)
	}
}

// Reset returns a rate limiter to its initial state: all permits are available. The terms t are
// the current ones, of another epoch.
func (m *Machine[Value]) Reset(now int64, t *Terms) {
	m.t = t
	m.account.reset(m.t, now)
	m.forgetForecast()
	m.serve(now)
}

// Roll makes a later window of a calendar the current one: all permits are back. The waiters
// are served as of the instant at.
func (m *Machine[Value]) Roll(at int64, t *Terms) {
	since, idle := m.account.idle(m.t)
	if !idle {
		since = m.t.End()
	}
	m.account.reset(t, since)
	m.t = t
	m.forgetForecast()
	m.serve(at)
}

// Close ends all waits. It does not reject later requests: the caller does.
func (m *Machine[Value]) Close(now int64) {
	if q := m.queue; q != nil {
		for q.oldest != nil {
			q.decide(q.oldest, Answer{Outcome: Ended, At: now})
		}
		for q.zero != nil {
			q.decide(q.zero, Answer{Outcome: Ended, At: now})
		}
	}
}

// Next returns the instant at which a waiter can be served, or Never.
func (m *Machine[Value]) Next(now int64) int64 {
	due := int64(Never)
	if m.queue == nil || !m.t.Timed() {
		return due
	}
	if w := m.queue.head(m.t); w != nil {
		due = m.account.readyAt(m.t, now, w.N)
	}
	if m.queue.zero != nil {
		due = min(due, m.account.readyAt(m.t, now, 1))
	}
	return due
}

// Available returns the number of permits that could be taken now.
func (m *Machine[Value]) Available() int { return m.account.available(m.t) }

// Queued returns the number of permits that waiters wait for.
func (m *Machine[Value]) Queued() int {
	if m.queue == nil {
		return 0
	}
	return m.queue.permits.Int()
}

// bounded returns the number of permits that take room in the queue.
func (m *Machine[Value]) bounded() int {
	if m.queue == nil {
		return 0
	}
	return m.queue.bounded
}

// Empty reports whether no request waits.
func (m *Machine[Value]) Empty() bool {
	return m.queue == nil || m.queue.oldest == nil && m.queue.zero == nil
}

// Waiting reports whether a request waits that is not Reserved.
func (m *Machine[Value]) Waiting() bool {
	return m.queue != nil && (m.queue.len > m.queue.reserved || m.queue.zero != nil)
}

// Quiet reports whether no request waits, and Decided has returned all whose wait has ended.
func (m *Machine[Value]) Quiet() bool { return m.queue == nil }

// Idle returns the instant from which all permits have been available, and whether they are.
func (m *Machine[Value]) Idle() (since int64, ok bool) { return m.account.idle(m.t) }

// FullAt returns the instant by which all permits are back if nothing more is taken, or
// Never.
func (m *Machine[Value]) FullAt(now int64) int64 { return m.account.fullAt(m.t, now) }

// free reports whether n permits can be taken now.
func (m *Machine[Value]) free(n int) bool {
	if need(n) > m.account.available(m.t) {
		return false
	}
	// Oldest first, a request cannot overtake a waiter.
	return n == 0 || m.queue == nil || m.queue.oldest == nil || m.t.NewestFirst()
}

// serve grants to the waiters at the head of the queue as long as they fit, then to the waiters
// for zero permits if a permit is left.
func (m *Machine[Value]) serve(now int64) {
	if m.queue != nil {
		m.serveSome(now, math.MaxInt)
	}
}

// serveSome is serve for at most some waiters for permits. It returns how many more it could have served.
func (m *Machine[Value]) serveSome(now int64, some int) (more int) {
	q := m.queue
	left := m.account.available(m.t)
	for w := q.head(m.t); w != nil && w.N <= left; w = q.head(m.t) {
		if some == 0 {
			return 0
		}
		some--
		a := m.grant(now, w.N)
		if q.fair != nil {
			q.fair.Take(&w.share.Item)
		}
		q.decide(w, a)
		left = a.Left
	}
	for q.zero != nil && left > 0 {
		q.decide(q.zero, m.grant(now, 0))
	}
	return some
}

// grant takes n permits, which are available.
func (m *Machine[Value]) grant(now int64, n int) Answer {
	if n > 0 {
		m.account.take(m.t, now, n)
	}
	return m.answer(now, Granted)
}

// Answer returns what an answer says of the state as it is now.
func (m *Machine[Value]) Answer(now int64) Answer { return m.answer(now, Granted) }

func (m *Machine[Value]) answer(now int64, o Outcome) Answer {
	a := Answer{Outcome: o, At: now, Left: m.account.available(m.t), FullAt: m.account.fullAt(m.t, now)}
	a.GrantAt, a.Missing = m.account.record(m.t, now, a.FullAt)
	return a
}

func (m *Machine[Value]) reject(now int64, o Outcome, readyAt int64) Answer {
	a := m.answer(now, o)
	a.ReadyAt = readyAt
	return a
}
