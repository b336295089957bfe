package core

import "sync"

// spareTickets keeps tickets of a concurrency limiter that are not in use. The garbage
// collector empties it in time: a peak of leases leaves nothing behind.
type spareTickets struct {
	sync.Pool
	of *terms // tickets show these, or the same
}

// suits reports whether tickets of t show what those of the pool do.
func (s *spareTickets) suits(t *terms) bool {
	return s.of == t || s.of.label == t.label && s.of.Limit == t.Limit
}

// draw returns a ticket that shows the terms of c, and the generation of its next lease.
func (p *permits) draw(c *cell) (*cell, uint64) {
	spare := p.tickets.Load()
	if spare == nil || !spare.suits(c.terms) {
		spare = &spareTickets{of: c.terms}
		p.tickets.Store(spare) // of two made at once one is forgotten
	}
	if t, ok := spare.Get().(*cell); ok {
		return t, t.word.Load()
	}
	return &cell{e: c.e, terms: c.terms}, 0
}

// keep puts a redeemed ticket back; nil is none.
func (p *permits) keep(t *cell) {
	if t == nil {
		return
	}
	if spare := p.tickets.Load(); spare.suits(t.terms) && t.word.Load() < maxGeneration {
		spare.Put(t)
	}
}

// drawFor is draw for one that waited: if a lease was released for it, from the same ticket.
// The mutex is held.
func (p *permits) drawFor(r *room, c *cell) (*cell, uint64) {
	if t := r.ticket; t != nil {
		r.ticket = nil
		if g := t.word.Load(); t.terms == c.terms && g < maxGeneration {
			return t, g
		}
	}
	return p.draw(c)
}
