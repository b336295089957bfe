package core

// ReleaseAll releases the leases, as Release does each. Permits of one concurrency limiter
// that follow each other come back together, and those who wait for them are served once.
// If the release of a [Grant] panics, the others are released nonetheless.
func ReleaseAll(leases []Lease) {
	var e *engine
	n, next := 0, 0
	defer func() {
		e.giveBackAll(n)
		if next < len(leases) { // the one before panicked
			ReleaseAll(leases[next:])
		}
	}()
	for next < len(leases) {
		l := leases[next]
		next++
		c := l.c
		if l.outcome() != heldTicket || c.x != nil {
			l.Release()
			continue
		}
		if !l.redeem() {
			continue
		}
		permits := int(l.bits >> (outcomeBits + generationBits))
		if c.e != e || n+permits < n {
			e.giveBackAll(n)
			e, n = c.e, 0
		}
		n += permits
		e.held().keep(c)
	}
}

// giveBackAll gives back what leases of e held, if there were any.
func (e *engine) giveBackAll(n int) {
	if n > 0 {
		e.giveBack(n, nil)
	}
}
