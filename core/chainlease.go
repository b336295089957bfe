package core

import (
	"slices"
	"sync"

	"github.com/sluice-go/sluice/internal/machine"
)

// The lease of a chain: a ticket that holds the leases of its parts.

// ticketPool keeps a chain's tickets that are not in use.
type ticketPool struct {
	sync.Pool
	of *cell // tickets show these terms
}

// suits reports whether t shows what the pool's tickets show.
func (p *ticketPool) suits(t *cell) bool {
	return t.Limit == p.of.Limit && t.name == p.of.name && sameLength(t.x.rate, p.of.x.rate)
}

// ticket returns a ticket for leases that show the terms of the latest.
func (c *ChainedLimiter) ticket() *cell {
	pool := c.tickets.Load()
	if t, ok := pool.Get().(*cell); ok {
		return t
	}
	return newExtra(extra{chain: c, links: make([]Lease, 0, len(c.links)), rate: pool.of.x.rate}, pool.of)
}

func (c *ChainedLimiter) recycle(t *cell) {
	clear(t.x.links)
	t.x.links = t.x.links[:0]
	if pool := c.tickets.Load(); t.word.Load() < maxGeneration && pool.suits(t) {
		pool.Put(t)
	}
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
	c.granted.Add(1)
	var name string
	var limit int
	var rate *terms
	left, reset := -1, int64(-1)
	added := false
	for _, k := range t.x.links {
		if x := k.extra(); x != nil && x.meta != nil {
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
	l := newGrant(t, heldTicket, t.word.Load(), permits, left, reset)
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

// unwind undoes what the ticket holds, last first; nobody has seen it.
func (c *ChainedLimiter) unwind(t *cell) {
	for i, l := range slices.Backward(t.x.links) {
		c.links[i].undo(l)
	}
	c.recycle(t)
}

// forgetParts is unwind as if there had been no grants.
func (c *ChainedLimiter) forgetParts(t *cell) {
	for i, l := range slices.Backward(t.x.links) {
		c.links[i].forget(l)
	}
	c.recycle(t)
}

// release gives back what a redeemed ticket holds, last first.
func (c *ChainedLimiter) release(t *cell) {
	for _, l := range slices.Backward(t.x.links) {
		l.Release()
	}
	c.recycle(t)
}

// refund undoes what a redeemed ticket holds, last first.
func (c *ChainedLimiter) refund(t *cell) {
	for i, l := range slices.Backward(t.x.links) {
		refund(c.links[i].Limiter, l)
	}
	c.recycle(t)
}

// Refund undoes a grant of this chain that was not used: each limiter's part is refunded,
// or released if the limiter knows no refund. It uses the lease up, as Release does.
func (c *ChainedLimiter) Refund(l Lease) {
	if l.outcome() != heldTicket {
		return
	}
	if t := l.home(); t.x != nil && t.x.chain == c && l.redeem() {
		c.refund(t)
	}
}
