package core

import "github.com/sluice-go/sluice/internal/machine"

// The lease of a chain: a ticket that holds the leases of its parts.

// draw returns a ticket that holds nothing.
func (c *ChainedLimiter) draw() *ticket {
	if t, ok := c.tickets.Get().(*ticket); ok {
		return t
	}
	return newChainTicket(c, make([]Lease, 0, len(c.limiters)))
}

// newChainTicket returns a ticket that shows the same terms as the latest lease of the chain.
func newChainTicket(c *ChainedLimiter, parts []Lease) *ticket {
	k := &struct {
		ticket
		extra
	}{extra: extra{chain: c, parts: parts}}
	k.ticket.x, k.ticket.terms = &k.extra, c.shown.Load()
	return &k.ticket
}

// recycle keeps a ticket, whose leases have ended, for another lease.
func (c *ChainedLimiter) recycle(t *ticket) {
	clear(t.x.parts[:cap(t.x.parts)])
	t.x.parts = t.x.parts[:0]
	if t.word.Load() < maxGeneration && t.terms == c.shown.Load() {
		c.tickets.Put(t)
	}
}

// combine counts and returns the lease of all parts that the ticket holds. Of each name it
// takes the metadata of the first part that has it.
func (c *ChainedLimiter) combine(t *ticket, permits int) Lease {
	var name string
	var limit int
	var window int64
	left, reset := -1, int64(-1)
	added := false
	for _, k := range t.x.parts {
		x, of := k.extra(), k.terms()
		added = added || x != nil && len(x.meta) > 0
		if of == nil {
			continue
		}
		if name == "" {
			name = of.name
		}
		if window == 0 {
			window = of.length()
		}
		if limit == 0 || left < 0 || reset < 0 {
			f := k.figures()
			if limit == 0 {
				limit = f.limit
			}
			if left < 0 {
				left = f.left
			}
			if reset < 0 {
				reset = f.reset
			}
		}
	}
	if s := t.terms; s.name != name || s.Limit != limit || s.Span != window {
		show := &terms{label: &label{name: name}, Terms: machine.Terms{Kind: machine.Window, Limit: limit, Span: window}}
		c.shown.Store(show)
		t = newChainTicket(c, t.x.parts)
	}
	c.granted.Add(1)
	l := grant(t, held, t.word.Load(), permits, int64(left), reset)
	if added {
		return l.withUnion(t.x.parts)
	}
	return l
}

// withUnion returns the chain's lease with the metadata of its parts; the first of a name wins.
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

// backward calls f for each of the n parts, last first, even if a call panics.
func (c *ChainedLimiter) backward(n int, f func(i int)) {
	defer func() {
		if n > 0 {
			c.backward(n, f)
		}
	}()
	for n > 0 {
		n--
		f(n)
	}
}

// undo refunds what the ticket holds; no caller has seen it.
func (c *ChainedLimiter) undo(t *ticket) {
	c.backward(len(t.x.parts), func(i int) { settle(c.limiters[i], t.x.parts[i], 0) })
	c.recycle(t)
}

// release releases what a ticket holds, last first; its lease has ended.
func (c *ChainedLimiter) release(t *ticket) {
	c.backward(len(t.x.parts), func(i int) { t.x.parts[i].Release() })
	c.recycle(t)
}
