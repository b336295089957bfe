package machine

import "github.com/sluice-go/sluice/internal/fair"

// Queue is the state of a machine while requests wait, or while ended waits have not been
// returned by Decided.
type Queue[Value any] struct {
	oldest, newest *Waiter[Value] // waiters for permits
	permits        Total          // the sum of their permits
	bounded        int            // the permits of the waiters that QueueLimit bounds
	evictable      *Waiter[Value] // the oldest waiter that QueueLimit bounds
	len            int            // the number of waiters for permits
	reserved       int            // the number of waiters that are Reserved
	uniform        int            // see Account.uniformTo
	stoppedAt      int64          // the instant as of which AdvanceSome has stopped; 0: it has not
	largest        int            // no request that has waited since the queue was empty is for more permits
	zero           *Waiter[Value] // waiters for zero permits, the latest first

	fair *fair.Queue[*Waiter[Value]] // the waiters for permits, by flow; nil: the order is not FairShare

	decided, last *Waiter[Value] // the waiters whose wait has ended and that Decided has not returned

	// forecast is the account as it will be at forecastAt, when all waiters have been served
	// oldest first: for a queue with waiters for more than uniform, where only playing it forward tells. nil:
	// not known, computed when it is needed.
	forecast   Account
	forecastAt int64
}

// Waiter is a request that waits. It may be reused once Decided has returned it, or Cancel has
// taken it out.
type Waiter[Value any] struct {
	N        int    // permits; 0: it waits for any permit to be available, and takes none
	Beyond   bool   // it waits whatever QueueLimit is: see Admit
	Reserved bool   // no goroutine waits for it: see Machine.Waiting
	Answer   Answer // when the wait has ended
	Value    Value  // the caller's

	prev, next *Waiter[Value]
	queued     bool
	share      *share[Value] // under FairShare; nil until it has a flow
}

// share is what only waiters under FairShare have, so that others are no larger.
type share[Value any] struct {
	fair.Item[*Waiter[Value]]

	flow fair.Flow
}

// Shares is memory for the first waiters of a Queue under FairShare.
type Shares[Value any] struct {
	queue fair.Queue[*Waiter[Value]]
	room  fair.Room[*Waiter[Value]]
	first share[Value]
}

// Lend gives the memory to a zero Queue and its first waiter, which has no flow yet.
func (s *Shares[Value]) Lend(q *Queue[Value], w *Waiter[Value]) {
	s.queue.Use(&s.room)
	q.fair = &s.queue
	if w.share == nil {
		s.first.Value, w.share = w, &s.first
	}
}

// SetFlow sets on whose behalf w will wait.
func (w *Waiter[Value]) SetFlow(f fair.Flow) {
	if w.share == nil {
		w.share = new(share[Value])
		w.share.Value = w
	}
	w.share.flow = f
}

// Flow returns what SetFlow has set.
func (w *Waiter[Value]) Flow() fair.Flow {
	if w.share == nil {
		return fair.Flow{}
	}
	return w.share.flow
}

// Queued reports whether w waits.
func (w *Waiter[Value]) Queued() bool { return w.queued }

// Next returns the next waiter in the list that Decided returned.
func (w *Waiter[Value]) Next() *Waiter[Value] { return w.next }

// SetNext links w to another waiter, for the caller's own lists of waiters that do not wait.
func (w *Waiter[Value]) SetNext(next *Waiter[Value]) { w.next = next }

// Undelivered returns what Decided will return next.
func (m *Machine[Value]) Undelivered() *Waiter[Value] {
	if m.queue == nil {
		return nil
	}
	return m.queue.decided
}

// Decided returns the waiters whose wait has ended since its last call, linked by Next, in the
// order of the decisions. It drops the queue if no request waits.
func (m *Machine[Value]) Decided() *Waiter[Value] {
	q := m.queue
	if q == nil {
		return nil
	}
	first := q.decided
	q.decided, q.last = nil, nil
	if q.oldest == nil && q.zero == nil {
		m.queue = nil
	}
	return first
}

// decide ends the wait of w.
func (q *Queue[Value]) decide(w *Waiter[Value], a Answer) {
	q.remove(w)
	w.Answer = a
	if q.last == nil {
		q.decided = w
	} else {
		q.last.next = w
	}
	q.last = w
}

