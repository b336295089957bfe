package core

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/machine"
	"github.com/sluice-go/sluice/internal/wait"
)

// The functions of core that are for packages of this module only; see package backdoor.
var _ = backdoor.Install(&backdoor.Ways[Limiter, Lease]{
	Permits: func(limiter Limiter) (backdoor.Permits[Lease], bool) {
		if u, ok := limiter.(*unlimited); ok {
			return (*unmetered)(u), true
		}
		l, ok := exactly(limiter)
		return (*plain)(l), ok
	},
	Watch: func(limiter Limiter, hook backdoor.Hook) (backdoor.Watched[Lease], bool) {
		l, ok := exactly(limiter)
		if ok {
			s := l.settings.Load().copy()
			s.label = &label{name: s.name, hook: hook}
			l.settings.Store(s)
			l.account.spare = handles{}
			l.m.Rebind(&s.Terms)
		}
		return (*watcher)(l), ok
	},
	Retire: func(limiter Limiter, idle time.Duration) bool {
		e := engineOf(limiter)
		return e != nil && e.retire(idle)
	},
	Closed:          isClosed,
	Acquire:         acquireUnder,
	Checked:         checkedAnswer,
	Reserve:         reserve,
	Roots:           allRoots,
	Order:           func(limiter Limiter) uint8 { return uint8(orderOf(limiter)) },
	ReturnsWithTime: returnsWithTime,

	Terms: func(limiter Limiter) (*machine.Terms, machine.Account) {
		e := engineOf(limiter)
		if e == nil || e.settings.Load() == nil {
			return nil, nil
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		t := e.settings.Load().Terms
		return &t, machine.Copy(e.m.Account())
	},
	Granters: func(l Lease) []any { return l.granters(nil) },
	Describe: func(l Lease, by any) { l.extra().by = by.(describer) },
	Grants:   grants,
	ChainOf: func(limiters []Limiter) Limiter {
		c := &ChainedLimiter{limiters: limiters}
		c.leases = &joiner{size: len(c.limiters)}
		return c
	},
	NewJoiner: func(parts int, settle func([]Lease, int) int) backdoor.Joiner[Lease] {
		return &backdoorJoiner{joiner{size: parts, settle: settle}}
	},
})

// exactly returns the limiter if it is a *ConcurrencyLimiter, not merely one that embeds
// it, and was made by its constructor.
func exactly(limiter Limiter) (*ConcurrencyLimiter, bool) {
	l, ok := limiter.(*ConcurrencyLimiter)
	return l, ok && l != nil && l.settings.Load() != nil
}

// plain is a concurrency limiter whose permits are taken and returned without a lease.
type plain ConcurrencyLimiter

// TryTake takes n permits if they are available. It fails without a trace.
func (p *plain) TryTake(n int) bool {
	p.mu.Lock()
	s := p.simpleLocked(n)
	if s == nil {
		p.mu.Unlock()
		l := p.trySlow(n, true)
		p.strip(l)
		return l.Acquired()
	}
	_, _, _, ok := p.account.Try(&s.Terms, 0, n)
	if ok {
		p.granted++
		p.account.idleSince = machine.Never
	}
	p.mu.Unlock()
	return ok
}

// Try takes n permits if they are available, and counts a rejection.
func (p *plain) Try(n int) error {
	l := p.TryAcquire(n)
	p.strip(l)
	return l.Err()
}

// Take takes n permits, waiting for them whatever QueueLimit is. The wait ends with s too.
func (p *plain) Take(ctx context.Context, s *wait.Source, n int) error {
	l, _, err := p.acquireUnder(ctx, n, s, beyond)
	if err != nil {
		return s.Explain(ctx, err)
	}
	p.strip(l)
	return nil
}

// strip ends a lease that no caller has, and keeps its permits.
func (p *plain) strip(l Lease) {
	if l.outcome() != held {
		return
	}
	h := l.handle()
	p.mu.Lock()
	h.endLocked(h.generation)
	p.account.spareLocked(h, h.settings(), p.settings.Load())
	p.mu.Unlock()
}

// Give gives n permits back.
func (p *plain) Give(n int) {
	p.mu.Lock()
	if p.m.Empty() {
		p.account.Give(n)
		p.mu.Unlock()
		return
	}
	p.m.Release(0, n)
	p.account.idleLocked(p.settings.Load(), &p.clock)
	p.unlockAndWake(0)
}

// Pass counts a grant of permits that were given back and taken at once.
func (p *plain) Pass(n int) bool {
	p.mu.Lock()
	s := p.simpleLocked(n)
	ok := s != nil && p.account.Free(&s.Terms) >= 0
	if ok {
		p.granted++
	}
	p.mu.Unlock()
	return ok
}

// Lease returns a lease of n permits that were taken.
func (p *plain) Lease(n int) Lease {
	p.mu.Lock()
	l := p.account.holdLocked(p.settings.Load(), n, p.m.Available(), &p.clock)
	p.mu.Unlock()
	return l
}

// unmetered is an unlimited whose grants are taken without a lease.
type unmetered unlimited

func (f *unmetered) TryTake(n int) bool { return f.Try(n) == nil }

func (f *unmetered) Try(int) error {
	if f.closed.Load() {
		return ErrClosed
	}
	f.granted.Add(1)
	return nil
}

// Take does not wait.
func (f *unmetered) Take(ctx context.Context, s *wait.Source, n int) error {
	if err := s.Ended(ctx); err != nil {
		return err
	}
	return f.Try(n)
}

func (f *unmetered) Give(int) {}

func (f *unmetered) Pass(n int) bool { return f.Try(n) == nil }

func (f *unmetered) Lease(n int) Lease { return newLease(&free, granted, n, unknown, unknown, 0) }

// watcher is a concurrency limiter that calls a hook when its leases end.
type watcher ConcurrencyLimiter

func (k *watcher) Resize(limit int) { k.resize(limit) }

func (k *watcher) End(l Lease, cause backdoor.Cause) {
	if c := (*ConcurrencyLimiter)(k); l.outcome() == held && l.owner() == owner(c) {
		c.end(l, cause)
	}
}

// backdoorJoiner is a joiner as package backdoor has it.
type backdoorJoiner struct{ joiner }

func (j *backdoorJoiner) Begin() backdoor.Parts[Lease] { return j.begin() }

// granters appends the Granters of the lease. A joined lease is this call's meanwhile, as if it were settled.
func (l Lease) granters(all []any) []any {
	switch by := l.owner().(type) {
	case *granter:
		return append(all, by.Granter)
	case *chainLease:
		if l.outcome() != held || !by.handle.settle(l.at, 1) {
			return all
		}
		for _, part := range by.parts {
			all = part.granters(all)
		}
		switch by.settled(l.at, true) {
		case thenRelease:
			by.released(0)
		case thenRefund:
			by.settled(l.at, false)
			by.undo()
		}
	}
	return all
}
