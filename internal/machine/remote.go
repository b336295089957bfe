package machine

// Remote is the account of permits that a server counts. None of them is available here: a request that the server has refused waits
// in the queue, and is served when its owner calls Offer with permits that the server has granted.
type Remote struct {
	// Ready returns the first instant, now or later, at which the server could grant n permits, or now if that is not known. If n is
	// more than the limit, some of the permits are for waiters, who take them as soon as they come.
	Ready func(now int64, n int) int64

	// Served is Ready of n permits for a request behind waiters for ahead permits.
	Served func(now int64, ahead, n int) int64
}

func (r *Remote) readyAt(_ *Terms, now int64, n int) int64 { return r.Ready(now, n) }

func (r *Remote) servedAt(_ *Terms, now int64, ahead, n int) int64 {
	return r.Served(now, ahead, n)
}

// Try implements Account. It takes nothing.
func (r *Remote) Try(_ *Terms, now int64, n int) (left int, fullAt, readyAt int64, ok bool) {
	return 0, Never, r.Ready(now, n), false
}

func (r *Remote) bind(_, _ *Terms, _ int64)             {}
func (r *Remote) keeps(_, _ *Terms) bool                { return false }
func (r *Remote) giveBack(*Terms, int64, int) bool      { return false }
func (r *Remote) mostPlayed(*Terms) int                 { return 0 }
func (r *Remote) advance(*Terms, int64) bool            { return false }
func (r *Remote) available(*Terms) int                  { return 0 }
func (r *Remote) take(*Terms, int64, int)               {}
func (r *Remote) settle(*Terms, int64, Grant, int) bool { return false }
func (r *Remote) reset(*Terms, int64)                   {}
func (r *Remote) uniformTo(*Terms) int                  { return 0 }
func (r *Remote) fullAt(*Terms, int64) int64            { return Never }
func (r *Remote) idle(*Terms) (int64, bool)             { return 0, false }
func (r *Remote) clone() Account                        { return r }

func (r *Remote) record(t *Terms, now, _ int64) (at int64, missing int) { return now, t.Limit }

// Offer serves the waiter that is next if it wants at most n permits, and returns it; otherwise it returns nil. If n is 0, it serves a
// waiter for zero permits.
func (m *Machine[Value]) Offer(now int64, n int) *Waiter[Value] {
	if m.queue == nil {
		return nil
	}
	q := m.queue
	w := q.zero
	if n > 0 {
		w = q.head(m.t)
	}
	if w == nil || w.N > n {
		return nil
	}
	if q.fair != nil && w.N > 0 {
		q.fair.Take(&w.share.Item)
	}
	q.decide(w, m.answer(now, Granted))
	return w
}

// Waiters yields the numbers of permits for which requests wait, in the order of service. Under FairShare, whose order depends on who is
// served, it yields the first and then all others in order of arrival. The last number is 0 if requests for zero permits wait.
func (m *Machine[Value]) Waiters(yield func(n int) bool) {
	if m.queue == nil {
		return
	}
	q := m.queue
	first := q.head(m.t)
	if first != nil && !yield(first.N) {
		return
	}
	w, newest := q.oldest, m.t.NewestFirst()
	if newest {
		w = q.newest
	}
	for w != nil {
		if w != first && !yield(w.N) {
			return
		}
		if newest {
			w = w.prev
		} else {
			w = w.next
		}
	}
	if q.zero != nil {
		yield(0)
	}
}

// Head returns the waiter that is served next, or nil if none waits for permits.
func (m *Machine[Value]) Head() *Waiter[Value] {
	if m.queue == nil {
		return nil
	}
	return m.queue.head(m.t)
}

// Newest returns the waiter for permits that came last, or nil if there is none.
func (m *Machine[Value]) Newest() *Waiter[Value] {
	if m.queue == nil {
		return nil
	}
	return m.queue.newest
}

// Reserves reports whether a waiter is Reserved.
func (m *Machine[Value]) Reserves() bool { return m.queue != nil && m.queue.reserved > 0 }

// ZeroWaits reports whether a request for zero permits waits.
func (m *Machine[Value]) ZeroWaits() bool { return m.queue != nil && m.queue.zero != nil }