// push appends w as the newest.
func (q *Queue[Value]) push(w *Waiter[Value]) {
	w.prev, w.next, w.queued = nil, nil, true
	if w.N == 0 {
		if w.next = q.zero; w.next != nil {
			w.next.prev = w
		}
		q.zero = w
		return
	}
	if w.prev = q.newest; w.prev == nil {
		q.oldest = w
	} else {
		w.prev.next = w
	}
	q.newest = w
	q.permits.Add(w.N)
	if !w.Beyond {
		q.bounded += w.N
		if q.evictable == nil {
			q.evictable = w
		}
	}
	q.len++
	if w.Reserved {
		q.reserved++
	}
	q.largest = max(q.largest, w.N)
	if q.fair != nil {
		q.pushShare(w)
	} else if w.share != nil {
		w.share.flow = fair.Flow{} // drop the flow of an earlier wait
	}
}

// remove takes w out, wherever it is.
func (q *Queue[Value]) remove(w *Waiter[Value]) {
	if !w.Beyond && w.N > 0 {
		q.bounded -= w.N
		if q.evictable == w {
			q.nextEvictable()
		}
	}
	switch {
	case w.prev != nil:
		w.prev.next = w.next
	case w.N == 0:
		q.zero = w.next
	default:
		q.oldest = w.next
	}
	switch {
	case w.next != nil:
		w.next.prev = w.prev
	case w.N > 0:
		q.newest = w.prev
	}
	w.prev, w.next = nil, nil
	w.queued = false
	if w.N > 0 {
		q.permits.Add(-w.N)
		q.len--
		if w.Reserved {
			q.reserved--
		}
	}
	if q.fair != nil && w.N > 0 {
		q.fair.Remove(&w.share.Item)
	}
}

// nextEvictable moves evictable to the next waiter that may be evicted. It passes each waiter once.
func (q *Queue[Value]) nextEvictable() {
	for q.evictable = q.evictable.next; q.evictable != nil && q.evictable.Beyond; {
		q.evictable = q.evictable.next
	}
}

// head returns the waiter that is served next, or nil if none waits for permits.
func (q *Queue[Value]) head(t *Terms) *Waiter[Value] {
	switch {
	case q.fair != nil:
		if it := q.fair.Next(); it != nil {
			return it.Value
		}
		return nil
	case t.NewestFirst():
		return q.newest
	}
	return q.oldest
}

// order puts the waiters into the order of terms that may be new. Requests that began to wait under another
// order than FairShare are of the zero Flow; the others keep theirs.
func (q *Queue[Value]) order(t *Terms) {
	switch {
	case !t.FairShare():
		q.fair = nil
	case q.fair == nil:
		q.fair = new(fair.Queue[*Waiter[Value]])
		for w := q.oldest; w != nil; w = w.next {
			q.pushShare(w)
		}
	}
}

// pushShare appends w to those of its flow.
func (q *Queue[Value]) pushShare(w *Waiter[Value]) {
	if w.share == nil {
		w.SetFlow(fair.Flow{})
	}
	w.share.N, w.share.Stays = w.N, w.Beyond
	q.fair.Push(&w.share.Item, w.share.flow)
}

// admitByFlow is admit under FairShare.
func (m *Machine[Value]) admitByFlow(now int64, n int, deadline int64, f fair.Flow, beyond bool) Answer {
	q, limit := m.queue, m.t.QueueLimit
	over := n - (limit - m.bounded()) // the permits that have to leave
	var evicted []*fair.Item[*Waiter[Value]]
	if n > 0 && !beyond && (n > limit || over > 0) {
		ok := false
		if n <= limit {
			evicted, ok = q.fair.Evictions(f, n, over)
		}
		if !ok {
			return m.reject(now, QueueFull, m.readyInFlow(now, n, f))
		}
	}
	if deadline != Never && m.t.Timed() {
		if due := m.readyInFlow(now, n, f); due > deadline {
			return m.reject(now, TooSoon, due)
		}
	}
	for _, it := range evicted { // all of them first: an answer depends on what still waits
		q.fair.Remove(it)
	}
	for _, it := range evicted {
		old := it.Value
		q.decide(old, m.reject(now, Evicted, m.readyInFlow(now, old.N, old.Flow())))
	}
	return Answer{At: now}
}

