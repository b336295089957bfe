package core

// What needs no mutex: grants and releases by one swap of the cell's word.

// grab takes n permits if that needs no mutex: the word has them, and nobody waits. A
// bucket says, too, if it is sure that it has not: the lease is a rejection then.
func (e *engine) grab(n int) (l Lease, answered bool) {
	c := e.cell.Load()
	switch {
	case c == nil:
		return Lease{}, false
	case c.fullBits > 0:
		return e.dip(c, n)
	case e.held:
		return e.hold(c, n)
	}
	return e.draw(c, n)
}

// hold is grab for a concurrency limiter.
func (e *engine) hold(c *cell, n int) (Lease, bool) {
	w := c.word.Load()
	if uint64(n)-1 < w&maxCredit && w&busy == 0 && w&generationMask != generationMask { // n > 0
		if next := w + (generationOne + busy) - uint64(n); c.word.CompareAndSwap(w, next) {
			return Lease{c: c, bits: granted(heldHot, c.generationOf(next), n), u: int64(next & maxCredit), v: -1}, true
		}
		backOff(0)
	}
	return e.holdSlow(c, n)
}

// holdSlow is hold for a word that others are swapping, or whose hot lease is held.
func (e *engine) holdSlow(c *cell, n int) (Lease, bool) {
	for try := 0; ; try++ {
		w := c.word.Load()
		if uint64(n)-1 >= w&maxCredit || w&generationMask == generationMask {
			return Lease{}, false
		}
		next, o := w-uint64(n), heldTicket
		if w&busy == 0 {
			next, o = next+generationOne+busy, heldHot
		}
		if !c.word.CompareAndSwap(w, next) {
			backOff(try)
			continue
		}
		of, generation := c, c.generationOf(next)
		if o == heldTicket {
			of, generation = e.acct.(*permits).draw(c)
		}
		return Lease{c: of, bits: granted(o, generation, n), u: int64(next & maxCredit), v: -1}, true
	}
}

// draw is grab for a rate limiter with a credit.
func (e *engine) draw(c *cell, n int) (Lease, bool) {
	for try := 0; ; try++ {
		w := c.word.Load()
		if uint64(n)-1 >= w&maxCredit || w&generationMask == generationMask {
			return Lease{}, false
		}
		// The word is read before the clock and swapped after it. If the word was shut or
		// opened in between, its generation is another and the swap fails; so the credit was
		// lent for the time of now, a window's for the segment of now.
		now := e.clock()
		if now >= e.until.Load() {
			return Lease{}, false
		}
		next := w + generationOne - uint64(n)
		o, left, v := spentWindow, int64(next&maxCredit), now
		if !c.window() {
			o = spentCredit
			left, v = e.acct.(*bucket).left(c, left, now)
		}
		if c.word.CompareAndSwap(w, next) {
			return Lease{c: c, bits: granted(o, c.generationOf(next), n), u: left, v: v}, true
		}
		backOff(try)
	}
}

// dip is grab for a bucket with a level.
func (e *engine) dip(c *cell, n int) (Lease, bool) {
	for try := 0; ; try++ {
		// The word is read before the clock, so now is no earlier than anything in it; and
		// swapped after it, so it was right at now.
		w := c.word.Load()
		if uint64(n)-1 >= uint64(c.limit) || uint64(n) > maxPermits || w&shut != 0 {
			return Lease{}, false
		}
		now := e.clock()
		level, fits := c.unpack(w, now-c.from).less(&c.terms, n, now-c.from)
		if !fits {
			return Lease{c: c, bits: granted(exhaustedRaw, 0, n), u: int64(w), v: now}, true
		}
		next, ok := c.pack(w, level)
		if !ok {
			return Lease{}, false
		}
		if c.word.CompareAndSwap(w, next) {
			generation := next >> (c.stateBits() & 63) // next is not shut
			return Lease{c: c, bits: granted(spentBucket, generation, n), u: int64(next), v: now}, true
		}
		backOff(try)
	}
}

// releaseHot gives back the n permits of the hot lease of a generation, if it still is;
// won says so, and held how many permits are held by others then.
func (c *cell) releaseHot(generation uint64, n int) (held int, won bool) {
	w := c.word.Load()
	if w&^maxCredit == generation<<generationShift|busy {
		credit, limit := w&maxCredit+uint64(n), c.force.Load()
		if credit == uint64(limit) && c.e.watch.Load() > 0 {
			c.e.noteWhole()
		}
		if credit <= maxCredit {
			if c.word.CompareAndSwap(w, w-busy+uint64(n)) {
				return int(limit) - int(credit), true
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
		credit, limit := w&maxCredit+uint64(n), c.force.Load()
		switch {
		case w&busy == 0 || c.generationOf(w) != generation:
			return 0, false
		case w&shut != 0 || credit > maxCredit:
			now := c.e.lock()
			if w = c.word.Load(); w&busy != 0 && c.generationOf(w) == generation {
				c.word.Store(w &^ busy)
				held, won = c.e.putBack(n), true
			}
			c.e.unlock(now)
			return held, won
		}
		if credit == uint64(limit) && c.e.watch.Load() > 0 {
			c.e.noteWhole()
		}
		if c.word.CompareAndSwap(w, w-busy+uint64(n)) {
			return int(limit) - int(credit), true
		}
		backOff(try)
	}
}

// giveBack returns permits that no lease holds any more, and says how many are held then.
func (e *engine) giveBack(n int) (held int) {
	c := e.cell.Load()
	for try := 0; ; try++ {
		w := c.word.Load()
		credit, limit := w&maxCredit+uint64(n), c.force.Load()
		if w&shut != 0 || credit > maxCredit {
			now := e.lock()
			held = e.putBack(n)
			e.unlock(now)
			return held
		}
		if credit == uint64(limit) && e.watch.Load() > 0 {
			e.noteWhole()
		}
		if c.word.CompareAndSwap(w, w+uint64(n)) {
			return int(limit) - int(credit)
		}
		backOff(try)
	}
}

// backOff waits after a swap that failed, twice as long each time. Whoever won has the
// word in his core's cache, and works fastest if he is left alone with it for a while.
//
//go:noinline
func backOff(try int) {
	for range 4096 << min(try, 2) {
	}
}

// putBack returns permits to a concurrency limiter's account, and says how many are held
// then.
func (e *engine) putBack(n int) (held int) {
	p := e.acct.(*permits)
	if p.free += n; p.free == p.limit && e.watch.Load() > 0 {
		e.noteWhole()
	}
	return p.limit - p.free
}

// noteWhole notes that all permits of a concurrency limiter are about to be available.
func (e *engine) noteWhole() {
	p := e.acct.(*permits)
	p.wholeAt.Store(e.clock())
	if e.watch.Add(-1) <= 0 {
		p.wholeAt.Store(unknown)
	}
}

// fits reports whether n permits are not more than the limit.
func (e *engine) fits(n int) bool {
	c := e.cell.Load()
	return c == nil || n <= c.limit
}
