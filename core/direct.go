package core

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/internal/direct"
)

// The ways into core for the packages of this module; see package direct.
var _ = direct.Install(&direct.Ways[Lease]{
	Permits: func(limiter any) (direct.Permits, bool) {
		l, ok := exactly(limiter)
		return (*plain)(l), ok
	},
	Lease: func(p direct.Permits, n int) Lease { return p.(*plain).lease(n) },
	Watch: func(limiter any, hook direct.Hook) (direct.Watched[Lease], bool) {
		l, ok := exactly(limiter)
		if ok {
			t := l.cell.Load().terms
			t.label = &label{name: t.name, hook: hook}
		}
		return (*watched)(l), ok
	},
	Retire: func(limiter any, idle time.Duration) bool {
		e := engineOf(limiter)
		return e != nil && e.retire(idle)
	},
	Turn:    turn,
	Decided: decided,
})

// exactly returns the limiter if it is a *ConcurrencyLimiter, not merely one that embeds
// it, and was made by its constructor.
func exactly(limiter any) (*ConcurrencyLimiter, bool) {
	l, ok := limiter.(*ConcurrencyLimiter)
	return l, ok && l != nil && l.cell.Load() != nil
}

// plain is a concurrency limiter whose permits are taken and given back without a lease.
type plain ConcurrencyLimiter

// TryTake takes n permits in one swap. It fails without a trace.
func (p *plain) TryTake(n int) bool {
	c := p.cell.Load()
	for try := 0; ; try++ {
		w := c.word.Load()
		if uint64(n)-1 >= w&heldMask || w&countMask == countMask {
			return p.tryTakeSlow(c, w, n)
		}
		if c.word.CompareAndSwap(w, w+countOne-uint64(n)) {
			return true
		}
		backOff(try)
	}
}

func (p *plain) tryTakeSlow(c *cell, w uint64, n int) bool {
	if n < 0 || w&shut == 0 && uint64(n) > w&heldMask && c.Limit <= maxHeld {
		return false // the word is open, so nothing is to be had behind it
	}
	now := p.lock()
	ok := false
	if !p.closed {
		if _, ok = p.m.TryQuietly(now, n); ok {
			p.granted.Add(1)
		}
	}
	p.unlock(now)
	return ok
}

// Take takes n permits, waiting for them as Acquire does.
func (p *plain) Take(ctx context.Context, n int) error {
	if ctx.Err() == nil && p.TryTake(n) {
		return nil
	}
	w, l := p.admit(ctx, n, true)
	if w != nil {
		_, err := p.await(ctx, w)
		return err
	}
	return l.Err()
}

// Give gives n permits back.
func (p *plain) Give(n int) { p.giveBack(n, nil) }

// lease returns a lease of n permits that were taken.
func (p *plain) lease(n int) Lease {
	c := p.cell.Load()
	t, generation := p.permits.draw(c)
	left := int64(0)
	if w := c.word.Load(); w&shut == 0 {
		left = (*ConcurrencyLimiter)(p).left(c, w)
	}
	return newGrant(t, heldTicket, generation, n, left, -1)
}

// watched is a concurrency limiter whose leases tell of their end.
type watched ConcurrencyLimiter

func (k *watched) TryAcquire(n int) Lease {
	if lease, ok := k.tryFast(n); ok {
		return lease
	}
	return k.watchSlow((*ConcurrencyLimiter)(k).tryAcquireSlow(n))
}

func (k *watched) Acquire(ctx context.Context, n int) (Lease, error) {
	if ctx.Err() == nil {
		if lease, ok := k.tryFast(n); ok {
			return lease, nil
		}
	}
	lease, err := (*ConcurrencyLimiter)(k).acquireSlow(ctx, n)
	return k.watchSlow(lease), err
}

