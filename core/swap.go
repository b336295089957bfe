package core

// What needs no mutex: grants and releases by one swap of the cell's word.

// grab takes n permits if that needs no mutex: they are in the word's credit, and nobody
// waits.
func (e *engine) grab(n int) (Lease, bool) {
	c := e.cell.Load()
	if c == nil {
		return Lease{}, false
	}
	if !e.held {
		return e.draw(c, n)
	}
	for {
		w := c.word.Load()
		left := w & creditMask
		if uint64(n)-1 >= left { // n <= 0 too
			return Lease{}, false
		}
		left -= uint64(n)
		if w&busy != 0 {
			if !c.word.CompareAndSwap(w, w-uint64(n)) {
				continue
			}
			e.adjust.Add(1)
			l := Lease{c: c, n: n, left: int(left), reset: -1}
			l.drawTicket()
			return l, true
		}
		if w&generationMask == generationMask {
			return Lease{}, false
		}
		if next := w + (generationOne + busy) - uint64(n); c.word.CompareAndSwap(w, next) {
			bits := generationOf(next)<<outcomeBits | uint64(heldHot)
			return Lease{c: c, bits: bits, n: n, left: int(left), reset: -1}, true
		}
	}
}

// draw is grab for a rate limiter.
func (e *engine) draw(c *cell, n int) (Lease, bool) {
	for {
		w := c.word.Load()
		left := w & creditMask
		if uint64(n)-1 >= left || w&generationMask == generationMask {
			return Lease{}, false
		}
		// The word is read before the clock and swapped after it. If the word was shut or
		// opened in between, its generation is another and the swap fails; so until and mark
		// are those that this credit was lent with, and now was in its time.
		now := e.clock()
		if now >= e.until.Load() {
			return Lease{}, false
		}
		mark := e.mark.Load()
		if next := w + generationOne - uint64(n); c.word.CompareAndSwap(w, next) {
			bits := generationOf(next)<<outcomeBits | uint64(spent)
			l := Lease{c: c, bits: bits, n: n, left: int(left) - n, at: now, reset: mark - now}
			if c.manual {
				l.reset = -1
			}
			return l, true
		}
	}
}

// releaseHot gives back the lease that lives in its cell's word, if it still does.
func (c *cell) releaseHot(l Lease) {
	g := l.generation()<<generationShift | busy
	for {
		w := c.word.Load()
		if w&shut != 0 {
			c.releaseHotSlow(l)
			return
		}
		if w&(generationMask|busy) != g {
			return // released before
		}
		credit := int(w&creditMask) + l.n
		if credit > maxCredit {
			c.releaseHotSlow(l)
			return
		}
		if credit == c.limit {
			c.e.noteWhole()
		}
		if c.word.CompareAndSwap(w, w-busy+uint64(l.n)) {
			return
		}
	}
}

// releaseHotSlow is releaseHot with the mutex, for a word that is shut: the cell may be
// an old one.
func (c *cell) releaseHotSlow(l Lease) {
	now := c.e.lock()
	if w := c.word.Load(); w&busy != 0 && generationOf(w) == l.generation() {
		c.word.Store(w &^ busy)
		c.e.putBack(l.n)
	}
	c.e.unlock(now)
}

// giveBack returns the permits of a lease whose ticket is redeemed.
func (e *engine) giveBack(n int) {
	c := e.cell.Load()
	for {
		w := c.word.Load()
		credit := int(w&creditMask) + n
		if w&shut != 0 || credit > maxCredit {
			now := e.lock()
			e.putBack(n)
			e.unlock(now)
			return
		}
		if credit == c.limit {
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

// drawTicket makes l a lease whose generation is in a ticket.
func (l *Lease) drawTicket() {
	t := tickets.Get().(*extra)
	l.x = t
	l.bits = t.gen.Load()<<outcomeBits | uint64(heldTicket)
}

// fits reports whether n permits are not more than the limit.
func (e *engine) fits(n int) bool {
	c := e.cell.Load()
	return c == nil || n <= c.limit
}
