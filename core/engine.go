package core

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// engine is what the four limiters share: the mutex, the clock, the timer and those that
// wait around a machine, which decides.
//
// The mutex guards the machine, the waiting room and the shutting of the cell's word.
// Whoever holds it has taken the word's state back into the machine (lock); letting go, if
// nobody waits, it opens the word again (unlock). So there is one truth at a time, and
// while somebody waits every grant is decided under the mutex.
//
// The mutex is a leaf: no other lock is taken, nobody else's code is called and nothing
// blocks while it is held.
type engine struct {
	cell  atomic.Pointer[cell]
	last  atomic.Int64 // a rate limiter's: the latest instant at which it is known to have been used
	aside atomic.Int64 // available permits for which there is no room in the open word

	mu     sync.Mutex
	m      machine.Machine[parked]
	room   *room // nil: nobody waits
	open   bool  // the word is open
	closed bool
	watch  atomic.Int32 // see permits.wholeAt

	// Apart from the mutex, as those that wake count their grants without it.
	granted  atomic.Uint64 // leases granted that the cell's word does not count: see Statistics
	rejected atomic.Uint64
}

// start makes the engine ready, with the terms t.
func (e *engine) start(t *terms, a machine.Account) {
	c := newCell(e, 0, t)
	e.cell.Store(c)
	e.mu.Lock()
	e.m.Start(a, &c.Terms, 0)
	e.unlock(0)
}

// terms returns the terms in force; none, if the limiter was not made by its constructor.
func (e *engine) terms() terms {
	if c := e.cell.Load(); c != nil {
		return *c.terms
	}
	return noTerms
}

// lock takes the mutex, shuts the word, applies what is due by now and serves those whom
// that allows to go on: a late timer delays nobody behind a newcomer. A concurrency limiter
// does not know what time it is.
func (e *engine) lock() (now int64) {
	e.mu.Lock()
	c := e.cell.Load()
	wasOpen, word := e.open, uint64(0)
	if wasOpen {
		e.open = false
		word = c.shut()
	}
	if c.Kind == machine.Concurrency {
		if wasOpen {
			e.takeBack(0, c, word)
		}
		return 0
	}
	// The clock is read when the word is shut: no grant that got in was later.
	now = e.steady(c)
	if wasOpen {
		e.takeBack(now, c, word)
	}
	e.m.Advance(now)
	e.m.Forget(e.number())
	return now
}

// aYear without being used makes a limiter look again what clock it has: see newCell.
const aYear = int64(365 * 24 * time.Hour)

// steady returns the instant now. A clock that went back stands still, and so does one that
// leaps by decades out of a bubble: the cell gets another base.
func (e *engine) steady(c *cell) int64 {
	now, last := c.clock(), e.last.Load()
	if now < last || now-last > aYear {
		t := *c.terms
		if now < last || (t.Mode&recorded != 0) != bubbled() {
			t.base = time.Now().Add(-time.Duration(last))
			now = last
		}
		e.replace(c, &t)
	}
	e.last.Store(now)
	return now
}

// replace puts a new cell with almost the same terms in the place of c.
func (e *engine) replace(c *cell, t *terms) *cell {
	fresh := newCell(e, c.number(c.word.Load()), t)
	fresh.bound.Store(c.bound.Load())
	e.cell.Store(fresh)
	e.m.Rebind(&fresh.Terms)
	return fresh
}

// unlock sets the timer for those that wait, or opens the word if nobody does, lets go of
// the mutex and wakes those whose wait has ended.
func (e *engine) unlock(now int64) {
	woken := e.m.Decided()
	for w := woken; w != nil; w = w.Next() {
		e.conclude(w)
	}
	if e.m.Empty() {
		if e.room != nil {
			e.room.leave()
			e.room = nil
		}
		if !e.closed {
			e.openWord(now)
		}
	} else if e.m.Terms().Kind != machine.Concurrency {
		e.setAlarm(now)
	}
	e.mu.Unlock()
	if woken != nil {
		wake(woken)
	}
}

// conclude makes the lease of one whose wait has ended.
func (e *engine) conclude(w *waiter) {
	a := w.Answer
	switch a.Outcome {
	case machine.Granted:
		if w.Value.plain {
			break
		}
		w.Value.lease = e.grant(a, w.N, true)
	case machine.ExceedsLimit:
		w.Value.lease = e.exceeds(w.N)
	case machine.Ended:
		w.Value.lease = e.refuse(closed)
	default:
		w.Value.lease = e.reject(a, w.N)
	}
}