// tryFast is the limiter's, with a watched lease. The hot one is made in one piece: a call
// for each step would cost as much as the swap.
func (k *watched) tryFast(n int) (Lease, bool) {
	c := k.cell.Load()
	w := c.word.Load()
	if uint64(n)-1 < w&heldMask && w&busy == 0 && w&generationMask != generationMask && c.Limit <= maxHeld {
		if next := w + (generationOne + busy) - uint64(n); c.word.CompareAndSwap(w, next) {
			return Lease{
				c: c, bits: granted(watchedHot, next&generationMask>>generationShift, n),
				u: int64(next&heldMask) | c.bound.Load()<<notedBits, v: c.clock(),
			}, true
		}
		backOff(0)
	}
	lease, ok := (*ConcurrencyLimiter)(k).tryFast(n)
	if ok {
		lease = k.watch(lease)
	}
	return lease, ok
}

// watch makes a lease of tryFast a watched one.
func (k *watched) watch(l Lease) Lease {
	if l.c.Limit > maxNoted {
		return k.watchSlow(l)
	}
	l.u |= k.cell.Load().bound.Load() << notedBits
	l.bits += uint64(watchedHot - heldHot)
	l.v = l.c.clock()
	return l
}

// watchSlow makes any lease a watched one if it holds anything.
func (k *watched) watchSlow(l Lease) Lease {
	c := k.cell.Load()
	if c == nil {
		return l
	}
	l = l.note(c.bound.Load())
	if o := l.outcome(); o == heldHot || o == heldTicket {
		l.bits += uint64(watchedHot - heldHot)
		l.v = c.clock()
	}
	return l
}

// Resize puts another limit in force.
func (k *watched) Resize(limit int) {
	now := k.lock()
	c := k.cell.Load()
	by := limit - c.inForce()
	c.bound.Store(int64(limit))
	k.m.Resize(now, by)
	k.unlock(now)
}

func (k *watched) End(l Lease, cause direct.Cause) {
	if o := l.outcome(); (o == watchedHot || o == watchedTicket) && l.home().e == &k.engine {
		l.end(cause)
	}
}

// giveUp is Release, with a cause for the hook if the lease is watched.
func (l Lease) giveUp(cause direct.Cause) {
	if o := l.outcome(); o == watchedHot || o == watchedTicket {
		l.end(cause)
		return
	}
	l.Release()
}

// end releases a watched lease and, if this call is the one that does, tells the hook.
func (l Lease) end(cause direct.Cause) {
	c := l.c
	if c.x != nil || l.outcome() != watchedHot {
		l.endSlow(cause)
		return
	}
	now := c.clock() // all cells of a concurrency limiter count from one instant
	n := l.bits >> (outcomeBits + generationBits)
	// This is releaseHot where all is as it mostly is, in one piece as in watched.tryFast. What
	// comes after a swap waits for it; so all that is needed then is read before.
	w, limit, hook := c.word.Load(), uint64(c.bound.Load()), c.hook
	credit := w&heldMask + n
	if w&^(heldMask|countMask) == l.generation()<<generationShift|busy && credit <= maxHeld && limit <= maxHeld &&
		(credit != limit || c.e.watch.Load() <= 0) {
		if c.word.CompareAndSwap(w, w-busy+n) {
			hook.Ended(cause, endOf(l.v, now, int(n), int(limit-credit)))
			return
		}
		backOff(0)
	}
	if held, won := c.releaseHot(l.generation(), int(n)); won {
		hook.Ended(cause, endOf(l.v, now, int(n), held))
	}
}

// endSlow is end for a lease that is a ticket's, or that is not only its limiter's.
func (l Lease) endSlow(cause direct.Cause) {
	c, n := l.home(), l.permits()
	now, hook := c.clock(), c.hook // before the ticket is used again
	var held int
	var won bool
	if l.outcome() == watchedHot {
		held, won = c.releaseHot(l.generation(), n)
	} else if won = c.redeem(l.generation()); won {
		held = c.e.giveBack(n, c)
	}
	if won {
		hook.Ended(cause, endOf(l.v, now, n, held))
	}
}

// endOf returns the end of a lease of n permits while others hold so many.
func endOf(granted, now int64, n, held int) direct.End {
	return direct.End{
		Granted:  time.Duration(granted),
		Held:     time.Duration(max(now-granted, 0)),
		Permits:  n,
		InFlight: held + n,
	}
}
