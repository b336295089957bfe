package core

// ticketRing holds the tickets of a concurrency limiter's cell, in use or not. The word of
// a ticket in use is odd. They are drawn in turn, as most leases are released in about the
// order in which they were granted, so that the next one is free again when its turn comes.
type ticketRing struct {
	of    *cell // tickets show these terms
	slots []cell
}

const (
	leastTickets  = 8       // in a ring; a power of two
	mostTickets   = 1 << 20 // beyond, a lease gets a ticket of its own
	ticketsToTry  = 4       // before the whole ring is looked at
	lastOfATicket = maxGeneration - 1
)

// draw takes the ticket whose turn it is and returns it with its generation.
func (p *permits) draw(c *cell) (*cell, uint64) {
	turn := p.drawn.Add(1)
	if r := p.tickets.Load(); r != nil && r.of == c {
		for i := range uint64(ticketsToTry) {
			if t, generation := r.take(turn + i); t != nil {
				return t, generation
			}
		}
	}
	return p.drawSlow(c, turn)
}

// take takes the ticket at a turn, if it is not in use, nor used up.
func (r *ticketRing) take(turn uint64) (*cell, uint64) {
	t := &r.slots[turn&uint64(len(r.slots)-1)]
	g := t.word.Load()
	if g&1 == 0 && g < lastOfATicket && t.word.CompareAndSwap(g, g+1) {
		return t, g + 1
	}
	return nil, 0
}

// drawSlow is draw where there is no ring, or only one for other terms, or where the
// tickets of the next turns are in use. A ring of which more than a quarter is in use gives
// way to one of twice the size.
func (p *permits) drawSlow(c *cell, turn uint64) (*cell, uint64) {
	size := leastTickets
	if r := p.tickets.Load(); r != nil && r.of == c {
		size = len(r.slots)
		inUse := 0
		for i := range r.slots {
			inUse += int(r.slots[i].word.Load() & 1)
		}
		if inUse > size/4 {
			size *= 2
		} else {
			for i := range uint64(size) {
				if t, generation := r.take(turn + i); t != nil {
					return t, generation
				}
			}
		}
	}
	if size > mostTickets {
		return &cell{e: c.e, terms: c.terms}, 0
	}
	r := &ticketRing{c, make([]cell, size)}
	for i := range r.slots {
		r.slots[i].e, r.slots[i].terms = c.e, c.terms
	}
	t, generation := r.take(turn)
	p.tickets.Store(r) // of two made at once one is forgotten
	return t, generation
}
