package core

import (
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// What needs no mutex: grants and releases by one swap of the cell's word.

// tryFast takes n permits if that needs no mutex: the word has them, and nobody waits.
func (l *ConcurrencyLimiter) tryFast(n int) (Lease, bool) {
	c := l.cell.Load()
	if c == nil {
		return Lease{}, false
	}
	w := c.word.Load()
	if uint64(n)-1 < w&heldMask { // n > 0
		if w&busy == 0 && w&generationMask != generationMask {
			if next := w + (generationOne + busy) - uint64(n); c.word.CompareAndSwap(w, next) {
				return l.hot(c, next, n), true
			}
		} else if next := w + countOne - uint64(n); next&countMask != 0 && c.word.CompareAndSwap(w, next) {
			return l.ticketed(c, next, n), true
		}
		backOff(0)
	}
	return l.tryFastSlow(c, n)
}

// tryFastSlow is tryFast for a word that others are swapping, or whose hot lease is held.
func (l *ConcurrencyLimiter) tryFastSlow(c *cell, n int) (Lease, bool) {
	for try := 0; ; try++ {
		w := c.word.Load()
		if uint64(n)-1 >= w&heldMask {
			return Lease{}, false
		}
		if w&busy == 0 && w&generationMask != generationMask {
			if next := w + (generationOne + busy) - uint64(n); c.word.CompareAndSwap(w, next) {
				return l.hot(c, next, n), true
			}
		} else if w&countMask == countMask {
			return Lease{}, false
		} else if next := w + countOne - uint64(n); c.word.CompareAndSwap(w, next) {
			return l.ticketed(c, next, n), true
		}
		backOff(try)
	}
}

// hot returns the hot lease that a swap has taken; w is the word after it.
func (l *ConcurrencyLimiter) hot(c *cell, w uint64, n int) Lease {
	return Lease{c: c, bits: granted(heldHot, c.generationOf(w), n), u: l.left(c, w), v: -1}
}

// ticketed returns the lease of a ticket for what a swap has taken; w is the word after it.
func (l *ConcurrencyLimiter) ticketed(c *cell, w uint64, n int) Lease {
	t, generation := l.permits.draw(c)
	return Lease{c: t, bits: granted(heldTicket, generation, n), u: l.left(c, w), v: -1}
}

// left returns the permits that are available beside a word.
func (l *ConcurrencyLimiter) left(c *cell, w uint64) int64 {
	left := int64(w & heldMask)
	if c.Limit > maxHeld {
		left += l.aside.Load()
	}
	return left
}

// tryFast takes n permits if that needs no mutex: the credit is good, and nobody waits.
func (l *windowed) tryFast(n int) (Lease, bool) {
	c := l.cell.Load()
	if c == nil {
		return Lease{}, false
	}
	for try := 0; ; try++ {
		w := c.word.Load()
		if uint64(n)-1 >= w&windowMask || w&generationMask == generationMask {
			return Lease{}, false
		}
		// The word is read before the clock and swapped after it. If the word was shut or
		// opened in between, its generation is another and the swap fails; so the credit was
		// lent for the segment of now.
		now := c.clock()
		if now >= c.bound.Load() || l.wentBack(c, now) {
			return Lease{}, false
		}
		next := w + generationOne - uint64(n)
		if c.word.CompareAndSwap(w, next) {
			left := int64(next & windowMask)
			if int64(c.Limit) > maxWindow {
				left += l.aside.Load()
			}
			return Lease{c: c, bits: granted(spentWindow, c.generationOf(next), n), u: left, v: now}, true
		}
		backOff(try)
	}
}

// tryFast takes n permits if that needs no mutex: the level fits into the word, and nobody
// waits. It answers, too, if it is sure that they are not there: the lease is a rejection
// then, which nobody has counted.
func (l *TokenBucket) tryFast(n int) (_ Lease, answered bool) {
	c := l.cell.Load()
	if c == nil {
		return Lease{}, false
	}
	if c.StateBits == 0 {
		return l.tryCredit(c, n)
	}
	for try := 0; ; try++ {
		// The word is read before the clock, so now is no earlier than anything in it; and
		// swapped after it, so it was right at now.
		w := c.word.Load()
		if uint64(n)-1 >= uint64(c.Limit) || uint64(n) > maxPermits || w&shut != 0 {
			return Lease{}, false
		}
		now := c.clock()
		if l.wentBack(c, now) {
			return Lease{}, false
		}
		t := c.terms
		since := now - t.From
		level := t.unpack(w, since).less(t, n)
		if level.full-since > level.reach(t) {
			return Lease{c: c, bits: granted(exhaustedRaw, 0, n), u: int64(w), v: now}, true
		}
		next, ok := t.pack(w, level)
		if !ok {
			return Lease{}, false
		}
		if c.word.CompareAndSwap(w, next) {
			generation := next >> (t.StateBits & 63) // next is not shut
			return Lease{c: c, bits: granted(spentBucket, generation, n), u: level.full - since, v: t.spentAt(since, level.spare)}, true
		}
		backOff(try)
	}
}

// tryCredit is tryFast for a bucket whose level does not fit into the word.
func (l *TokenBucket) tryCredit(c *cell, n int) (Lease, bool) {
	for try := 0; ; try++ {
		w := c.word.Load()
		if uint64(n)-1 >= w&windowMask || w&generationMask == generationMask {
			return Lease{}, false
		}
		now, until := c.clock(), c.bound.Load() // as in a window
		if now >= until || l.wentBack(c, now) {
			return Lease{}, false
		}
		next := w + generationOne - uint64(n)
		after := l.credited(c, next)
		if c.word.CompareAndSwap(w, next) {
			return Lease{
				c: c, bits: granted(spentBucket, c.generationOf(next), n),
				u: after.full - now, v: c.spentAt(now-c.From, after.spare),
			}, true
		}
		backOff(try)
	}
}

// credited returns the level, in instants, of a bucket with so much credit left in its word.
func (e *engine) credited(c *cell, w uint64) level {
	after := level{full: c.bound.Load(), spare: int(e.aside.Load()) + int(w&windowMask)}
	if after.spare < 0 {
		after = after.later(c.terms)
	}
	return after
}

// wentBack reports whether the clock has gone back: in a bubble, behind the latest use of
// the limiter; else, as that is not recorded, decades back into a bubble.
func (e *engine) wentBack(c *cell, now int64) bool {
	return now < 0 || c.Mode&recorded != 0 && e.record(now)
}

// record notes that the limiter was used at now, and reports whether the clock may be
// another than at its latest use: see steady.
//
//go:noinline
func (e *engine) record(now int64) (another bool) {
	last := e.last.Load()
	another = now < last || now-last > aYear
	if now > last && !another {
		e.last.Store(now)
	}
	return another
}

// releaseHot gives back the n permits of the hot lease of a generation, if it still is;
// won says so, and held how many permits are held by others then.
func (c *cell) releaseHot(generation uint64, n int) (held int, won bool) {
	w := c.word.Load()
	if w&^(heldMask|countMask) == generation<<generationShift|busy {
		credit, limit := w&heldMask+uint64(n), c.bound.Load()
		if credit == uint64(min(limit, maxHeld)) && c.e.watch.Load() > 0 {
			c.e.noteWhole()
		}
		if credit <= maxHeld {
			if c.word.CompareAndSwap(w, w-busy+uint64(n)) {
				return c.heldBeside(credit, limit), true
			}
			backOff(0)
		}
	}
	return c.releaseHotSlow(generation, n)
}

// releaseHotSlow is releaseHot for a word that is shut, so that the cell may be an old
// one; that others are swapping; or whose lease was released before.
func (c *cell) releaseHotSlow(generation uint64, n int) (held int, won bool) {
	for try := 0; ; try++ {
		w := c.word.Load()
		credit, limit := w&heldMask+uint64(n), c.bound.Load()
		switch {
		case w&busy == 0 || c.generationOf(w) != generation:
			return 0, false
		case w&shut != 0 || credit > maxHeld:
			now := c.e.lock()
			if w = c.word.Load(); w&busy != 0 && c.generationOf(w) == generation {
				c.word.Store(w &^ busy)
				held, won = c.e.putBack(now, n), true
			}
			c.e.unlock(now)
			return held, won
		}
		if credit == uint64(min(limit, maxHeld)) && c.e.watch.Load() > 0 {
			c.e.noteWhole()
		}
		if c.word.CompareAndSwap(w, w-busy+uint64(n)) {
			return c.heldBeside(credit, limit), true
		}
		backOff(try)
	}
}

// heldBeside returns how many permits are held if so many are in the word.
func (c *cell) heldBeside(credit uint64, limit int64) int {
	held := limit - int64(credit)
	if limit > maxHeld {
		held -= c.e.aside.Load()
	}
	return int(held)
}

// giveBack returns permits that no lease holds any more, with the redeemed ticket t that
// had them, or nil, and says how many are held then.
func (e *engine) giveBack(n int, t *cell) (held int) {
	c := e.cell.Load()
	for try := 0; ; try++ {
		w := c.word.Load()
		credit, limit := w&heldMask+uint64(n), c.bound.Load()
		if w&shut != 0 || credit > maxHeld {
			now := e.lock()
			held = e.putBack(now, n)
			if t != nil && e.room != nil {
				e.room.ticket, t = t, nil // for whoever is served now
			}
			e.unlock(now)
			e.held().keep(t)
			return held
		}
		if credit == uint64(min(limit, maxHeld)) && e.watch.Load() > 0 {
			e.noteWhole()
		}
		if c.word.CompareAndSwap(w, w+uint64(n)) {
			e.held().keep(t)
			return c.heldBeside(credit, limit)
		}
		backOff(try)
	}
}

// backOff waits after a swap that failed, twice as long each time. Whoever won has the
// word in its core's cache, and works fastest if it is left alone with it for a while.
//
//go:noinline
func backOff(try int) {
	for range 4096 << min(try, 2) {
	}
}

// putBack returns permits to a concurrency limiter's machine, and says how many are held
// then, before it served anybody.
func (e *engine) putBack(now int64, n int) (held int) {
	p := e.held()
	held = int(e.cell.Load().bound.Load()) - p.Free() - n
	if held == 0 && e.watch.Load() > 0 {
		e.noteWhole()
	}
	e.m.Release(now, n)
	return held
}

// noteWhole notes that all permits of a concurrency limiter are about to be available.
func (e *engine) noteWhole() {
	p := e.held()
	p.wholeAt.Store(e.cell.Load().clock())
	if e.watch.Add(-1) <= 0 {
		p.wholeAt.Store(unknown)
	}
}

// fits reports whether n permits are not more than the limit.
func (e *engine) fits(n int) bool {
	c := e.cell.Load()
	return c == nil || n <= c.Limit
}

// held returns the account of a concurrency limiter.
func (e *engine) held() *permits { return e.m.Account().(*permits) }

// clock returns the instant now, by one read of the monotonic clock.
func (c *cell) clock() int64 { return int64(time.Since(c.base)) }

var _ machine.Account = (*permits)(nil)