// takeBack puts what an open word had back into the account; now is the instant at which
// it was shut.
func (e *engine) takeBack(now int64, c *cell, word uint64) {
	switch a := e.m.Account().(type) {
	case *permits:
		a.SetFree(int(e.aside.Load()) + int(word&heldMask))
		e.granted.Add(word & countMask / countOne)
		if word&busy != 0 && word&countMask == countMask {
			// One lease has been hot while very many came and went with tickets, as far as can
			// be told. It keeps this cell, and the next is hot in another.
			e.replace(c, c.terms)
		}
	case *machine.Bucket:
		if c.StateBits == 0 {
			l := e.credited(c, word)
			a.SetLevel(&c.Terms, now, machine.Level{Full: l.full, Spare: l.spare})
			break
		}
		word &= 1<<c.stateBits() - 1
		l := c.unpack(word, now-c.From)
		if l.full == now-c.From {
			l = level{full: int64(word >> (c.SpareBits & 63))}
		}
		a.SetLevel(&c.Terms, now, machine.Level{Full: l.full + c.From, Spare: l.spare})
	case *machine.Segments:
		lent := e.m.Available() - int(e.aside.Load())
		a.TakeIn(c.Segment(c.bound.Load()-1), lent-int(word&windowMask))
	}
}

// openWord puts the account's state into the cell's word, or as much of it as there is
// room for; if there is none, all goes on with the mutex.
func (e *engine) openWord(now int64) {
	c := e.roomyCell(now)
	w := c.word.Load() &^ shut
	switch a := e.m.Account().(type) {
	case *permits:
		free := a.Free()
		if free < 0 {
			return
		}
		lent := min(free, maxHeld)
		e.aside.Store(int64(free - lent))
		w |= uint64(lent)
	case *machine.Bucket:
		l := a.Level(&c.Terms)
		if c.StateBits > 0 {
			w |= c.levelWord(level{l.Full - c.From, l.Spare})
			break
		}
		// What is available is a credit that is good until the bucket is full, at the
		// soonest: as long as there is room for all that comes, it does not matter whether
		// tokens are taken before or after. aside is the spare less what is lent.
		lent := int(min(int64(e.m.Available()), maxWindow, c.lendable(l.Full)))
		if l.Full <= now || l.Full == machine.Never || lent == 0 || c.Manual() || uint64(l.Full-c.From)>>(63-c.SpareBits) != 0 {
			return
		}
		c.bound.Store(l.Full)
		e.aside.Store(int64(l.Spare - lent))
		e.count(-openingTakes, true)
		w = w + oneOpening | uint64(lent)
	case *machine.Segments:
		// All that is available counts in this segment, until it ends.
		free := e.m.Available()
		if free == 0 {
			return
		}
		lent := int(min(int64(free), maxWindow))
		e.aside.Store(int64(free - lent))
		c.bound.Store(c.Begin(c.Segment(now) + 1))
		e.count(-openingTakes, true)
		w = w + oneOpening | uint64(lent)
	}
	e.open = true
	c.word.Store(w)
}

// roomyCell returns the current cell, or a new one in its place if the old one's
// generations are used up or, if it is a bucket's, it counts from too long ago.
func (e *engine) roomyCell(now int64) *cell {
	c := e.cell.Load()
	from := c.From
	if c.Kind == machine.TokenBucket {
		// What the word has to tell next is about now, or since when the bucket is full.
		about, room := now, 63-c.SpareBits
		if c.StateBits > 0 {
			room = c.fullBits() - 1
			if since, full := e.m.Idle(); full {
				about = since
			}
		}
		if about < from || uint64(about-from)>>room != 0 {
			from = about
		}
	}
	if from == c.From && !c.used(c.word.Load()) {
		return c
	}
	t := *c.terms
	t.From = from
	return e.replace(c, &t)
}

