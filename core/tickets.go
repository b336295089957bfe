package core

// ticketRing holds the tickets of a concurrency limiter's cell, in use or not. The word of
// a ticket in use is odd. They are drawn in turn, as most leases are released in about the
// order in which they were granted, so that the next one is free again when its turn comes.
type ticketRing struct {
	of    *cell // tickets show these terms
	slots []cell
}

const (
	leastTickets  = 8    // in a ring; a power of two
	mostTickets   = 4096 // beyond, a lease gets a ticket of its own
	ticketsToTry  = 4    // before the ring is taken to be too small
	lastOfATicket = maxGeneration - 1
)

// draw takes the ticket whose turn it is and returns it with its generation.
func (p *permits) draw(c *cell) (*cell, uint64) {
	turn := p.drawn.Add(1)
	if r := p.tickets.Load(); r != nil && r.of == c {
		for i := range uint64(ticketsToTry) {
			t := &r.slots[(turn+i)&uint64(len(r.slots)-1)]
			g := t.word.Load()
			if g&1 == 0 && g < lastOfATicket && t.word.CompareAndSwap(g, g+1) {
				return t, g + 1
			}
		}
	}
	return p.drawSlow(c, turn)
}

// drawSlow is draw where there is no ring, or only one for other terms, or one whose
// tickets are in use or used up.
func (p *permits) drawSlow(c *cell, turn uint64) (*cell, uint64) {
	size := leastTickets
	if r := p.tickets.Load(); r != nil && r.of == c {
		size = len(r.slots)
		if r.slots[turn&uint64(size-1)].word.Load() < lastOfATicket {
			size *= 2
		}
	}
	if size > mostTickets {
		t := &cell{e: c.e, terms: c.terms}
		return t, 0
	}
	r := &ticketRing{c, make([]cell, size)}
	for i := range r.slots {
		r.slots[i].e, r.slots[i].terms = c.e, c.terms
	}
	t := &r.slots[turn&uint64(size-1)]
	t.word.Store(1)
	p.tickets.Store(r) // of two made at once one is forgotten
	return t, 1
}
