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
	Watch: func(limiter any, hook func(direct.End)) (direct.Watched[Lease], bool) {
		l, ok := exactly(limiter)
		if ok {
			l.permits.hook = hook
			l.cell.Load().spareBits = watchedWord
		}
		return (*watched)(l), ok
	},
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
		if uint64(n)-1 >= w&maxCredit {
			return p.tryTakeSlow(n)
		}
		if c.word.CompareAndSwap(w, w-uint64(n)) {
			p.adjust.Add(1)
			return true
		}
		backOff(try)
	}
}

func (p *plain) tryTakeSlow(n int) bool {
	l, ok := p.tryQuietly(n)
	if ok {
		l.strip()
	}
	return ok
}

// Take takes n permits, waiting for them as Acquire does.
func (p *plain) Take(ctx context.Context, n int) error {
	l, err := p.Acquire(ctx, n)
	if err == nil {
		l.strip()
	}
	return err
}

// Give gives n permits back.
func (p *plain) Give(n int) { p.giveBack(n) }

// lease returns a lease of n permits that were taken.
func (p *plain) lease(n int) Lease {
	c := p.cell.Load()
	t, generation := p.permits.draw(c)
	p.adjust.Add(-1) // draw counts a grant
	return newGrant(t, heldTicket, generation, n, c.free(), -1)
}

// free returns the permits that the cell's word says are available.
func (c *cell) free() int {
	if w := c.word.Load(); w&shut == 0 {
		return int(w & maxCredit)
	}
	return 0
}

// strip makes the lease one that holds nothing, and leaves its permits taken.
func (l Lease) strip() {
	switch l.outcome() {
	case heldTicket:
		l.redeem()
	case heldHot:
		l.home().cool()
	}
}

// cool ends the hot lease, which nobody has seen, and leaves its permits taken.
func (c *cell) cool() {
	for try := 0; ; try++ {
		w := c.word.Load()
		if w&shut != 0 {
			now := c.e.lock()
			c.word.Store(c.word.Load() &^ busy)
			c.e.unlock(now)
			return
		}
		if c.word.CompareAndSwap(w, w-busy) {
			return
		}
		backOff(try)
	}
}

// watched is a concurrency limiter whose leases tell of their end.
type watched ConcurrencyLimiter

func (k *watched) TryAcquire(n int) Lease { return k.watch(k.engine.TryAcquire(n)) }

func (k *watched) Acquire(ctx context.Context, n int) (Lease, error) {
	l, err := k.engine.Acquire(ctx, n)
	return k.watch(l), err
}

// watch makes the lease a watched one if it holds anything.
func (k *watched) watch(l Lease) Lease {
	c := k.cell.Load()
	if c == nil {
		return l
	}
	l = l.note(c.force.Load())
	if o := l.outcome(); o == heldHot || o == heldTicket {
		l.bits += uint64(watchedHot - heldHot)
		l.v = k.clock()
	}
	return l
}

// Resize puts another limit in force.
func (k *watched) Resize(limit int) {
	now := k.lock()
	p := &k.permits
	p.free += limit - p.limit
	p.limit = limit
	k.cell.Load().force.Store(int64(limit))
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
	c, n := l.home(), l.permits()
	e := c.e
	now := e.clock()
	var held int
	var won bool
	if l.outcome() == watchedHot {
		held, won = c.releaseHot(l.generation(), n)
	} else if won = l.redeem(); won {
		held = e.giveBack(n)
	}
	if won {
		e.acct.(*permits).hook(direct.End{
			Granted:  time.Duration(l.v),
			Held:     time.Duration(max(now-l.v, 0)),
			Permits:  n,
			InFlight: held + n,
			Cause:    cause,
		})
	}
}
