package core

// What needs no mutex: grants and releases by one swap of the cell's word.

// grab takes n permits if that needs no mutex: the word has them, and nobody waits. A
// bucket says, too, if it is sure that it has not: the lease is a rejection then.
func (e *engine) grab(n int) (l Lease, answered bool) {
	c := e.cell.Load()
	switch {
	case c == nil:
		return Lease{}, false
	case e.held:
		return e.hold(c, n)
	case c.fullBits > 0:
		return e.dip(c, n)
	}
	return e.draw(c, n)
}

// hold is grab for a concurrency limiter.
func (e *engine) hold(c *cell, n int) (Lease, bool) {
	for {
		w := c.word.Load()
		left := w & maxCredit
		if uint64(n)-1 >= left || n > maxFast { // n <= 0 too
			return Lease{}, false
		}
		left -= uint64(n)
		if w&busy != 0 {
			if !c.word.CompareAndSwap(w, w-uint64(n)) {
				continue
			}
			t := e.drawTicket(c)
			return Lease{c: t, bits: granted(heldTicket, t.word.Load(), n), u: int64(left), v: -1}, true
		}
		if w&generationMask == generationMask {
			return Lease{}, false
		}
		if next := w + (generationOne + busy) - uint64(n); c.word.CompareAndSwap(w, next) {
			return Lease{c: c, bits: granted(heldHot, c.generationOf(next), n), u: int64(left), v: -1}, true
		}
	}
}

// draw is grab for a window.
func (e *engine) draw(c *cell, n int) (Lease, bool) {
	for {
		w := c.word.Load()
		left := w & maxCredit
		if uint64(n)-1 >= left || n > maxFast || w&generationMask == generationMask {
			return Lease{}, false
		}
		// The word is read before the clock and swapped after it. If the word was shut or
		// opened in between, its generation is another and the swap fails; so the credit was
		// lent in the segment of now, which ends at until.
		now := e.clock()
		if now >= e.until.Load() {
			return Lease{}, false
		}
		if next := w + generationOne - uint64(n); c.word.CompareAndSwap(w, next) {
			left -= uint64(n)
			return Lease{c: c, bits: granted(spentWindow, c.generationOf(next), n), u: int64(left), v: now}, true
		}
	}
}

// dip is grab for a bucket.
func (e *engine) dip(c *cell, n int) (Lease, bool) {
	for {
		// The word is read before the clock, so now is no earlier than anything in it; and
		// swapped after it, so it was right at now.
		w := c.word.Load()
		if uint64(n)-1 >= uint64(c.limit) || n > maxFast || w&shut != 0 {
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
			return Lease{c: c, bits: granted(spentBucket, c.generationOf(next), n), u: int64(next), v: now}, true
		}
	}
}

// releaseHot gives back the lease that lives in its cell's word, if it still does.
func (c *cell) releaseHot(l Lease) {
	n := uint64(l.permits())
	held := l.generation()<<creditBits | busy
	for {
		w := c.word.Load()
		if w&shut != 0 || w&maxCredit+n > maxCredit {
			c.releaseHotSlow(l)
			return
		}
		if w&(generationMask|busy) != held {
			return // released before
		}
		if w&maxCredit+n == uint64(c.limit) {
			c.e.noteWhole()
		}
		if c.word.CompareAndSwap(w, w-busy+n) {
			return
		}
	}
}

// releaseHotSlow is releaseHot with the mutex, for a word that is shut: the cell may be
// an old one.
func (c *cell) releaseHotSlow(l Lease) {
	now := c.e.lock()
	if w := c.word.Load(); w&busy != 0 && c.generationOf(w) == l.generation() {
		c.word.Store(w &^ busy)
		c.e.putBack(l.permits())
	}
	c.e.unlock(now)
}

// giveBack returns the permits of a lease whose ticket is redeemed.
func (e *engine) giveBack(n int) {
	c := e.cell.Load()
	for {
		w := c.word.Load()
		credit := w&maxCredit + uint64(n)
		if w&shut != 0 || credit > maxCredit {
			now := e.lock()
			e.putBack(n)
			e.unlock(now)
			return
		}
		if credit == uint64(c.limit) {
			e.noteWhole()
		}
		if c.word.CompareAndSwap(w, w+uint64(n)) {
			return
		}
	}
}

// putBack returns permits to a concurrency limiter's account.
func (e *engine) putBack(n int) {
	p := e.acct.(*permits)
	if p.free += n; p.free == p.limit {
		e.noteWhole()
	}
}

// noteWhole notes that all permits of a concurrency limiter are about to be available.
func (e *engine) noteWhole() {
	p := e.acct.(*permits)
	switch {
	case p.watch.Load() > 0:
		p.watch.Add(-1)
		p.wholeAt.Store(e.clock())
	case p.wholeAt.Load() != unknown:
		p.wholeAt.Store(unknown)
	}
}

// drawTicket returns a ticket for a lease under c's terms.
func (e *engine) drawTicket(c *cell) *cell {
	e.adjust.Add(1)
	return e.acct.(*permits).ticket(c)
}

// fits reports whether n permits are not more than the limit.
func (e *engine) fits(n int) bool {
	c := e.cell.Load()
	return c == nil || n <= c.limit
}
