package core

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/direct"
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
	rejected atomic.Uint64
	adjust   atomic.Int64 // Granted less the cell's grants: see cell.grants

	base     time.Time // instants count from here
	acct     account
	mu       sync.Mutex
	queue    *queue  // nil: nobody waits
	woken    *waiter // those decided since lock, the last first; unlock tells them
	refunded *refundLog
	held     bool // this is a concurrency limiter; its account is *permits
	open     bool // the word is open
	closed   bool
	watch    atomic.Int32 // see permits.wholeAt
}

// start makes the engine ready, with the terms of c.
func (e *engine) start(base time.Time, t terms, a account) {
	e.base, e.acct = base, a
	c := newCell(e, 0, t)
	e.cell.Store(c)
	e.mu.Lock()
	a.bind(0, &c.terms)
	e.unlock(0)
}

// clock returns the instant now, by one read of the monotonic clock.
func (e *engine) clock() int64 { return int64(time.Since(e.base)) }

// terms returns the terms in force; none, if the limiter was not made by its constructor.
func (e *engine) terms() terms {
	if c := e.cell.Load(); c != nil {
		return c.terms
	}
	return terms{}
}

// timed reports whether permits come back by themselves.
func (e *engine) timed() bool { return !e.held && !e.cell.Load().manual }

// lock takes the mutex, shuts the word, applies what is due by now and serves whom that
// allows to go on: a late timer delays nobody behind a newcomer.
func (e *engine) lock() (now int64) {
	e.mu.Lock()
	c := e.cell.Load()
	wasOpen, state := e.open, uint64(0)
	if wasOpen {
		e.open = false
		state = c.shut()
	}
	// The clock is read when the word is shut: no grant that got in was later.
	if !e.held {
		now = e.clock()
	}
	if wasOpen {
		e.acct.settle(now, c, state)
	}
	if !e.held && !c.manual && e.acct.advance(now) {
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
	woken := e.woken
	e.woken = nil
	e.mu.Unlock()
	if woken != nil {
		woken.wake()
	}
}

// decide ends the wait of w with a lease.
func (e *engine) decide(w *waiter, l Lease) {
	e.queue.remove(w)
	w.lease = l
	w.next, e.woken = e.woken, w
}

// openWord puts the account's state into the cell's word, if it can hold it; if not, all
// goes on with the mutex.
func (e *engine) openWord(now int64) {
	c := e.roomyCell(now)
	state, until, ok := e.acct.open(now, c)
	if !ok {
		return
	}
	w := c.word.Load() &^ shut
	if !e.held && c.fullBits <= 0 {
		// The credit is good for a time only: see draw.
		e.until.Store(until)
		e.adjust.Add(-1)
		w += generationOne
	}
	e.open = true
	c.word.Store(w | state)
}

// roomyCell returns the current cell, or a new one in its place if the old one's
// generations are used up or its origin is too long ago.
func (e *engine) roomyCell(now int64) *cell {
	c := e.cell.Load()
	from, fits := e.acct.origin(now, c)
	if fits && !c.used(c.word.Load()) {
		return c
	}
	t := c.terms
	t.from = from
	force := c.force.Load()
	c = newCell(e, c.grants(), t)
	c.force.Store(force)
	e.cell.Store(c)
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
		e.decide(w, e.grant(now, w.n, true))
	}
	for q.probes != nil && e.acct.available() > 0 {
		e.decide(q.probes, e.grant(now, 0, true))
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
	if n == 0 {
		e.adjust.Add(1)
		return newGrant(e.cell.Load(), free, 0, 0, e.acct.available(), e.reset(now))
	}
	e.acct.take(now, n, served)
	c := e.roomyCell(now)
	w, left := c.word.Load(), e.acct.available()
	if e.held && w&busy != 0 {
		t, generation := e.acct.(*permits).draw(c)
		return newGrant(t, heldTicket, generation, n, left, -1)
	}
	w += 1 << c.stateBits()
	o, v := spent, e.reset(now)
	switch {
	case e.held:
		o, w = heldHot, w|busy
	case c.window():
		o, v = spentWindow, now
	}
	c.word.Store(w)
	return newGrant(c, o, c.generationOf(w), n, left, v)
}

// reset returns the time until all permits are back; below 0 if that is not known.
func (e *engine) reset(now int64) int64 {
	if !e.timed() {
		return -1
	}
	return e.acct.whole(now) - now
}

// refuse returns a lease that says why not, for good.
func (e *engine) refuse(o outcome) Lease { return Lease{c: e.cell.Load(), bits: uint64(o)} }

// exceeds returns the refusal of n permits, which are more than the limit.
func (e *engine) exceeds(n int) Lease {
	l := e.refuse(exceedsAll)
	l.u = int64(n)
	return l
}

// reject counts and returns a rejection of n permits that could be served at due.
func (e *engine) reject(now int64, n int, o outcome, due int64) Lease {
	e.rejected.Add(1)
	retry := int64(0)
	if e.timed() {
		retry = max(due-now, 1)
	}
	return newRejection(e.cell.Load(), o, n, e.acct.available(), retry, e.reset(now))
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
		Limit:     int(c.force.Load()),
		Available: e.acct.available(),
		Granted:   c.grants() + uint64(e.adjust.Load()),
		Rejected:  e.rejected.Load(),
	}
	if e.held {
		s.Granted += e.acct.(*permits).drawn.Load()
	}
	if e.queue != nil {
		s.Queued = e.queue.permits
	}
	e.unlock(now)
	return s
}