// need returns how many permits have to be available for a request of n: a request for zero
// permits takes none but needs one.
func need(n int) int { return max(n, 1) }

// readyAt returns the instant at which a request for n permits, made now, could be served if no
// other request came: after the queue ahead, or for zero permits as soon as a permit is left
// over. Under FairShare it is a lower bound, of a request without a flow: see readyInFlow. Behind more waiters than mostPlayed it is a lower bound, too: the instant at which as
// many permits have come as all of them wait for.
func (m *Machine[Value]) readyAt(now int64, n int) int64 {
	q := m.queue
	switch {
	case !m.t.Timed():
		return Never
	case n > 0 && (q == nil || q.oldest == nil):
		return m.account.servedAt(m.t, now, 0, n)
	case q == nil || q.oldest == nil || q.fair != nil || n == 0 && m.account.mostPlayed(m.t) == 0:
		return m.account.readyAt(m.t, now, need(n))
	case n == 0 && q.permits.Int() == q.len: // one each
		return m.account.servedAt(m.t, now, q.len, 1)
	case n == 0:
		return m.spareAt(now)
	case m.t.NewestFirst():
		return m.account.readyAt(m.t, now, n)
	case q.largest <= q.uniform || q.forecast == nil && q.len > m.account.mostPlayed(m.t):
		return m.account.servedAt(m.t, now, q.permits.Int(), n)
	case q.forecast == nil:
		q.forecast, q.forecastAt = m.account.clone(), now
		for w := q.oldest; w != nil; w = w.next {
			q.extendForecast(m.t, w)
		}
	}
	return q.forecastFor(m.t, n)
}

// ReadyAt returns the instant at which a request for n permits and the zero flow, made now, could be served if no
// other request came, or Never.
func (m *Machine[Value]) ReadyAt(now int64, n int) int64 { return m.readyInFlow(now, n, fair.Flow{}) }

// readyInFlow returns the instant before which a request of flow f for n permits, made now, cannot be
// served: by then the permits have come that it lacks and that its own flow's waiters wait for.
// Other flows can only make it later, and it is not certain by how much.
func (m *Machine[Value]) readyInFlow(now int64, n int, f fair.Flow) int64 {
	if m.queue == nil || m.queue.fair == nil || n == 0 || !m.t.Timed() {
		return m.readyAt(now, n)
	}
	return m.account.servedAt(m.t, now, m.queue.fair.Waiting(f), n)
}

// forgetForecast forgets the forecast.
func (m *Machine[Value]) forgetForecast() {
	if m.queue != nil {
		m.queue.forecast = nil
	}
}

// forecastFor returns the instant at which n permits can be served after all waiters.
func (q *Queue[Value]) forecastFor(t *Terms, n int) int64 {
	if q.forecastAt == Never {
		return Never
	}
	return q.forecast.readyAt(t, q.forecastAt, n)
}

// extendForecast plays the serving of w, the next waiter.
func (q *Queue[Value]) extendForecast(t *Terms, w *Waiter[Value]) {
	if q.forecastAt = q.forecastFor(t, w.N); q.forecastAt != Never {
		q.forecast.advance(t, q.forecastAt)
		q.forecast.take(t, q.forecastAt, w.N)
	}
}

// spareAt plays the serving of the queue until a permit is left over, and returns that instant. Behind more than
// mostPlayed waiters it may be an earlier one.
func (m *Machine[Value]) spareAt(now int64) int64 {
	newest, played := m.t.NewestFirst(), 0
	future, w := m.account.clone(), m.queue.head(m.t)
	for at := now; ; {
		for w != nil && w.N <= future.available(m.t) {
			played++
			if played > m.account.mostPlayed(m.t) {
				return at
			}
			future.take(m.t, at, w.N)
			if newest {
				w = w.prev
			} else {
				w = w.next
			}
		}
		if at == Never || future.available(m.t) > 0 {
			return at
		}
		if at = future.readyAt(m.t, at, 1); at != Never {
			future.advance(m.t, at)
		}
	}
}
