package machine

// Account is what a limiter of one kind adds to the machine: who owes what, and when it
// comes back. It is plain arithmetic in integers. The zero value owes nothing. The accounts
// are [Permits], [Bucket] and [Segments]; where they lie in memory is their owner's choice.
type Account interface {
	// bind puts terms in force in place of others: what is taken stays taken. old is nil
	// at the start.
	bind(old, t *Terms, now int64)

	// advance applies what is due by now and reports whether permits came back.
	advance(t *Terms, now int64) bool

	// available returns the permits that can be taken, never below 0.
	available(t *Terms) int

	// take takes n permits, at most those available. served: for a waiter.
	take(t *Terms, now int64, n int, served bool)

	// refund gives back, of a grant, what the limiter still lacks because of it.
	refund(t *Terms, now int64, g Grant, last uint64, r *refunds)

	// ready returns the first instant, now or later, at which n permits can be taken if
	// nothing else is taken; n is at most the limit.
	ready(t *Terms, now int64, n int) int64

	// whole returns the instant by which all permits are back if nothing more is taken. Of
	// a manual limiter, the one by which Replenish would bring all.
	whole(t *Terms, now int64) int64

	// idle returns the instant from which all permits have been available, if they are.
	idle(t *Terms) (since int64, ok bool)

	// kept reports whether taking at now what could be taken at due leaves the same future.
	// It is asked after advance(now).
	kept(t *Terms, due, now int64) bool

	// spent reports whether no grant made by now can be refunded.
	spent() bool

	// clone returns an account of the same state, to play the future on.
	clone() Account
}

// Permits is the account of a concurrency limiter. Time does not matter to it.
type Permits struct{ free int } // limit less what is held; below 0 after the limit shrank

// Free returns how many permits are not held; below 0 after the limit shrank.
func (p *Permits) Free() int { return p.free }

// SetFree says how many permits are not held.
func (p *Permits) SetFree(n int) { p.free = n }

// held is what only Permits is.
type held interface{ add(n int) }

func (p *Permits) add(n int) { p.free += n }

func (p *Permits) bind(old, t *Terms, _ int64) {
	p.free += t.Limit
	if old != nil {
		p.free -= old.Limit
	}
}

func (p *Permits) advance(*Terms, int64) bool                    { return false }
func (p *Permits) available(*Terms) int                          { return max(p.free, 0) }
func (p *Permits) take(_ *Terms, _ int64, n int, _ bool)         { p.free -= n }
func (p *Permits) ready(*Terms, int64, int) int64                { return Never }
func (p *Permits) whole(*Terms, int64) int64                     { return Never }
func (p *Permits) kept(*Terms, int64, int64) bool                { return true }
func (p *Permits) idle(t *Terms) (int64, bool)                   { return 0, p.free == t.Limit }
func (p *Permits) spent() bool                                   { return false }
func (p *Permits) refund(*Terms, int64, Grant, uint64, *refunds) {}
func (p *Permits) clone() Account                                { return &Permits{p.free} }
