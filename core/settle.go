package core

import (
	"github.com/sluice-go/sluice/internal/direct"
	"github.com/sluice-go/sluice/internal/machine"
)

// Settle corrects the cost of a grant of this limiter to permits, once the cost is known. It
// returns a lease that replaces l: acquired, of that number of permits, with the metadata of l.
// From then on l and its copies are spent: releasing, refunding or settling them does nothing.
//
// If the grant has cost less, Settle gives the difference back and serves the waiters that now
// fit. A concurrency limiter takes back all of it. At the instant of the grant a rate limiter
// takes back all of it; later it takes back only what is certain to be still missing because of
// the grant, so a late Settle never lets the limiter grant more than it would have granted
// otherwise. A window takes back all of it as long as the segment of the grant counts. For
// grants from before a Reset or an Update, a rate limiter takes nothing back, except that a
// window does so if the Update did not change the boundaries of its segments.
//
// If the grant has cost more, Settle takes the difference at once, even above the limit:
// nothing is available until that debt is paid, by time or by releases. Settle does not wait,
// and no statistic counts it. Permits below 0 count as 0. If permits is what l already has, or
// l is not acquired, is spent, or was granted by another limiter, Settle returns l unchanged
// and nothing happens. Leases can be settled after Close.
//
// A rate limiter takes nothing back for a grant that about 262,000 grants and settlements have
// followed. If settlements become later than 2,000 of those, and later than they were, it may take
// nothing back for the first of them.
//
// A lease of zero permits, and one that was settled too late to give anything back, is not
// remembered: settling it to more, twice, takes the difference twice.
func (e *engine) Settle(l Lease, permits int) Lease {
	permits = max(permits, 0)
	if !l.Acquired() || l.t == nil || l.home().e != e || permits == l.permits() {
		return l
	}
	if e.epoch.Load().Kind == machine.Concurrency {
		return e.settleHeld(l, permits)
	}
	return e.settleTaken(l, permits)
}

// Refund undoes a grant of this limiter that was not used: it is Settle to zero permits.
func (e *engine) Refund(l Lease) { e.Settle(l, 0) }

// settleHeld settles a lease of a concurrency limiter: the lease ends, and a lease of another
// ticket keeps the n permits.
func (e *engine) settleHeld(l Lease, n int) Lease {
	if l.outcome() == free {
		e.epoch.Load().giveBack(0, -n)
	} else if !l.giveUp(direct.Refunded, n) {
		return l
	}
	if n == 0 {
		return l.complete(0)
	}
	o := l.outcome()
	if o == free {
		o = held
	}
	t := e.m.Account().(*permitAccount).draw(e)
	return l.standIn(t, o, t.word.Load(), n)
}

// settleTaken settles a lease of a rate limiter.
func (e *engine) settleTaken(l Lease, n int) Lease {
	t := l.terms()
	g := machine.Grant{At: l.at}
	if l.outcome() == taken && t.Kind == machine.TokenBucket {
		g = l.bucketGrant(t)
	}
	g.Number, g.Permits = l.home().number(l.generation()), l.permits()
	now := e.lock()
	defer func() { e.unlock(now) }()
	settlement := machine.Complete
	if l.outcome() == taken {
		settlement = e.m.Settle(now, g, n, e.number())
	} else if n > g.Permits {
		e.m.Take(now, n-g.Permits)
	}
	switch {
	case settlement == machine.Spent:
		return l
	case settlement == machine.Complete || n == 0:
		return l.complete(n)
	}
	e.granted.Add(^uint64(0)) // no grant: only its number is new
	if settlement == machine.Renewed {
		return l.renewed(e, now, n)
	}
	epoch, generation := e.nextGeneration(now)
	s := l.standIn(epoch, taken, generation, n)
	if n < g.Permits || g.Part {
		s.bits |= part
	}
	return s
}

// renewed returns a bucket's lease that replaces l, as a lease of n permits granted now, but
// with the metadata of l.
func (l Lease) renewed(e *engine, now int64, n int) Lease {
	b := e.m.Account().(*bucketAccount)
	s := b.grant(e, machine.Answer{At: now, Left: e.m.Terms().Limit - b.Lack(), Whole: e.m.Whole(now)}, n)
	x, f := l.carried(), l.figures()
	f.permits = n
	x.home, x.figures, x.lack = s.home(), &f, 0
	if wide := s.extra(); wide != nil {
		x.lack = wide.lack
	}
	return s.with(x)
}

// complete returns a lease of n permits that gives nothing back, with the metadata of l.
func (l Lease) complete(n int) Lease {
	x, f := l.carried(), l.figures()
	var t *ticket // nil: of no limiter that has more metadata
	if l.terms() != nil {
		if t = l.home(); t.terms == nil {
			t = t.e.epoch.Load() // others use that ticket now
		}
	}
	s := grant(t, free, 0, n, int64(f.left), f.reset)
	if x.meta == nil {
		return s
	}
	x.home, x.figures = t, nil
	if uint64(n) > maxPermits {
		x.figures = s.t.x.figures
	}
	return s.with(x)
}

// standIn returns the lease that replaces l: of a generation of t, of n permits, with the
// metadata of l.
func (l Lease) standIn(t *ticket, o outcome, generation uint64, n int) Lease {
	s := Lease{t: t, bits: uint64(o) | generation<<generationShift, state: l.state, at: l.at}
	x := l.carried()
	switch {
	case uint64(n) > maxPermits, x.figures != nil, l.outcome() == free, o == taken && t.terms != l.home().terms:
		// What l reports by its state depends on its outcome and terms.
		f := l.figures()
		f.permits = n
		x.figures = &f
	case x.meta == nil:
		s.bits |= uint64(n) << outcomeBits
		return s
	default:
		s.bits |= uint64(n) << outcomeBits
	}
	x.home = t
	s = s.with(x)
	s.t.terms = l.terms()
	return s
}
