package core_test

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
)

// naive is the contract of a limiter, played event by event: slices, loops, no
// cleverness, and nothing shared with the package. Instants are nanoseconds since the
// limiter's creation. Only model tests use it.
type naive struct {
	now        int64
	acct       naiveAccount
	limit      int
	queueLimit int
	order      core.QueueOrder
	manual     bool
	timed      bool // a rate limiter
	closed     bool

	queue  []*naiveWaiter // in order of arrival
	probes []*naiveWaiter
	shares naiveShares // under FairShare

	whole             int64 // since when nothing is taken, if nothing is
	ids               int
	granted, rejected uint64
}

// naiveAccount knows what is taken and when it comes back.
type naiveAccount interface {
	taken() int
	take(now int64, id, n int)
	most(id, n int, at int64) int   // what may be given back, of a grant of n at an instant
	give(id, n, left int, at int64) // gives n back of a grant, which has left then
	giveAny(n int)                  // gives n back, of whichever grants
	next() (int64, bool)            // the instant at which permits come back next
	pass(now int64) bool            // what is due by now comes back
	reset(now int64)                // everything is as new
	clone() naiveAccount
}

type naiveWaiter struct {
	n        int
	flow     core.Flow
	deadline int64 // naiveNever: none
	answer   *answer
}

// answer is a decision, as it can be seen from outside.
type answer struct {
	at        int64
	err       error // nil: granted
	reason    string
	n         int
	id        int // of the taking
	limit     int
	remaining int   // -1: not compared
	reset     int64 // -1: none
	retry     int64 // 0: none
}

const naiveNever = math.MaxInt64

func (m *naive) available() int { return max(m.limit-m.acct.taken(), 0) }

func (m *naive) waiting() (permits int) {
	for _, w := range m.queue {
		permits += w.n
	}
	return permits
}

func (m *naive) clone() *naive {
	c := *m
	c.acct = m.acct.clone()
	c.queue, c.probes = nil, nil
	for _, w := range m.queue {
		c.queue = append(c.queue, &naiveWaiter{n: w.n, deadline: naiveNever})
	}
	for range m.probes {
		c.probes = append(c.probes, &naiveWaiter{deadline: naiveNever})
	}
	return &c
}

// change does something to the account and notes when it becomes whole.
func (m *naive) change(f func()) {
	before := m.acct.taken()
	f()
	if before > 0 && m.acct.taken() == 0 {
		m.whole = m.now
	}
}

// decide is the answer to a request of n permits at this instant.
func (m *naive) decide(n int, err error, reason string) *answer {
	a := &answer{at: m.now, err: err, reason: reason, n: n, limit: m.limit, remaining: -1, reset: -1}
	if err == nil || reason != "" {
		a.remaining = m.available()
		a.reset = m.resetAfter()
	}
	return a
}

func (m *naive) resetAfter() int64 {
	if !m.timed || m.manual {
		return -1
	}
	c := m.acct.clone()
	t := m.now
	for c.taken() > 0 {
		t, _ = c.next()
		c.pass(t)
	}
	return t - m.now
}

func (m *naive) grant(n int) *answer {
	m.ids++
	id := m.ids
	if n > 0 {
		m.acct.take(m.now, id, n)
	}
	m.granted++
	a := m.decide(n, nil, "")
	a.id = id
	return a
}

func (m *naive) reject(n int, reason string) *answer {
	m.rejected++
	a := m.decide(n, core.ErrRejected, reason)
	if m.timed && !m.manual {
		a.retry = max(m.due(n, nil)-m.now, 1)
	}
	return a
}

// due plays the future until a request of n permits, made now, is served. Under FairShare it is when
// the permits have come that it lacks, and those that the waiters of its flow lack; flow may be nil.
func (m *naive) due(n int, flow *core.Flow) int64 {
	c := m.clone()
	if m.order == core.FairShare {
		return c.come(max(n, 1) + m.ahead(n, flow))
	}
	w := &naiveWaiter{n: n, deadline: naiveNever}
	switch {
	case n == 0:
		c.probes = append(c.probes, w)
	case m.order == core.NewestFirst:
		c.queue = []*naiveWaiter{w}
	default:
		c.queue = append(c.queue, w)
	}
	c.serve()
	for w.answer == nil {
		t, _ := c.acct.next()
		c.now = t
		c.acct.pass(t)
		c.serve()
	}
	return c.now
}

// refuse is the order of checks, the context's aside; nil: none applies.
func (m *naive) refuse(n int) *answer {
	switch {
	case n < 0:
		return m.decide(n, core.ErrNegativePermits, "")
	case m.closed:
		return m.decide(n, core.ErrClosed, "")
	case n > m.limit:
		return m.decide(n, core.ErrPermitsExceedLimit, "")
	}
	return nil
}

// now grants what can be had without waiting; nil: nothing.
func (m *naive) atOnce(n int) *answer {
	if n == 0 {
		if m.available() >= 1 {
			return m.grant(0)
		}
		return nil
	}
	if n > m.available() || m.order != core.NewestFirst && len(m.queue) > 0 {
		return nil
	}
	return m.grant(n)
}

func (m *naive) tryAcquire(n int) *answer {
	if a := m.refuse(n); a != nil {
		return a
	}
	if a := m.atOnce(n); a != nil {
		return a
	}
	return m.reject(n, "permits exhausted")
}

