package core

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// engine is what the four limiters share: the mutex, the clock, the timer and the waiters
// around a machine, which decides.
//
// The mutex guards the machine, the room, and the shutting of the epoch's word. Function lock
// takes it and moves the word's state into the machine's account; unlock releases it and, if no
// request waits, moves the state back into the word. The state is always in exactly one of the
// two, and while a request waits every grant is decided under the mutex.
//
// The mutex is a leaf: while it is held no other lock is taken, no user's code is called and
// nothing blocks.
type engine struct {
	epoch atomic.Pointer[ticket] // nil: the limiter was not made by its constructor

	mu     sync.Mutex
	m      machine.Machine[parked]
	room   *room  // nil: no request waits
	last   int64  // a rate limiter's: the latest instant at which the mutex was taken; a concurrency limiter's: since when it has been seen idle
	grants uint32 // of a concurrency limiter's grants when it was seen idle, the low bits
	open   bool   // the epoch's word is open
	closed bool

	// Not guarded by the mutex: waiters count their grants when they wake.
	granted  atomic.Uint64 // grants that the epoch's word does not count, minus generations that were none: a window's opening, a settlement; modulo 2^64
	rejected atomic.Uint64
}

// account is what core adds to a machine's account: how its state lies in an open word.
type account interface {
	machine.Account

	// seen returns an instant that had come when the word was w.
	seen(t *ticket, w uint64) int64

	// takeBack puts what the open word w had back into the account; it was shut at now.
	takeBack(e *engine, t *ticket, w uint64, now int64)

	// lend returns what the word of t has when it is opened; false if there is no room for
	// it, so that all goes on with the mutex.
	lend(e *engine, t *ticket, now int64) (w uint64, ok bool)

	// grant makes the lease of n permits, at least 1, that the machine has granted.
	grant(e *engine, a machine.Answer, n int) Lease
}

func (e *engine) account() account { return e.m.Account().(account) }

// start makes the engine ready.
func (e *engine) start(t terms, a account) {
	k := newEpoch(e, t)
	e.epoch.Store(k)
	e.mu.Lock()
	e.m.Start(a, &k.Terms, 0)
	e.unlock(0)
}

// terms returns the terms in force; empty terms if the limiter was not made by its constructor.
func (e *engine) terms() terms {
	if t := e.epoch.Load(); t != nil {
		return *t.terms
	}
	return terms{label: &unlabelled}
}

// lock takes the mutex, shuts the word, applies what is due by now and serves the waiters that
// now fit, so that after a late timer a new request does not overtake a waiter. For a
// concurrency limiter it returns 0 and reads no clock.
func (e *engine) lock() (now int64) {
	e.mu.Lock()
	t, a, word := e.epoch.Load(), e.account(), uint64(0)
	wasOpen := e.open
	if wasOpen {
		e.open = false
		word = t.shut()
	}
	if t.Kind != machine.Concurrency {
		if wasOpen {
			e.last = max(e.last, a.seen(t, word))
		}
		// The clock is read when the word is shut: no grant was later.
		now = e.steady(t)
	}
	if wasOpen {
		a.takeBack(e, t, word, now)
	}
	e.m.Advance(now)
	return now
}

// aLeap is more than a clock leaps, except into a synctest bubble, where it is the year 2000, and
// out of one.
const aLeap = int64(20 * 365 * 24 * time.Hour)

// steady returns the instant now. If the clock went back, it returns the latest instant, and
// time continues from there. If the clock leapt out of a bubble, time has advanced by enough for
// everything to come back, and continues from there.
func (e *engine) steady(t *ticket) (now int64) {
	now, goOn := t.clock(), e.last
	leapt := now-e.last > aLeap && t.bubble != bubbled()
	if leapt {
		goOn += min(t.length(), now-e.last)
	}
	if leapt || now < e.last {
		k := *t.terms
		k.base, k.bubble = k.base+now-goOn, bubbled()
		now = goOn
		e.renew(k)
	}
	e.last = now
	return now
}