// IdleFor returns how long all permits have been available, and whether they are.
//
// A concurrency limiter keeps the time of the releases that leave all permits available
// for the first 16,384 of them, and for 65,536 after each call of IdleFor; a call after
// more than that counts from itself.
func (e *engine) IdleFor() (time.Duration, bool) {
	if e.cell.Load() == nil {
		return 0, false
	}
	now := e.lock()
	if e.held {
		now = e.clock()
		e.watch.Store(watchGrants)
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
		for q.oldest != nil {
			e.decide(q.oldest, e.refuse(closed))
		}
		for q.probes != nil {
			e.decide(q.probes, e.refuse(closed))
		}
		e.dropQueue()
	}
	e.unlock(now)
	return nil
}

// Refund undoes a grant of this limiter that was not used, at most once per lease. It remembers
// which leases were refunded: of some 4,096 groups of 64 that were granted together, then it
// forgets the older half and ignores refunds of leases as old as those.
func (e *engine) Refund(l Lease) {
	if l.c == nil || l.c.e != e {
		return
	}
	if o := l.outcome(); o < spent || o > spentBucket {
		l.giveUp(direct.Refunded)
		return
	}
	now := e.lock()
	if e.refunded == nil {
		e.refunded = new(refundLog)
	}
	if e.refunded.add(l.home().first + l.generation()) {
		e.giveLocked(now, l)
	}
	e.unlock(now)
}

// giveLocked undoes the taking of a rate limiter's lease.
func (e *engine) giveLocked(now int64, l Lease) {
	e.acct.give(now, l.v, l.permits()) // v: the instant, if it is a window's
	if e.queue != nil {
		e.queue.plan = nil
	}
}

// update puts new terms in force.
func (e *engine) update(t terms) error {
	if e.cell.Load() == nil {
		return ErrClosed
	}
	now := e.lock()
	defer func() { e.unlock(now) }()
	if e.closed {
		return ErrClosed
	}
	if !t.manual {
		e.acct.advance(now) // terms that were manual till now have left it undone
	}
	if !t.window() {
		t.from = now
	}
	if e.cell.Load().watched() {
		t.spareBits = watchedWord
	}
	c := newCell(e, e.cell.Load().grants(), t)
	e.acct.bind(now, &c.terms)
	e.cell.Store(c)
	if q := e.queue; q != nil {
		q.plan = nil
		for w := q.oldest; w != nil; {
			next := w.next
			if w.n > c.limit {
				e.decide(w, e.exceeds(w.n))
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