func (m *naive) acquire(n int, flow core.Flow, deadline int64) *naiveWaiter {
	w := &naiveWaiter{n: n, flow: flow, deadline: deadline}
	if w.answer = m.refuse(n); w.answer != nil {
		return w
	}
	if w.answer = m.atOnce(n); w.answer != nil {
		return w
	}
	full := m.waiting()+n > m.queueLimit
	if m.order == core.NewestFirst {
		full = n > m.queueLimit
	}
	var evicted []*naiveWaiter
	if m.order == core.FairShare && n > 0 && n <= m.queueLimit {
		evicted, full = m.evictions(w)
	}
	if n > 0 && full {
		w.answer = m.rejectIn(w, "queue limit reached")
		return w
	}
	if m.timed && !m.manual && deadline != naiveNever && m.due(n, &flow) > deadline {
		w.answer = m.rejectIn(w, "deadline too soon")
		return w
	}
	for _, old := range evicted {
		m.leave(old)
	}
	for _, old := range evicted {
		old.answer = m.rejectIn(old, "evicted by a newer request")
	}
	if n == 0 {
		m.probes = append(m.probes, w)
		return w
	}
	if m.order != core.FairShare {
		w.flow = core.Flow{}
	}
	for m.waiting()+n > m.queueLimit {
		old := m.queue[0]
		m.queue = m.queue[1:]
		old.answer = m.reject(old.n, "evicted by a newer request")
	}
	m.arrive(w)
	if m.order == core.FairShare {
		m.serve() // it may be next
	}
	return w
}

// serve grants to those that fit, in order, and then to the probes.
func (m *naive) serve() {
	for len(m.queue) > 0 {
		w := m.queue[0]
		switch m.order {
		case core.NewestFirst:
			w = m.queue[len(m.queue)-1]
		case core.FairShare:
			w = m.fairest()
		}
		if w.n > m.available() {
			break
		}
		m.charge(w)
		m.leave(w)
		w.answer = m.grant(w.n)
	}
	if m.available() >= 1 {
		for _, w := range m.probes {
			w.answer = m.grant(0)
		}
		m.probes = nil
	}
}

func (m *naive) drop(w *naiveWaiter, err error) {
	m.leave(w)
	m.probes = slices.DeleteFunc(m.probes, func(o *naiveWaiter) bool { return o == w })
	w.answer = m.decide(w.n, err, "")
	w.answer.limit = 0
	m.serve()
}

func (m *naive) cancel(w *naiveWaiter) {
	if w.answer == nil {
		m.drop(w, context.Canceled)
	}
}

// give gives n permits back of a grant, which has left then.
func (m *naive) give(id, n, left int, at int64) {
	m.change(func() { m.acct.give(id, n, left, at) })
	m.serve()
}

// giveAny gives at most n permits back.
func (m *naive) giveAny(n int) {
	m.change(func() { m.acct.giveAny(min(n, m.acct.taken())) })
	m.serve()
}

func (m *naive) close() {
	m.closed = true
	for _, w := range slices.Concat(m.queue, m.probes) {
		w.answer = m.decide(w.n, core.ErrClosed, "")
	}
	m.queue, m.probes, m.shares = nil, nil, nil
}

func (m *naive) reset() {
	m.acct.reset(m.now)
	m.whole = m.now
	m.serve()
}

func (m *naive) tryReplenish() bool {
	if !m.manual || m.closed {
		return false
	}
	back := false
	m.change(func() { back = m.acct.pass(m.now) })
	m.serve()
	return back
}

// update puts new limits in force; the account has its own already.
func (m *naive) update(limit, queueLimit int, order core.QueueOrder, manual bool) {
	if m.manual && !manual {
		m.change(func() { m.acct.pass(m.now) })
	}
	m.reorder(order)
	m.limit, m.queueLimit, m.order, m.manual = limit, queueLimit, order, manual
	for _, w := range slices.Clone(m.queue) {
		if w.n > limit {
			m.leave(w)
			w.answer = m.decide(w.n, core.ErrPermitsExceedLimit, "")
		}
	}
	m.serve()
}

// advance lets time pass until t, from event to event.
func (m *naive) advance(t int64) {
	for {
		at, what := t, func() {}
		if m.timed && !m.manual {
			if next, ok := m.acct.next(); ok && next <= at {
				at = next
				what = func() {
					m.change(func() { m.acct.pass(next) })
					m.serve()
				}
			}
		}
		for _, w := range slices.Concat(m.queue, m.probes) {
			if w.deadline < at || w.deadline == at && at == t && w.deadline != naiveNever {
				at = w.deadline
				what = func() { m.drop(w, context.DeadlineExceeded) }
			}
		}
		m.now = at
		what()
		if at == t && !m.pending() {
			return
		}
	}
}

// pending reports whether something is still to happen at this instant.
func (m *naive) pending() bool {
	if m.timed && !m.manual {
		if next, ok := m.acct.next(); ok && next <= m.now {
			return true
		}
	}
	for _, w := range slices.Concat(m.queue, m.probes) {
		if w.deadline <= m.now {
			return true
		}
	}
	return false
}

func (m *naive) statistics() core.Statistics {
	return core.Statistics{
		Limit: m.limit, Available: m.available(), Queued: m.waiting(), Granted: m.granted, Rejected: m.rejected,
	}
}

func (m *naive) idleFor() (time.Duration, bool) {
	if m.acct.taken() > 0 {
		return 0, false
	}
	return time.Duration(m.now - m.whole), true
}