// unlock sets the timer if requests wait, or opens the word if none does, releases the mutex and
// wakes the waiters whose wait has ended.
func (e *engine) unlock(now int64) {
	woken := e.m.Decided()
	for w := woken; w != nil; w = w.Next() {
		w.Value.lease = e.conclude(w)
	}
	if e.m.Empty() {
		if e.room != nil {
			e.room.leave()
			e.room = nil
		}
		if !e.closed {
			if w, ok := e.account().lend(e, e.epochWithRoom(now), now); ok {
				e.open = true
				e.epoch.Load().word.Store(w)
			}
		}
	} else if e.m.Terms().Kind != machine.Concurrency {
		e.setAlarm(now)
	}
	e.mu.Unlock()
	if woken != nil {
		wake(woken)
	}
}

// renew replaces the epoch with one that has new terms and is shut.
func (e *engine) renew(t terms) *ticket {
	t.first = e.number()
	k := newEpoch(e, t)
	e.epoch.Store(k)
	e.m.Rebind(&k.Terms)
	return k
}

// number returns the number of the latest grant.
func (e *engine) number() uint64 {
	t := e.epoch.Load()
	return t.number(t.generation(t.word.Load()))
}

// epochWithRoom returns the current epoch, or a new one in its place if the old one's generations
// are used up or, if it is a bucket's, it counts from too long ago.
func (e *engine) epochWithRoom(now int64) *ticket {
	t := e.epoch.Load()
	from := t.From
	if t.Kind == machine.TokenBucket {
		from = bucketOrigin(t.terms, e.m.Account().(*bucketAccount), now)
	}
	if from == t.From && t.generation(t.word.Load()) < t.lastGeneration() {
		return t
	}
	k := *t.terms
	k.From = from
	return e.renew(k)
}

// conclude makes the lease of a waiter whose wait has ended. A grant is counted when it is
// certain: see await.
func (e *engine) conclude(w *waiter) Lease {
	switch w.Answer.Outcome {
	case machine.Granted:
		l := e.grant(w.Answer, w.N)
		e.granted.Add(^uint64(0))
		return l
	case machine.Ended:
		return e.refuse(closed)
	}
	return e.answered(w.Answer, w.N)
}

// answered returns the lease of an answer.
func (e *engine) answered(a machine.Answer, n int) Lease {
	switch a.Outcome {
	case machine.Granted:
		return e.grant(a, n)
	case machine.ExceedsLimit:
		l := e.refuse(exceeds)
		l.state = int64(n)
		return l
	}
	return e.reject(a, n)
}

// grant makes and counts the lease of permits that the machine has granted.
func (e *engine) grant(a machine.Answer, n int) Lease {
	if n > 0 {
		return e.account().grant(e, a, n)
	}
	e.granted.Add(1)
	e.grants++ // it leaves an idle limiter idle
	return grant(e.epoch.Load(), free, 0, 0, int64(a.Left), e.resetAfter(a))
}

// nextGeneration counts a grant in the shut word of the epoch, and returns its generation.
func (e *engine) nextGeneration(at int64) (t *ticket, generation uint64) {
	t = e.epochWithRoom(at)
	w := t.word.Load() + 1<<t.shift
	t.word.Store(w)
	generation = t.generation(w)
	return t, generation
}

// resetAfter returns the time until all permits are back; below 0 if that is not known.
func (e *engine) resetAfter(a machine.Answer) int64 {
	if !e.m.Terms().Timed() {
		return -1
	}
	return a.Whole - a.At
}

// refuse returns a lease with an outcome that is an error but not a rejection.
func (e *engine) refuse(o outcome) Lease { return Lease{t: e.epoch.Load(), bits: uint64(o)} }

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
	return reject(e.epoch.Load(), rejections[a.Outcome], figures{permits: n, left: a.Left, retry: retry, reset: e.resetAfter(a)})
}
