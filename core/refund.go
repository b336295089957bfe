package core

import (
	"github.com/sluice-go/sluice/internal/direct"
	"github.com/sluice-go/sluice/internal/machine"
)

// Refund undoes a grant of this limiter that was not used, at most once per lease.
//
// A rate limiter gets back what it still lacks because of the grant: a window's permits
// while they count, a bucket's until it would have been full again had nothing more been
// taken. So a late refund lets nothing through that the limiter alone would not have.
// Refunds are remembered until the limiter is whole; of more than some 4,096 groups of 64
// grants, or some 16 of a window's, the older half is forgotten, and leases as old as those
// are not refunded any more.
func (e *engine) Refund(l Lease) {
	if l.c == nil || l.c.e != e {
		return
	}
	if !l.outcome().spent() {
		l.giveUp(direct.Refunded)
		return
	}
	now := e.lock()
	e.m.Refund(now, l.grant(), e.number())
	e.unlock(now)
}

// undo gives back a grant that nobody has seen.
func (e *engine) undo(l Lease) {
	if !l.outcome().spent() {
		l.Release()
		return
	}
	now := e.lock()
	e.m.Undo(now, l.grant(), e.number())
	e.unlock(now)
}

// forget is undo. The grant stays counted, as one that is refunded does: counts do not fall.
func (e *engine) forget(l Lease) { e.undo(l) }

// certain, runsForeign and refundable: see own.
func (e *engine) certain()          {}
func (e *engine) runsForeign() bool { return false }
func (e *engine) refundable() bool  { return e.terms().Kind != machine.Concurrency }

// number returns the number of the latest grant.
func (e *engine) number() uint64 {
	c := e.cell.Load()
	return c.number(c.word.Load())
}

// grant returns what a refund has to know of a rate limiter's lease.
func (l Lease) grant() machine.Grant {
	c := l.home()
	g := machine.Grant{Number: c.first + l.generation(), Permits: l.permits()}
	switch l.outcome() {
	case spentWindow:
		g.At = l.v
	case spentManual:
		g.Level = machine.Level{Full: l.v, Spare: c.spare(int(l.u))}
		g.Lack = c.Limit - int(l.u)
	case spentBucket:
		at, spare := c.spentWhen(l.v)
		g.Level = machine.Level{Full: c.From + at + l.u, Spare: spare}
		g.Lack = c.Limit - l.numbers().left
	}
	if g.Level.Full == machine.Never {
		g.Tick = l.numbers().tick
	}
	return g
}
