package core

import (
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/internal/machine"
)

// The lease of a chain: a ticket that holds the leases of its parts.

// ticketPool keeps a chain's tickets that are not in use.
//
// A ticket's word counts up. Where a refund gives back nothing that a release does not, each
// lease takes one generation: whoever moves the word on releases the parts. Else it takes
// two: g while the lease is held, g+1 when it was released and may yet be refunded, g+2
// when nothing of it is left.
type ticketPool struct {
	sync.Pool
	of *cell // tickets show these terms
}

// suits reports whether t shows what the pool's tickets show.
func (p *ticketPool) suits(t *cell) bool {
	return t.Limit == p.of.Limit && t.name == p.of.name && sameLength(t.x.rate, p.of.x.rate)
}

// quarantine keeps the latest tickets that were released, so that a refund which follows
// finds what they stood for.
type quarantine struct {
	turn    atomic.Uint64
	tickets [quarantined]atomic.Pointer[cell]
}

// quarantined is how many other leases of its chain may be released between a release and
// the refund that follows it. More would make idle chains larger.
const quarantined = 16

// ticket returns a ticket for leases that show the terms of the latest.
func (c *ChainedLimiter) ticket() *cell {
	pool := c.tickets.Load()
	if t, ok := pool.Get().(*cell); ok {
		return t
	}
	return newExtra(extra{chain: c, links: make([]Lease, 0, len(c.links)), rate: pool.of.x.rate}, pool.of)
}

// recycle keeps a ticket, whose leases are settled, for the next lease.
func (c *ChainedLimiter) recycle(t *cell) {
	clear(t.x.links[:cap(t.x.links)])
	t.x.links = t.x.links[:0]
	if pool := c.tickets.Load(); t.word.Load() < maxGeneration-2 && pool.suits(t) {
		pool.Put(t)
	}
}

// claim uses up the ticket of the lease of a generation, to undo all it stands for, and
// reports whether this call is the one that does.
func (c *ChainedLimiter) claim(t *cell, generation uint64) bool {
	return t.word.CompareAndSwap(generation, generation+c.step)
}

// newChainTicket returns a ticket that shows the name, the limit, and the window of rate,
// which may be nil.
func newChainTicket(c *ChainedLimiter, links []Lease, name string, limit int, rate *terms) *cell {
	show := cell{terms: &terms{label: &label{name: name}, Terms: machine.Terms{Limit: limit}}}
	x := extra{chain: c, links: links}
	if rate != nil {
		kept := *rate
		x.rate = &kept
		show.Kind, show.Span = machine.Window, rate.length()
	}
	return newExtra(x, &show)
}

// combine returns the lease of all that the ticket holds, with the metadata of its parts,
// of each name the first.
func (c *ChainedLimiter) combine(t *cell, permits int) Lease {
	var name string
	var limit int
	var rate *terms
	left, reset := -1, int64(-1)
	added := false
	for _, k := range t.x.links {
		if x := k.extra(); x != nil && len(x.meta) > 0 {
			added = true
		}
		if k.c == nil || k.c.Limit == 0 {
			continue
		}
		if name == "" {
			name = k.c.name
		}
		if limit == 0 {
			limit = k.limit()
		}
		if rate == nil && k.c.Span != 0 {
			rate = k.c.terms
		}
		if left < 0 || reset < 0 {
			n := k.numbers()
			if left < 0 {
				left = n.left
			}
			if reset < 0 {
				reset = n.reset
			}
		}
	}
	if t.name != name || t.Limit != limit || !sameLength(t.x.rate, rate) {
		t = newChainTicket(c, t.x.links, name, limit, rate)
		c.tickets.Store(&ticketPool{of: t})
	}
	l := newGrant(t, heldTicket, t.word.Load(), permits, int64(left), reset)
	if added {
		return l.withUnion(t.x.links)
	}
	return l
}

// withUnion returns the chain's lease with the metadata of its parts, the first winning.
func (l Lease) withUnion(parts []Lease) Lease {
	var union []Metadata
	for _, k := range parts {
	next:
		for name, value := range k.Metadata() {
			for _, m := range union {
				if m.name == name {
					continue next
				}
			}
			union = append(union, Metadata{name, value})
		}
	}
	return l.With(union...)
}

// backward calls f with each of the parts, last first. One that panics keeps no other from
// its turn.
func (c *ChainedLimiter) backward(parts []Lease, f func(k *link, l Lease)) {
	n := len(parts)
	defer func() {
		if n > 0 {
			c.backward(parts[:n], f)
		}
	}()
	for n > 0 {
		n--
		f(&c.links[n], parts[n])
	}
}

// unwind undoes what the ticket holds; nobody has seen it.
func (c *ChainedLimiter) unwind(t *cell) { c.settle(t, (*link).undo) }

// forgetParts is unwind of grants that are not certain.
func (c *ChainedLimiter) forgetParts(t *cell) { c.settle(t, (*link).forget) }

// settle calls f with each of the ticket's parts, once, and recycles it.
func (c *ChainedLimiter) settle(t *cell, f func(k *link, l Lease)) {
	parts := t.x.links
	t.x.links = parts[:0] // if f panics, nobody settles them again
	c.backward(parts, f)
	c.recycle(t)
}

// release gives back what a redeemed ticket holds, last first.
func (c *ChainedLimiter) release(t *cell) {
	if c.step == 1 {
		c.settle(t, (*link).release)
		return
	}
	c.backward(t.x.links, (*link).release)
	c.keep(t)
}

// keep keeps a ticket that was released, and recycles the one that it takes the place of.
func (c *ChainedLimiter) keep(t *cell) {
	q := c.released.Load()
	if q == nil {
		q = new(quarantine)
		if !c.released.CompareAndSwap(nil, q) {
			q = c.released.Load()
		}
	}
	old := q.tickets[q.turn.Add(1)%quarantined].Swap(t)
	if old == nil {
		return
	}
	// If the swap fails, a refund has been faster, and may be looking at it.
	if g := old.word.Load(); g&1 == 1 && old.word.CompareAndSwap(g, g+1) {
		c.recycle(old)
	}
}

// Refund undoes a grant of this chain that was not used: each limiter's part is refunded,
// or released if the limiter knows no refund. It uses the lease up, as Release does. After
// a Release, which gave back no rate limiter's permits, it gives back those, unless many
// other leases of the chain were released in between: of the latest 16 it is sure.
func (c *ChainedLimiter) Refund(l Lease) {
	if l.outcome() != heldTicket {
		return
	}
	t, g := l.home(), l.generation()
	switch {
	case t.x == nil || t.x.chain != c:
	case c.claim(t, g):
		c.settle(t, (*link).refund)
	case c.step == 2 && t.word.CompareAndSwap(g+1, g+2):
		c.backward(t.x.links, (*link).refund)
	}
}
