package machine

import "math"

// Account is what a limiter of one kind adds to the machine: what has been taken, and when it
// comes back. It is plain arithmetic in integers. Nothing is taken from the zero value. The
// accounts are [Permits], [Bucket] and [Segments]; their owner decides where they lie in
// memory.
//
// More than the limit may be taken: by Settle, or because an Update lowered the limit. Then
// nothing is available until the excess has come back.
type Account interface {
	// bind puts terms in force in place of others: permits that are taken stay taken. old is
	// nil at the start.
	bind(old, t *Terms, now int64)

	// advance applies what is due by now and reports whether permits came back.
	advance(t *Terms, now int64) bool

	// available returns the permits that can be taken, never below 0.
	available(t *Terms) int

	// take takes n permits, available or not. The sum of all that is taken is capped at
	// math.MaxInt. For a concurrency limiter n may be below 0, and then gives back.
	take(t *Terms, now int64, n int)

	// giveBack gives back at most n permits of a grant: as many as are certain to be still
	// missing because of it. low is a lower bound of what a bucket has lacked since the grant,
	// or nil.
	giveBack(t *Terms, now int64, g Grant, n int, low *Bucket) (given int)

	// bucket returns the account if it is a bucket's, else nil.
	bucket() *Bucket

	// reset makes the account as new.
	reset(t *Terms, now int64)

	// ready returns the first instant, now or later, at which n permits can be taken if
	// nothing else is taken; n is at most the limit.
	ready(t *Terms, now int64, n int) int64

	// even reports whether a waiter for n permits takes permits as soon as they come. If all
	// waiters do, the time at which a later one is served depends only on their sum of permits;
	// see behind.
	even(t *Terms, n int) bool

	// behind returns the first instant, now or later, at which n permits can be taken after
	// waiters, all of them even, have taken ahead permits as they came.
	behind(t *Terms, now int64, ahead, n int) int64

	// whole returns the instant by which all permits are back if nothing more is taken. For a
	// manual limiter, it is the instant by which Replenish would bring all back.
	whole(t *Terms, now int64) int64

	// idle returns the instant from which all permits have been available, and whether they
	// are.
	idle(t *Terms) (since int64, ok bool)

	// clone returns an account of the same state, to play the future on.
	clone() Account
}

// Permits is the account of a concurrency limiter. It does not depend on time.
type Permits struct {
	held     uint64 // permits that are held, modulo 2^64
	overflow uint64 // times 2^64: settled leases may hold more in all than a word tells
}

// Free returns how many permits are not held; it is below 0 if more than the limit are.
func (p *Permits) Free(t *Terms) int {
	if p.overflow > 0 || p.held > math.MaxInt {
		return -math.MaxInt
	}
	return t.Limit - int(p.held)
}

// SetFree sets the number of permits that are not held to n.
func (p *Permits) SetFree(t *Terms, n int) { p.held, p.overflow = uint64(t.Limit-n), 0 }

// Add adds n, which may be below 0, to the number of permits that are held.
func (p *Permits) Add(n int) {
	before := p.held
	p.held += uint64(n)
	switch {
	case n > 0 && p.held < before:
		p.overflow++
	case n < 0 && p.held > before:
		p.overflow--
	}
}

func (p *Permits) bind(*Terms, *Terms, int64)                      {}
func (p *Permits) advance(*Terms, int64) bool                      { return false }
func (p *Permits) available(t *Terms) int                          { return max(p.Free(t), 0) }
func (p *Permits) take(_ *Terms, _ int64, n int)                   { p.Add(n) }
func (p *Permits) giveBack(*Terms, int64, Grant, int, *Bucket) int { return 0 }
func (p *Permits) bucket() *Bucket                                 { return nil }
func (p *Permits) reset(*Terms, int64)                             {}
func (p *Permits) ready(*Terms, int64, int) int64                  { return Never }
func (p *Permits) even(*Terms, int) bool                           { return true }
func (p *Permits) behind(*Terms, int64, int, int) int64            { return Never }
func (p *Permits) whole(*Terms, int64) int64                       { return Never }
func (p *Permits) idle(t *Terms) (int64, bool)                     { return 0, p.Free(t) == t.Limit }
func (p *Permits) clone() Account                                  { c := *p; return &c }
