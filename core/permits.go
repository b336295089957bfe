package core

import (
	"runtime"

	"github.com/sluice-go/sluice/internal/machine"
)

// permits is the account of a concurrency limiter, and since when the limiter is idle. Its
// releases read no clock, so that is known only from when somebody looks.
type permits struct {
	machine.Permits
	idleSince int64  // the instant at which the limiter was first seen idle
	idleAfter uint64 // the grants that it had made then
}

// The word of a concurrency limiter, in its engine:
//
//	 63    62      31 30      0
//	shut     grants     free
//
// While it is open, which is while no request waits, free permits may be taken by one swap that
// also counts the grant, and given back by another. Function lock shuts it and moves what it has
// into the account and the count; unlock opens it again. While it is shut, only the holder of
// the mutex grants, and takes permits back.
//
// A releases while B begins to wait: B has the mutex and shuts the word before it looks at what
// is free. If A's swap came first, B finds the permits. If B's came first, A's swap fails, and A
// gives the permits back under the mutex, where it finds B in the queue.
//
// A takes while B updates the limit: B shuts the word, and a swap that A has prepared fails if the
// word has changed. A reads the settings between the word and the swap, so that they are those of
// what A takes. If the word is open again and the same, as many permits are free as A has read,
// whatever the limit is by now.
const (
	shut     = 1 << 63
	oneGrant = 1 << 31
	freeMask = oneGrant - 1
)

// take takes n permits in one swap, if they are free and no request waits. s are the settings under
// which it does. If it fails, nothing has happened, and retryTake says why.
func (e *engine) take(n int) (s *settings, left int, ok bool) {
	w := e.word.Load()
	s = e.settings.Load()
	next := w + oneGrant - uint64(n)
	ok = uint64(n)-1 < w&freeMask && (w|next)&shut == 0 && e.word.CompareAndSwap(w, next) //nolint:gocritic // 0 permits are not taken here
	return s, int(next & freeMask), ok
}

// retryTake is take after a take that failed: as often as only another's swap is in the way. decided
// reports whether it is certain that the permits are not free.
func (e *engine) retryTake(n int) (s *settings, left int, ok, decided bool) {
	for {
		switch w := e.word.Load(); {
		case w&shut != 0 || n <= 0 || w == 0: // 0 is also the word of the zero limiter
			return nil, 0, false, false
		case uint64(n) > w&freeMask:
			return nil, 0, false, true
		case (w+oneGrant)&shut != 0: // too many grants to count
			return nil, 0, false, false
		}
		pause()
		if s, left, ok = e.take(n); ok {
			return s, left, true, true
		}
	}
}

// give gives back n permits in one swap of the word w, if no request waits. If it fails, nothing has
// happened.
func (e *engine) give(w uint64, n int) bool {
	return w&shut == 0 && n >= 0 && e.word.CompareAndSwap(w, w+uint64(n))
}

// giveBack gives back n permits; if n is below 0, it takes them, free or not. inFlight is the
// number of permits that were held before.
func (e *engine) giveBack(n int) (inFlight int) {
	w := e.word.Load()
	s := e.settings.Load() // of that word
	if !e.give(w, n) {
		return e.retryGiveBack(n)
	}
	return s.Limit - int(w&freeMask)
}

// retryGiveBack is giveBack after a give that failed.
func (e *engine) retryGiveBack(n int) (inFlight int) {
	for {
		if n < 0 || e.word.Load()&shut != 0 {
			return e.giveSlow(n)
		}
		pause()
		w := e.word.Load()
		s := e.settings.Load() // of that word
		if e.give(w, n) {
			return s.Limit - int(w&freeMask)
		}
	}
}

// giveSlow is giveBack under the mutex.
func (e *engine) giveSlow(n int) (inFlight int) {
	now := e.lock()
	p := e.permits()
	inFlight = e.m.Terms().Limit - p.Free(e.m.Terms())
	e.m.Release(now, n)
	e.idleForLocked(p)
	e.unlock(now)
	return inFlight
}

// pause follows a failed swap: another processor has the word, and what it does next is often the
// next swap of the same word. Two that retry at once take the cache line from each other at each
// attempt. About a microsecond lets the other one through (bench: held from all cores).
func pause() {
	if runtime.GOMAXPROCS(0) > 1 {
		for range 8000 { // the time that this takes is what it is for
		}
	}
}

// permits returns the account of a concurrency limiter, or nil.
func (e *engine) permits() *permits {
	p, _ := e.m.Account().(*permits)
	return p
}

// shutLocked shuts the word and puts what it had into the account.
func (e *engine) shutLocked(p *permits) {
	if !e.open {
		return
	}
	e.open = false
	w := e.word.Or(shut)
	p.SetFree(e.m.Terms(), int(w&freeMask))
	e.granted += w &^ shut / oneGrant
}

// openLocked opens the word, if the account has room in it.
func (e *engine) openLocked(p *permits) {
	t := e.m.Terms()
	if free := p.Free(t); free >= 0 && t.Limit <= freeMask {
		e.open = true
		e.word.Store(uint64(free))
	}
}

// idleForLocked returns for how long a concurrency limiter has been seen idle, and whether it is.
func (e *engine) idleForLocked(p *permits) (d int64, idle bool) {
	if _, idle = e.m.Idle(); !idle {
		p.idleSince = machine.Never // what is held may be what a lease of zero permits was charged, which is no grant
		return 0, false
	}
	// It has been idle since it was last seen so, if it has granted nothing since.
	now, grants := e.clock.Elapsed(), e.granted+e.woken.Load()
	if grants != p.idleAfter || p.idleSince > now {
		p.idleSince, p.idleAfter = now, grants
	}
	return now - p.idleSince, true
}