// grant makes the lease of permits that the machine has granted, now. A grant to one that
// waited is counted when it is certain: see await.
func (e *engine) grant(a machine.Answer, n int, waited bool) Lease {
	c, left := e.cell.Load(), int64(a.Left)
	if c.Kind == machine.Concurrency && waited && n > 0 {
		t, generation := e.held().drawFor(e.room, c)
		return newGrant(t, heldTicket, generation, n, left, -1)
	}
	c = e.roomyCell(a.At)
	if n == 0 {
		e.count(1, !waited)
		return newGrant(c, free, 0, 0, left, e.reset(a))
	}
	w := c.word.Load()
	if c.Kind == machine.Concurrency {
		if w&busy != 0 {
			e.count(1, true)
			t, generation := e.held().draw(c)
			return newGrant(t, heldTicket, generation, n, left, -1)
		}
		w += generationOne + busy
		c.word.Store(w)
		return newGrant(c, heldHot, c.generationOf(w), n, left, -1)
	}
	e.count(-1, waited) // the generation counts it
	w += 1 << c.stateBits()
	c.word.Store(w)
	generation := c.generationOf(w)
	switch {
	case c.Kind == machine.Window:
		return newGrant(c, spentWindow, generation, n, left, a.At)
	case c.Manual():
		// A refund has to know what the bucket lacks when what is set aside is applied.
		due := e.m.Account().(*machine.Bucket).Due()
		l := newGrant(c, spentManual, generation, n, left+int64(due), a.Whole)
		if due > 0 || a.Whole == machine.Never {
			l = e.widened(l, numbers{permits: n, left: a.Left, reset: -1})
		}
		return l
	}
	at := a.At - c.From
	l := newGrant(c, spentBucket, generation, n, a.Whole-a.At, c.spentAt(at, c.spare(a.Left)))
	if a.Whole == machine.Never {
		// Too long for what the lease has to tell of it.
		l = e.widened(l, numbers{permits: n, left: a.Left, reset: a.Whole - a.At})
	}
	return l
}

// widened returns a bucket's lease with figures of its own, and the tick that a refund has
// to know where the level does not tell it.
func (e *engine) widened(l Lease, n numbers) Lease {
	n.tick = e.m.Account().(*machine.Bucket).Tick()
	l.c = newExtra(extra{of: l.home(), wide: &n}, l.c)
	return l
}

// count adds to what the cell's word does not count, if so.
func (e *engine) count(by int, so bool) {
	if so {
		e.granted.Add(uint64(by))
	}
}

// reset returns the time until all permits are back; below 0 if that is not known.
func (e *engine) reset(a machine.Answer) int64 {
	if !e.m.Terms().Timed() {
		return -1
	}
	return a.Whole - a.At
}

// refuse returns a lease that says why not, for good.
func (e *engine) refuse(o outcome) Lease { return Lease{c: e.cell.Load(), bits: uint64(o)} }

// exceeds returns the refusal of n permits, which are more than the limit.
func (e *engine) exceeds(n int) Lease {
	l := e.refuse(exceedsAll)
	l.u = int64(n)
	return l
}

var rejections = [...]outcome{
	machine.Exhausted: exhausted,
	machine.QueueFull: queueFull,
	machine.Evicted:   evicted,
	machine.TooSoon:   tooSoon,
}

// reject counts and returns the rejection of n permits.
func (e *engine) reject(a machine.Answer, n int) Lease {
	e.rejected.Add(1)
	retry := int64(0)
	if e.m.Terms().Timed() {
		retry = max(a.Due-a.At, 1)
	}
	return newRejection(e.cell.Load(), rejections[a.Outcome], n, a.Left, retry, e.reset(a))
}

// Close ends all waits with [ErrClosed], and refuses from then on. Leases
// still release, Statistics still answer. It returns nil, however often it is called.
func (e *engine) Close() error {
	if e.cell.Load() == nil {
		return nil
	}
	now := e.lock()
	e.closed = true
	e.m.Close(now)
	e.unlock(now)
	return nil
}

// update puts new terms in force.
func (e *engine) update(t *terms) error {
	if e.cell.Load() == nil {
		return ErrClosed
	}
	now := e.lock()
	defer func() { e.unlock(now) }()
	if e.closed {
		return ErrClosed
	}
	c := e.cell.Load()
	t.base = c.base
	t.origin(now)
	if c.hook != nil {
		t.label = &label{t.name, t.anchor, c.hook}
	}
	if c.Kind == machine.Concurrency {
		p := e.held()
		p.SetFree(p.Free() + c.Limit - int(c.bound.Load())) // what Resize has set aside
	}
	last := c.number(c.word.Load())
	c = newCell(e, last, t)
	e.cell.Store(c)
	e.m.Update(now, &c.Terms, last)
	return nil
}
