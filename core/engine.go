package core

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// engine is what the four limiters share: the grants without a mutex, the queue, its
// timer, closing and updating. The account under it is what they differ in.
//
// The mutex guards the account, the queue and the shutting of the cell's word. Whoever
// holds it has taken the word's credit back into the account (lock); when he lets go and
// nobody waits, he opens the word again (unlock). So there is one truth at a time, and
// while somebody waits every grant is decided under the mutex.
//
// The mutex is a leaf: no other lock is taken, nobody else's code is called and nothing
// blocks while it is held.
type engine struct {
	cell     atomic.Pointer[cell]
	until    atomic.Int64 // rate limiters: the word's credit may be taken before this instant
	mark     atomic.Int64 // rate limiters: see account.open
	rejected atomic.Uint64
	adjust   atomic.Int64 // Granted less the cell's grants: see cell.grants

	base     time.Time // instants count from here
	acct     account
	mu       sync.Mutex
	queue    *queue // nil: nobody waits
	refunded *refundLog
	held     bool // this is a concurrency limiter; its account is *permits
	open     bool // the word is open
	closed   bool
}

// start makes the engine ready, with the terms of c.
func (e *engine) start(base time.Time, t terms, a account) {
	e.base, e.acct = base, a
	_, e.held = a.(*permits)
	e.cell.Store(newCell(e, 0, t))
	e.mu.Lock()
	e.unlock(0)
}

// clock returns the instant now, by one read of the monotonic clock.
func (e *engine) clock() int64 { return int64(time.Since(e.base)) }

// timed reports whether permits come back by themselves.
func (e *engine) timed() bool { return !e.held && !e.cell.Load().manual }

// lock takes the mutex, shuts the word, applies what is due by now and serves whom that
// allows to go on: a late timer delays nobody behind a newcomer.
func (e *engine) lock() (now int64) {
	e.mu.Lock()
	c := e.cell.Load()
	if e.open {
		e.open = false
		for {
			w := c.word.Load()
			if c.word.CompareAndSwap(w, w&^creditMask|shut) {
				e.acct.settle(int(w & creditMask))
				break
			}
		}
	}
	if e.held {
		return 0
	}
	now = e.clock()
	if !c.manual && e.acct.advance(now) {
		e.serve(now)
	}
	return now
}

// unlock serves those who can go on, sets the timer for the next, or opens the word if
// nobody waits, and lets go of the mutex.
func (e *engine) unlock(now int64) {
	if e.queue != nil {
		e.serve(now)
	}
	if e.queue != nil {
		e.setAlarm(now)
	} else if !e.closed {
		e.openWord(now)
	}
	e.mu.Unlock()
}

// openWord puts what is available into the cell's word. An amount that the word can't
// hold stays with the account, and grants with the mutex.
func (e *engine) openWord(now int64) {
	credit, until, mark := e.acct.open(now)
	if credit < 0 || credit > maxCredit {
		return
	}
	c := e.roomyCell()
	w := c.word.Load()
	if !e.held {
		e.until.Store(until)
		e.mark.Store(mark)
		w += generationOne
		e.adjust.Add(-1)
	}
	e.open = true
	c.word.Store(w&^shut | uint64(credit))
}

// roomyCell returns the current cell, after making a new one if the generations of the
// old are used up.
func (e *engine) roomyCell() *cell {
	c := e.cell.Load()
	if c.word.Load()&generationMask == generationMask {
		c = newCell(e, c.grants(), c.terms)
		e.cell.Store(c)
	}
	return c
}

// serve grants to those at the head of the queue as long as they fit, then to the probes
// if a permit is left. The queue is gone with its last waiter.
func (e *engine) serve(now int64) {
	q := e.queue
	if q == nil {
		return
	}
	order := e.cell.Load().order
	for w := q.head(order); w != nil && w.n <= e.acct.available(); w = q.head(order) {
		if q.plan != nil && !e.acct.kept(w.due, now) {
			q.plan = nil
		}
		q.decide(w, e.grant(now, w.n, true))
	}
	for q.probes != nil && e.acct.available() > 0 {
		q.decide(q.probes, e.grant(now, 0, true))
	}
	e.dropQueue()
}

// dropQueue lets go of an empty queue and of its timer.
func (e *engine) dropQueue() {
	if q := e.queue; q != nil && q.empty() {
		if q.timer != nil {
			q.timer.Stop()
		}
		e.queue = nil
	}
}

// setAlarm sets the queue's timer to the instant at which somebody can be served.
func (e *engine) setAlarm(now int64) {
	if !e.timed() {
		return
	}
	q, due := e.queue, int64(never)
	if w := q.head(e.cell.Load().order); w != nil {
		due = e.acct.ready(now, w.n)
	}
	if q.probes != nil {
		due = min(due, e.acct.ready(now, 1))
	}
	switch {
	case due == q.alarm:
	case due == never:
		q.timer.Stop() // there is one: alarm was another instant
	case q.timer == nil:
		q.timer = time.AfterFunc(time.Duration(due-now), e.ring)
	default:
		q.timer.Reset(time.Duration(due - now))
	}
	q.alarm = due
}

// ring is what the timer does. One that comes late, or for a queue that is gone, finds
// nothing to do.
func (e *engine) ring() {
	now := e.lock()
	if e.queue != nil {
		e.queue.alarm = never
	}
	e.unlock(now)
}

