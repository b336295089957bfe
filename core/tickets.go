package core

import "sync"

// spareTickets keeps tickets of a concurrency limiter that are not in use. The garbage
// collector empties it in time: a peak of leases leaves nothing behind.
type spareTickets struct {
	sync.Pool
	of *terms // tickets show these
}

// draw returns a ticket that shows the terms of c, and the generation of its next lease.
func (p *permits) draw(c *cell) (*cell, uint64) {
	pool := p.tickets.Load()
	if pool == nil || pool.of != c.terms {
		pool = &spareTickets{of: c.terms}
		p.tickets.Store(pool) // of two made at once one is forgotten
	}
	if t, ok := pool.Get().(*cell); ok {
		return t, t.word.Load()
	}
	return &cell{e: c.e, terms: c.terms}, 0
}

// keep puts a redeemed ticket back.
func (p *permits) keep(t *cell) {
	if pool := p.tickets.Load(); pool.of == t.terms && t.word.Load() < maxGeneration {
		pool.Put(t)
	}
}