// grant takes n permits, which are available, and returns their lease.
func (e *engine) grant(now int64, n int, served bool) Lease {
	c := e.cell.Load()
	if n == 0 {
		e.adjust.Add(1)
		return e.lease(c, now, 0, uint64(free))
	}
	e.acct.take(now, n, served)
	c = e.roomyCell()
	w := c.word.Load()
	switch {
	case !e.held:
		w += generationOne
		c.word.Store(w)
		return e.lease(c, now, n, generationOf(w)<<outcomeBits|uint64(spent))
	case w&busy == 0:
		w += generationOne | busy
		c.word.Store(w)
		return e.lease(c, now, n, generationOf(w)<<outcomeBits|uint64(heldHot))
	}
	e.adjust.Add(1)
	l := e.lease(c, now, n, 0)
	l.drawTicket()
	return l
}

// lease returns a lease with the metadata of a decision just made. bits is its outcome
// and generation.
func (e *engine) lease(c *cell, now int64, n int, bits uint64) Lease {
	l := Lease{c: c, bits: bits, n: n, left: e.acct.available(), at: now, reset: -1}
	if e.timed() {
		l.reset = e.acct.whole(now) - now
	}
	return l
}

// refuse returns a lease that says why not.
func (e *engine) refuse(c *cell, n int, o outcome) Lease {
	return Lease{c: c, bits: uint64(o), n: n, left: -1, reset: -1}
}

// reject counts and returns a rejection of n permits that could be served at due.
func (e *engine) reject(now int64, n int, o outcome, due int64) Lease {
	e.rejected.Add(1)
	l := e.lease(e.cell.Load(), now, n, uint64(o))
	l.at = 0
	if e.timed() {
		l.at = max(due-now, 1)
	}
	return l
}

// Available returns the permits that could be taken now.
func (e *engine) Available() int { return e.Statistics().Available }

// Statistics returns the limiter's counts. They go on after Close.
func (e *engine) Statistics() Statistics {
	if e.cell.Load() == nil {
		return Statistics{}
	}
	now := e.lock()
	c := e.cell.Load()
	s := Statistics{
		Limit:     c.limit,
		Available: e.acct.available(),
		Granted:   c.grants() + uint64(e.adjust.Load()),
		Rejected:  e.rejected.Load(),
	}
	if e.queue != nil {
		s.Queued = e.queue.permits
	}
	e.unlock(now)
	return s
}

// IdleFor returns how long all permits have been available, and whether they are.
func (e *engine) IdleFor() (time.Duration, bool) {
	if e.cell.Load() == nil {
		return 0, false
	}
	now := e.lock()
	if e.held {
		now = e.clock()
	}
	at, idle := e.acct.since(now)
	e.unlock(now)
	if !idle {
		return 0, false
	}
	return time.Duration(max(now-at, 0)), true
}

// Close ends the wait of all who wait with [ErrClosed], and refuses from then on. Leases
// still release, Statistics still answer. It returns nil, however often it is called.
func (e *engine) Close() error {
	if e.cell.Load() == nil {
		return nil
	}
	now := e.lock()
	e.closed = true
	if q := e.queue; q != nil {
		c := e.cell.Load()
		for q.oldest != nil {
			q.decide(q.oldest, e.refuse(c, q.oldest.n, closed))
		}
		for q.probes != nil {
			q.decide(q.probes, e.refuse(c, 0, closed))
		}
		e.dropQueue()
	}
	e.unlock(now)
	return nil
}

// Refund undoes a grant of this limiter that was not used, at most once per lease.
func (e *engine) Refund(l Lease) {
	if l.c == nil || l.c.e != e {
		return
	}
	if l.outcome() != spent {
		l.Release()
		return
	}
	now := e.lock()
	if e.refunded == nil {
		e.refunded = new(refundLog)
	}
	if e.refunded.add(l.c.first + l.generation()) {
		e.giveLocked(now, l)
	}
	e.unlock(now)
}

// giveLocked undoes the taking of a lease.
func (e *engine) giveLocked(now int64, l Lease) {
	e.acct.give(now, l.at, l.n)
	if e.queue != nil {
		e.queue.plan = nil
	}
}

// update puts new terms in force. apply changes the account.
func (e *engine) update(t terms, apply func(now int64)) error {
	if e.cell.Load() == nil {
		return ErrClosed
	}
	now := e.lock()
	defer func() { e.unlock(now) }()
	if e.closed {
		return ErrClosed
	}
	c := newCell(e, e.cell.Load().grants(), t)
	if !c.manual {
		e.acct.advance(now) // terms that were manual till now have left it undone
	}
	apply(now)
	e.cell.Store(c)
	if q := e.queue; q != nil {
		q.plan = nil
		for w := q.oldest; w != nil; {
			next := w.next
			if w.n > c.limit {
				q.decide(w, e.refuse(c, w.n, exceedsAll))
			}
			w = next
		}
		e.dropQueue()
	}
	return nil
}

// describe returns a line for a person: what kind of limiter this is, and how it stands.
func (e *engine) describe(kind string) string {
	c := e.cell.Load()
	if c == nil {
		return kind + " (not made by its constructor)"
	}
	if c.name != "" {
		kind += fmt.Sprintf(" %q", c.name)
	}
	return kind + ": " + e.Statistics().String()
}
